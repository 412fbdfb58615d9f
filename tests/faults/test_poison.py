"""One request's numbers stop being finite: it ends with one error, and nobody else's bits change.

The poison is a token whose embedding is not finite, so any request that reads it breaks down from there on. What it
computed lies about in KV blocks, where a mask is no protection: 0 * NaN is NaN.
"""

import random
from collections import Counter
from dataclasses import replace

import msgspec
import pytest
import torch

from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.wire.messages import Submit
from tests.equivalence.batching import known_requests, serve
from tests.equivalence.loaded import POLICY_VERSION, Loaded, Sizes, Traffic
from tests.golden.tiny import TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model

POISON = 77
WORLDS = {
    "llama-float32-nan": ("llama untied, one KV head", torch.float32, torch.nan),
    "llama-bfloat16-inf": ("llama untied, one KV head", torch.bfloat16, torch.inf),
    "gemma3-float32-inf": ("gemma3", torch.float32, torch.inf),
    "gemma3-bfloat16-nan": ("gemma3", torch.bfloat16, torch.nan),
}
SIZES = Sizes(num_blocks=(40, 40), max_step_tokens=24)


class Poisoned(Loaded):
    """A model with the poison in it.

    The head keeps its own copy of the poisoned row, so POISON can be sampled.
    """

    def __init__(self, path, dtype, value):
        super().__init__(path, dtype, max_context=1024)
        table = self.weights.embedding.clone()
        table[POISON] = value
        self.weights = replace(self.weights, embedding=table)
        self._answers = {}

    def alone(self, submit):
        """Computed once for each request."""
        key = (tuple(submit.prompt), submit.choice, submit.params.seed)
        if key not in self._answers:
            self._answers[key] = super().alone(submit)
        return self._answers[key]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Products this small only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=WORLDS)
def poisoned(request, tmp_path_factory):
    name, dtype, value = WORLDS[request.param]
    folder = tmp_path_factory.mktemp("model")
    save(TINY[name], folder)
    return Poisoned(folder, dtype, value)


def sizes(loaded, **values):
    return replace(SIZES, num_blocks=SIZES.num_blocks[: len(loaded.groups)], **values)


def submit(request_id, prompt, **params):
    options = {"max_tokens": 6, "seed": request_id, "temperature": 0.0, "logit_bias": {POISON: -100.0}, **params}
    return Submit(
        request_id=request_id,
        prompt=prompt,
        params=SamplingParams(**options),
        salt="",
        policy_version=POLICY_VERSION,
    )


def tokens(seed, count):
    draw = random.Random(seed)
    return [draw.choice([token for token in range(3, VOCAB_SIZE) if token != POISON]) for _ in range(count)]


def neighbours():
    return [
        submit(1, tokens(1, 5), logprobs=2, max_tokens=20),
        submit(2, tokens(2, 70), temperature=0.9),
        submit(3, tokens(3, 33), prompt_logprobs=2, logprobs=0),
        submit(4, tokens(4, 130), logprobs=3, temperature=1.2, top_p=0.8),
    ]


def victims():
    """The poison first, within a chunk, last, far behind, and asked about."""
    return {
        10: submit(10, [POISON]),
        11: submit(11, [*tokens(3, 5), POISON, *tokens(11, 40)]),
        12: submit(12, [*tokens(4, 60), POISON], logprobs=1),
        13: submit(13, [*tokens(2, 20), POISON, *tokens(13, 20)], prompt_logprobs=1),
        14: submit(14, [*tokens(1, 3), POISON, *tokens(14, 9)], prompt_logprobs=0, max_tokens=0),
        15: submit(15, [*tokens(15, 4), POISON, *tokens(15, 90)], temperature=2.0, seed=2**64 - 1),
    }


def extremes():
    """Everything within its bounds, and at them."""
    bias = {token: 100.0 if token % 2 else -100.0 for token in range(VOCAB_SIZE) if token != POISON}
    hot = {"logit_bias": {**bias, POISON: -100.0}, "temperature": 5e-324, "top_p": 1e-300, "repetition_penalty": 0.01}
    cold = {"temperature": 2.0, "repetition_penalty": 100.0, "frequency_penalty": -2.0, "presence_penalty": -2.0}
    return [
        submit(20, tokens(20, 17), **hot),
        submit(21, tokens(21, 18), **cold, top_k=2**31 - 1, min_p=1.0, logprobs=20, min_tokens=6),
    ]


def run(engine, submits):
    """Four new requests a step. All end, once, and leave nothing."""
    traffic = Traffic(engine)
    waiting = list(submits)
    while waiting or engine.has_work:
        for message in waiting[:4]:
            traffic.submit(message)
        del waiting[:4]
        traffic.step()
    engine._endpoints.check()
    assert engine._endpoints.load().kv_blocks_used == 0
    for request_id, events in traffic.events.items():
        assert [bool(event.finish) for event in events] == [False] * (len(events) - 1) + [True], request_id
    return traffic


def check_neighbours(loaded, traffic, submits):
    for message in submits:
        assert traffic.answers()[message.request_id] == loaded.alone(message), message.request_id


def check_victims(traffic, request_ids):
    for request_id in request_ids:
        (event,) = traffic.events[request_id]
        assert (event.finish, event.tokens, event.prompt_logprobs) == (FinishReason.ERROR, [], None), request_id
        assert "no finite logits" in event.error


@pytest.mark.parametrize("max_step_tokens", [24, 512])
def test_in_a_mixed_batch_the_poisoned_end_with_one_error_and_the_others_as_if_alone(poisoned, max_step_tokens):
    engine = poisoned.engine(sizes(poisoned, max_step_tokens=max_step_tokens))
    sound = [*neighbours(), *extremes()]
    mixed = [message for pair in zip(sound, victims().values(), strict=True) for message in pair]
    traffic = run(engine, mixed)
    check_victims(traffic, victims())
    check_neighbours(poisoned, traffic, sound)
    again = [msgspec.structs.replace(message, request_id=message.request_id + 100) for message in sound]
    check_neighbours(poisoned, run(engine, again), again)


def test_a_prefix_that_a_poisoned_request_shares_stays_sound(poisoned):
    """Its first chunk, which nobody samples, holds the shared prefix and the poison: it must not become known."""
    prefix = tokens(5, 40)
    engine = poisoned.engine(sizes(poisoned, max_step_tokens=64))
    victim = submit(10, [*prefix, POISON, *tokens(10, 60)])
    check_victims(run(engine, [victim]), [10])
    heir = submit(1, [*prefix, *tokens(6, 20)], logprobs=2)
    check_neighbours(poisoned, run(engine, [heir]), [heir])


def test_a_request_that_poisons_itself_keeps_what_it_said_before(poisoned):
    engine = poisoned.engine(sizes(poisoned))
    victim = submit(10, tokens(10, 20), logit_bias={POISON: 100.0})
    traffic = run(engine, [victim, *neighbours()])
    assert [event.tokens for event in traffic.events[10]] == [[POISON], []]
    assert traffic.events[10][-1].finish is FinishReason.ERROR
    check_neighbours(poisoned, traffic, neighbours())


@pytest.mark.parametrize("steps", [2, 4])
def test_a_request_that_is_aborted_on_its_way_harms_nobody(poisoned, steps):
    engine = poisoned.engine(sizes(poisoned))
    traffic = Traffic(engine)
    for message in (submit(30, tokens(30, 50), max_tokens=50), *neighbours(), victims()[15]):
        traffic.submit(message)
    for _ in range(steps):
        traffic.step()
    engine.abort(30)
    engine.abort(15)
    traffic.drain()
    check_neighbours(poisoned, traffic, neighbours())
    assert [event.finish for event in traffic.events[30] if event.finish] == [FinishReason.ABORT]
    assert engine._endpoints.load().kv_blocks_used == 0


def test_what_former_holders_left_in_a_block_is_never_read(poisoned):
    """Random requests, served in random ways, out of blocks that are full of NaN."""
    known = known_requests(poisoned, [tokens(seed, 120) for seed in range(3)], count=6, max_prompt=100, max_tokens=16)
    happened = Counter()
    for seed in range(6):
        happened += serve(poisoned, [known], seed=seed)
    assert happened["preempted"]
    assert happened["hit"]
