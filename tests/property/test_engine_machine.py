"""Whatever happens to an engine, in any order: every request ends once, with the tokens of the reference loop.

DAYZERO_STEPS=1000000 makes a night of it.
"""

import os
import random

import pytest

from dayzero.core.events import FinishReason
from dayzero.core.spec import FakeModel
from dayzero.engine.request import RequestState
from tests.engine.world import FULL, WINDOW, Setting, World, reference

STEPS = int(os.environ.get("DAYZERO_STEPS", "50000"))
SETTINGS = {
    "roomy": Setting(blocks=(256,)),
    "tight": Setting(blocks=(17,)),
    "windowed": Setting(groups=(FULL, WINDOW), blocks=(24, 12)),
    "windows only": Setting(groups=(WINDOW,), blocks=(14,)),
    "no prefix cache": Setting(blocks=(20,), prefix_cache=False),
    "one slot a block": Setting(groups=(FULL, WINDOW), blocks=(80, 40), block_size=1),
    "tokens that never end": Setting(blocks=(20,), max_requests=4, model=FakeModel(vocab_size=32)),
}


class Traffic:
    """Random clients of one world, drawn from a seeded generator."""

    def __init__(self, world, seed):
        self.world = world
        self.random = random.Random(seed)
        self.prompts = [[1]]

    def act(self):
        """What happens between two steps."""
        draw = self.random
        if draw.random() < 0.8 and sum(len(each._requests) for each in self.world.schedulers.values()) < 24:
            self.submit()
        if draw.random() < 0.05 and self.world.submits:
            self.world.engine.abort(draw.choice(list(self.world.events)), draw.choice([None, 0, 3, 9]))
        self.world.clock.advance(0.01)

    def submit(self):
        draw = self.random
        prompt = self.prompt()
        committed = [draw.randrange(1, 32) for _ in range(draw.choice((0, 0, 0, 3)))]
        self.world.submit(
            prompt,
            max_tokens=draw.randint(1, 24),
            seed=draw.randrange(3),
            salt=draw.choice(("", "", "other")),
            committed=committed[: 64 - len(prompt) - 1],
            **self.options(),
            choice=draw.choice((0, 0, 1)),
            priority=draw.choice((0, 0, 0, 1, -1)),
            deadline_s=draw.choice((None, None, None, 0.2, 2.0)),
            params={
                "ignore_eos": draw.random() < 0.3,
                "stop_token_ids": draw.choice(((), (3, 4))),
                "logprobs": draw.choice((None, None, 2)),
                "prompt_logprobs": draw.choice((None, None, None, 1)),
            },
        )

    def options(self):
        """What else a Submit says."""
        return {}

    def prompt(self):
        """Often a prefix of an earlier one with another ending."""
        draw = self.random
        base = draw.choice(self.prompts)
        prompt = base[: draw.randint(0, len(base))] + [draw.randrange(1, 32) for _ in range(draw.randint(1, 20))]
        self.prompts = [*self.prompts[-8:], prompt[:60]]
        return prompt[:60]


def check_step(world, decoding):
    """The budget holds, spans are of this step, and all who decode were served unless they lost their blocks."""
    batch = world.runner.batch
    assert batch.num_tokens <= world.setting.max_step_tokens
    assert len(batch.spans) <= world.setting.max_requests
    served = {span.request.id for span in batch.spans}
    assert len(served) == len(batch.spans)
    for request in decoding:
        assert request.id in served or request.state is not RequestState.RUNNING, request.id


def check_request(world, request_id, setting):
    """What a client of an ended request saw."""
    message, events = world.submits[request_id], world.events[request_id]
    tokens, finish = reference(message, setting)
    seen = world.tokens(request_id)
    assert sum(event.finish is not None for event in events) == 1
    if events[-1].finish in (FinishReason.STOP, FinishReason.LENGTH):
        assert (seen, events[-1].finish) == (tokens, finish)
    else:
        assert seen == tokens[: len(seen)]
    first = next((event for event in events if event.tokens), None)
    if first is not None:
        assert 0 <= first.cached_tokens < len(message.prompt) + len(message.committed)
        wanted = message.params.prompt_logprobs is not None
        assert (first.prompt_logprobs is not None) == wanted
        if wanted:
            assert [entry and entry.token for entry in first.prompt_logprobs] == [None, *message.prompt[1:]]
            assert first.cached_tokens == 0
    for event in events:
        if message.params.logprobs is not None and event.tokens:
            assert [entry.token for entry in event.logprobs] == event.tokens


@pytest.mark.timeout(300 + STEPS // 500)
@pytest.mark.parametrize("name", SETTINGS)
def test_every_request_ends_once_with_the_tokens_of_the_reference_loop(name):
    world = World(SETTINGS[name])
    traffic = Traffic(world, seed=name)
    for number in range(STEPS // len(SETTINGS)):
        traffic.act()
        decoding = [r for r in world.scheduler._running if r.num_tokens - r.num_computed == 1]
        ended = [event.request_id for event in world.step() if event.finish]
        if world.runner.batch is not None and world.report is not None:
            check_step(world, decoding)
        for request_id in ended:
            check_request(world, request_id, world.setting)
            del world.submits[request_id], world.events[request_id]
        if number % 32 == 0:
            world.scheduler.check()
    load = world.drain().scheduler.load()
    assert load.preemptions > 0
    assert (load.prefix_hit_tokens > 0) == world.setting.prefix_cache
