from typing import Any

import pytest

from dayzero.core.events import FinishReason
from tests.gateway.stand import EOS, START, says, sse, stand


def test_a_plain_answer_has_every_field_that_clients_read() -> None:
    body = stand(says("hello")).complete("hi").json()
    assert body["id"].startswith("cmpl-")
    assert body["object"] == "text_completion"
    assert body["choices"] == [{"index": 0, "text": "hello", "logprobs": None, "finish_reason": "stop"}]
    assert body["usage"]["prompt_tokens"] == 2


def test_a_stream_is_a_plain_answer_in_parts() -> None:
    events = sse(stand(says("hello")).complete(stream=True, stream_options={"include_usage": True}))
    assert "".join(choice["text"] for event in events for choice in event["choices"]) == "hello"
    assert [c["finish_reason"] for event in events for c in event["choices"]] == [None] * 5 + ["stop"]
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 6


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("hi", [[104, 105]]),
        (["hi", "yo"], [[104, 105], [121, 111]]),
        ([104, 105], [[104, 105]]),
        ([[104], [105]], [[104], [105]]),
        (["hi", [105]], [[104, 105], [105]]),
    ],
)
def test_a_prompt_may_be_text_or_ids_or_several_of_them(prompt: object, tokens: list[list[int]]) -> None:
    this = stand()
    body = this.complete(prompt).json()
    assert sorted(submit.prompt for submit in this.replica.submits) == sorted(tokens)
    assert [choice["index"] for choice in body["choices"]] == list(range(len(tokens)))


def test_choices_of_several_prompts_are_numbered_prompt_by_prompt() -> None:
    this = stand(lambda submit: says(bytes(submit.prompt) + b"%d" % submit.choice)(submit))
    body = this.complete(["a", "b"], n=2).json()
    assert [choice["text"] for choice in body["choices"]] == ["a0", "a1", "b0", "b1"]


def test_markup_in_a_prompt_is_markup_unless_told_otherwise() -> None:
    this = stand()
    this.complete("<|eos|>")
    this.complete("<|eos|>", parse_special=False)
    assert this.replica.submits[0].prompt == [EOS]
    assert this.replica.submits[1].prompt == list(b"<|eos|>")


def test_an_echo_comes_before_the_output() -> None:
    this = stand(says("lo"))
    assert this.complete("hel", echo=True).json()["choices"][0]["text"] == "hello"
    assert this.complete([104, 101, 108], echo=True).json()["choices"][0]["text"] == "hello"
    events = sse(this.complete("hel", echo=True, stream=True))
    assert "".join(choice["text"] for event in events for choice in event["choices"]) == "hello"


def test_log_likelihood_of_a_prompt_as_evaluation_tools_ask_for_it() -> None:
    this = stand(says("!", FinishReason.LENGTH))
    choice = this.complete([104, 105], echo=True, max_tokens=1, logprobs=1, temperature=0).json()["choices"][0]
    assert choice["text"] == "hi!"
    assert choice["logprobs"] == {
        "tokens": ["h", "i", "!"],
        "token_logprobs": [None, -0.5, -0.5],
        "top_logprobs": [None, {"i": -0.5}, {"!": -0.5}],
        "text_offset": [0, 1, 2],
    }
    params = this.replica.submits[0].params
    assert (params.logprobs, params.prompt_logprobs, params.max_tokens) == (1, 1, 1)


def test_the_end_of_sequence_token_is_in_the_logprobs_so_that_dropping_the_last_one_drops_no_prompt() -> None:
    choice = stand(says("")).complete([104, 105], echo=True, max_tokens=1, logprobs=1).json()["choices"][0]
    assert choice["text"] == "hi"
    assert choice["logprobs"]["tokens"] == ["h", "i", "<|eos|>"]


def test_a_prompt_can_be_scored_without_any_output() -> None:
    """B50: `max_tokens` 0 was refused, so that no prompt could be scored alone."""
    this = stand(says("", FinishReason.LENGTH))
    choice = this.complete([104, 105], echo=True, max_tokens=0, logprobs=1).json()["choices"][0]
    assert choice["logprobs"]["token_logprobs"] == [None, -0.5]
    assert choice["finish_reason"] == "length"


def test_an_echo_without_output_or_scores_is_just_the_prompt() -> None:
    choice = stand(says("", FinishReason.LENGTH)).complete("hi", echo=True, max_tokens=0).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("hi", "length")


def test_the_chosen_token_is_always_among_the_alternatives() -> None:
    logprobs = stand(says("z", FinishReason.LENGTH)).complete(logprobs=0).json()["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == [{"z": -0.5}]


def test_parts_of_a_character_have_names_that_do_not_collide() -> None:
    logprobs = stand(says("é", FinishReason.LENGTH)).complete(logprobs=0).json()["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["bytes:\\xc3", "bytes:\\xa9"]
    assert logprobs["text_offset"] == [0, 0]


def test_token_ids_are_returned_where_asked() -> None:
    choice = stand(says("!")).complete("hi", return_token_ids=True).json()["choices"][0]
    assert (choice["prompt_token_ids"], choice["token_ids"]) == ([104, 105], [33, EOS])


def test_a_completion_that_does_not_say_gets_sixteen_tokens() -> None:
    this = stand()
    this.complete()
    assert this.replica.submits[0].params.max_tokens == 16


@pytest.mark.parametrize(
    ("prompt", "fields", "param"),
    [
        ("", {}, "prompt"),
        ([], {}, "prompt"),
        ([[]], {}, "prompt"),
        (["a", ""], {}, "prompt"),
        ([1, "a"], {}, "prompt"),
        ([260], {}, "prompt"),
        ([-1], {}, "prompt"),
        ([10**12], {}, "prompt"),
        ([True], {}, "prompt[0]"),
        ([1.5], {}, "prompt[0]"),
        ({"a": 1}, {}, "prompt"),
        (["a"] * 65, {}, "prompt"),
        ([5] * 513, {}, "prompt"),
        ("x" * 100_000, {}, "prompt"),
        ("hi", {"max_tokens": 0}, "max_tokens"),
        ("hi", {"max_tokens": 511}, "prompt"),
        ("hi", {"logprobs": 21}, "logprobs"),
        ("hi", {"logprobs": -1}, "logprobs"),
        ("hi", {"logprobs": True}, "logprobs"),
        ("hi", {"suffix": "x"}, "suffix"),
        ("hi", {"best_of": 2}, "best_of"),
        ("hi", {"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_a_bad_value_is_a_400_that_names_its_field(prompt: object, fields: dict[str, Any], param: str) -> None:
    this = stand()
    response = this.complete(prompt, **fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert this.replica.submits == []
    assert this.gateway.admission.in_flight == 0


def test_equal_prompts_have_noise_of_their_own_and_the_seed_brings_all_of_it_back() -> None:
    this = stand()
    first = this.complete(["hi", "hi"])
    again = this.complete(["hi", "hi"], seed=int(first.headers["x-seed"]))
    drawn, given = [[submit.params.seed for submit in this.replica.submits[i : i + 2]] for i in (0, 2)]
    assert len(set(drawn)) == 2
    assert sorted(drawn) == sorted(given)
    assert again.headers["x-seed"] == first.headers["x-seed"]
    this.complete(["hi", "hi"], seed=-1)
    assert {submit.params.seed for submit in this.replica.submits[4:]} == {2**64 - 1, 0}


@pytest.mark.parametrize(
    ("prompt", "offsets"),
    [("<|start|>hi", [0, 9, 10, 11]), ([START, 104, 105], [0, 0, 1, 2]), ([104, 0xC3], [0, 1, 2])],
)
def test_offsets_point_into_the_text_that_is_shown(prompt: object, offsets: list[int]) -> None:
    choice = stand(says("!", FinishReason.LENGTH)).complete(prompt, echo=True, logprobs=0).json()["choices"][0]
    assert choice["logprobs"]["text_offset"] == offsets
    assert choice["text"][offsets[-1] :] == "!"


def test_logprobs_that_were_asked_for_are_there_even_of_nothing() -> None:
    assert stand(says("x")).complete(logprobs=0, stop="x").json()["choices"][0]["logprobs"]["tokens"] == []
    assert (
        stand(says("", FinishReason.LENGTH)).complete(echo=True, max_tokens=0).json()["choices"][0]["logprobs"] is None
    )


def test_a_stream_tells_the_ids_of_its_prompt_once() -> None:
    events = sse(stand(says("abc")).complete([104, 105], stream=True, return_token_ids=True, n=2))
    told = [choice["index"] for e in events for choice in e["choices"] if choice.get("prompt_token_ids") == [104, 105]]
    assert sorted(told) == [0, 1]
    ids = [token for e in events for choice in e["choices"] if choice["index"] == 1 for token in choice["token_ids"]]
    assert ids == [*b"abc", EOS]


def test_partial_json_behind_an_echoed_prompt_is_refused() -> None:
    error = stand().complete(stream=True, echo=True, stream_options={"partial_json": True}).json()["error"]
    assert "echo" in error["message"]


def test_partial_json_of_plain_text_is_refused_with_what_to_do() -> None:
    error = stand().complete(stream=True, stream_options={"partial_json": True}).json()["error"]
    assert error["param"] == "stream_options.partial_json"
    assert "response_format" in error["message"]
