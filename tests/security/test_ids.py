"""Token ids that a client names are ids of this model's output, on every way in (CVE-2026-93840)."""

from typing import Any

import pytest

from tests.gateway.stand import SPEC, stand

OUTSIDE = [SPEC.vocab_size, SPEC.vocab_size + 1, -1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63)]
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}

WAYS_IN = {
    "bias of a chat": ("/v1/chat/completions", lambda id_: {**CHAT, "logit_bias": {str(id_): 100}}),
    "bias of a completion": ("/v1/completions", lambda id_: {"prompt": "hi", "logit_bias": {str(id_): 100}}),
    "stop of a chat": ("/v1/chat/completions", lambda id_: {**CHAT, "stop_token_ids": [id_]}),
    "stop of a completion": ("/v1/completions", lambda id_: {"prompt": "hi", "stop_token_ids": [0, id_]}),
    "prompt": ("/v1/completions", lambda id_: {"prompt": [1, id_]}),
    "one of several prompts": ("/v1/completions", lambda id_: {"prompt": [[1], [id_]]}),
    "echoed prompt": ("/v1/completions", lambda id_: {"prompt": [id_], "echo": True, "max_tokens": 0, "logprobs": 1}),
    "text of ids": ("/detokenize", lambda id_: {"tokens": [1, id_]}),
}


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("id_", OUTSIDE)
def test_an_id_outside_the_vocabulary_is_a_400_on_every_way_in(way: str, id_: int) -> None:
    """CVE-2026-93840: an id at the width of the logits wrote into the next row, which was another's."""
    path, body = WAYS_IN[way]
    this = stand()
    assert this.post(path, body(id_)).status_code == 400
    assert this.replica.submits == []


@pytest.mark.parametrize("way", WAYS_IN)
def test_the_last_id_is_served(way: str) -> None:
    """The bound of CVE-2026-93840 is where it should be."""
    path, body = WAYS_IN[way]
    assert stand().post(path, body(SPEC.vocab_size - 1)).status_code == 200


@pytest.mark.parametrize("count", [-1, 21, 2**31, 2**63, -(2**63), 1.5, "5", True, [1]])
def test_a_number_of_logprobs_out_of_bounds_is_a_400(count: object) -> None:
    """CVE-2026-21869: counts are checked before anything is indexed with them."""
    this = stand()
    assert this.chat(logprobs=True, top_logprobs=count).status_code == 400
    assert this.complete(logprobs=count).status_code == 400
    assert this.complete(logprobs=count, echo=True).status_code == 400
    assert this.replica.submits == []
