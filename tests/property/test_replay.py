"""The decisions of a fixed trace, step by step, as recorded. To record anew after a change of policy:

python -m tests.property.test_replay
"""

import json
import random
from pathlib import Path

from dayzero.core.spec import FakeModel
from tests.engine.world import FULL, WINDOW, Setting, World

RECORD = Path(__file__).parents[1] / "data" / "schedule_trace.json"
SETTING = Setting(groups=(FULL, WINDOW), blocks=(40, 24), max_requests=6, model=FakeModel(vocab_size=32))


def make_trace():
    """What arrives before which step."""
    draw = random.Random(20)
    prefixes = [[draw.randrange(1, 32) for _ in range(16)] for _ in range(3)]
    trace = []
    for number in range(60):
        prompt = draw.choice(prefixes)[: draw.randint(0, 16)] + [
            draw.randrange(1, 32) for _ in range(draw.randint(1, 24))
        ]
        trace.append(
            {
                "before_step": number * 3 + draw.randint(0, 6),
                "prompt": prompt,
                "max_tokens": draw.randint(1, 20),
                "priority": draw.choice([0, 0, 0, 1]),
            }
        )
    return sorted(trace, key=lambda entry: entry["before_step"])


def decisions_of(trace):
    """[request, start, length] of each span of each step."""
    world = World(SETTING)
    waiting = list(trace)
    step = 0
    while waiting or world.engine.has_work:
        while waiting and waiting[0]["before_step"] <= step:
            entry = waiting.pop(0)
            world.submit(entry["prompt"], max_tokens=entry["max_tokens"], priority=entry["priority"])
        world.step()
        step += 1
    assert world.scheduler.load().preemptions > 0
    return [[list(span) for span in spans] for spans in world.runner.decisions]


def test_the_recorded_decisions_are_made_again():
    record = json.loads(RECORD.read_text())
    assert decisions_of(record["trace"]) == record["decisions"]


def write():
    trace = make_trace()
    steps = ",\n".join(json.dumps(spans) for spans in decisions_of(trace))
    entries = ",\n".join(json.dumps(entry) for entry in trace)
    RECORD.write_text(f'{{"trace": [\n{entries}\n],\n"decisions": [\n{steps}\n]}}\n')


if __name__ == "__main__":
    write()
