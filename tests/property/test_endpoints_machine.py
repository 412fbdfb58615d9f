"""Whatever happens at two endpoints of one engine: each keeps to what it has, and neither waits for the other.

DAYZERO_STEPS=1000000 makes a night of it.
"""

import pytest

from dayzero.core.spec import FakeModel
from tests.engine.world import FULL, WINDOW, Setting, World
from tests.property.test_engine_machine import STEPS, Traffic, check_request

SETTINGS = {
    "a short and a long one": (
        Setting(blocks=(20,), max_context=48, max_requests=4, max_step_tokens=12),
        Setting(blocks=(18,), max_requests=3, max_step_tokens=5),
    ),
    "windowed": (
        Setting(groups=(FULL, WINDOW), blocks=(16, 12), max_requests=4, model=FakeModel(vocab_size=32)),
        Setting(groups=(FULL, WINDOW), blocks=(24, 12), max_step_tokens=9, model=FakeModel(vocab_size=32)),
    ),
}


class TrafficOfTwo(Traffic):
    def act(self):
        for _ in range(2):
            super().act()

    def submit(self):
        self.endpoint = self.random.choice(("", "long"))
        super().submit()

    def prompt(self):
        """One that its endpoint has room for."""
        return super().prompt()[: self.world.settings[self.endpoint].max_context - 4]

    def options(self):
        return {"endpoint": self.endpoint}


def check_step(world, waiting_before):
    """Each endpoint's part of the last step, and the blocks that it holds."""
    work = {name: [span for span in world.runner.batch.spans if at(world, span) == name] for name in world.settings}
    both = all(waiting_before.values())
    firsts = dict.fromkeys(range(len(world.setting.groups)), 1)
    for name, setting in world.settings.items():
        num_tokens = sum(span.length for span in work[name])
        assert num_tokens <= (
            setting.max_step_tokens if both else sum(s.max_step_tokens for s in world.settings.values())
        )
        running = world.schedulers[name]._running
        assert len(running) <= setting.max_requests
        assert work[name] or not running, "an endpoint was given nothing"
        for group, count in enumerate(setting.blocks):
            own = range(firsts[group], firsts[group] + count)
            for request in running:
                assert all(block == 0 or block in own for block in request.block_tables[group])
            firsts[group] += count


def at(world, span):
    return world.submits[span.request.id].endpoint


@pytest.mark.timeout(300 + STEPS // 500)
@pytest.mark.parametrize("name", SETTINGS)
def test_each_endpoint_keeps_to_its_own_and_gets_its_part_of_every_step(name):
    short, long = SETTINGS[name]
    world = World(short, beside={"long": long})
    traffic = TrafficOfTwo(world, seed=name)
    for number in range(STEPS // 8):
        traffic.act()
        busy = {endpoint: scheduler.has_work for endpoint, scheduler in world.schedulers.items()}
        num_batches = len(world.runner.decisions)
        ended = [event.request_id for event in world.step() if event.finish]
        if len(world.runner.decisions) > num_batches:
            check_step(world, busy)
        for request_id in ended:
            check_request(world, request_id, world.settings[world.submits[request_id].endpoint])
            del world.submits[request_id], world.events[request_id]
        if number % 32 == 0:
            world.endpoints.check()
    loads = world.drain().endpoints.load().endpoints
    assert all(load.preemptions > 0 for load in loads)
