import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from dayzero.clock import FakeClock
from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.errors import InternalError, ReplicaLost
from dayzero.gateway.admission import Admission
from dayzero.gateway.errors import DeadlinePassed
from dayzero.gateway.generate import Generator, Prompt, Usage, Work
from dayzero.gateway.guard import UNGUARDED, GuardPolicy
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.stream import Delta, StreamRules
from dayzero.router.fake import FakeReplica
from dayzero.wire.messages import Load, Submit
from tests.gateway.stand import SPEC, byte_tokenizer, says, turns_until

Script = Callable[[Submit], list[TokenEvent]]


class Run:
    """A generator over a fake, and the deltas that it gave."""

    def __init__(self, script: Script, *others: FakeReplica) -> None:
        self.replica = FakeReplica(SPEC, script)
        self.clock = FakeClock()
        self.metrics = Metrics(Load, Admission(9))
        self.generator = Generator(self.replica, byte_tokenizer(), self.metrics, self.clock, others)
        self.deltas: list[Delta] = []

    async def sink(self, delta: Delta) -> None:
        self.deltas.append(delta)

    async def run(self, work: Work) -> Usage:
        return await self.generator.run(work, self.generator.streams(work), self.sink)


def work(
    *,
    num_prompts: int = 1,
    num_choices: int = 1,
    stops: tuple[str, ...] = (),
    deadline_s: float = 60.0,
    guard: GuardPolicy = UNGUARDED,
) -> Work:
    params = SamplingParams(max_tokens=999, seed=1)
    return Work(
        prompts=[Prompt([65 + i], params) for i in range(num_prompts)],
        num_choices=num_choices,
        rules=StreamRules(stops=stops),
        salt="s",
        tenant="t",
        priority=0,
        received_s=0.0,
        deadline_s=deadline_s,
        guard=guard,
    )


def test_every_choice_of_every_prompt_runs_and_is_counted() -> None:
    run = Run(says("ab"))
    usage = asyncio.run(run.run(work(num_prompts=2, num_choices=3)))
    assert usage == Usage(prompt_tokens=2, output_tokens=18, cached_tokens=6)
    assert {delta.index for delta in run.deltas if delta.finish} == set(range(6))
    assert run.replica.running == {}


def test_a_stop_string_ends_one_choice_and_not_its_siblings() -> None:
    run = Run(lambda submit: says("axb" if submit.choice else "aby")(submit))
    asyncio.run(run.run(work(num_choices=2, stops=("x",))))
    texts = ["".join(delta.text for delta in run.deltas if delta.index == index) for index in range(2)]
    assert texts == ["aby", "a"]
    assert len(run.replica.aborted) == 1


def test_a_choice_that_fails_ends_its_siblings_with_it() -> None:
    def script(submit: Submit) -> list[TokenEvent]:
        if submit.choice == 1:
            return [TokenEvent(submit.request_id, finish=FinishReason.ERROR, error="nan")]
        return [TokenEvent(submit.request_id, [65])]

    run = Run(script)
    with pytest.raises(InternalError):
        asyncio.run(run.run(work(num_choices=3)))
    assert run.replica.running == {}


def test_a_replica_that_dies_ends_the_request() -> None:
    run = Run(says("ab", None))

    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(_raises(run.run(work(num_choices=2)), ReplicaLost))
            await turns_until(lambda: len(run.deltas) == 4)
            run.replica.die()
        assert running.result()

    asyncio.run(scenario())
    assert run.replica.running == {}


async def _raises(awaitable: Any, error: type[Exception]) -> bool:
    with pytest.raises(error):
        await awaitable
    return True


def test_an_engine_that_hangs_is_left_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayzero.gateway.generate.DEADLINE_GRACE_S", 0.0)
    run = Run(says("ab", None))
    with pytest.raises(DeadlinePassed):
        asyncio.run(run.run(work(deadline_s=0.01)))
    assert run.replica.running == {}
    assert len(run.replica.aborted) == 1


def test_leaving_early_aborts_every_choice() -> None:
    run = Run(says("ab", None))

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run.run(work(num_choices=4))

    asyncio.run(scenario())
    assert run.replica.running == {}
    assert len(run.replica.aborted) == 4


def test_an_engine_whose_events_just_end_is_an_error() -> None:
    class Silent(FakeReplica):
        async def generate(self, submit: Submit) -> Any:
            yield TokenEvent(submit.request_id, [65])

    run = Run(says("ab"))
    run.generator = Generator(Silent(SPEC), byte_tokenizer(), run.metrics, run.clock)
    with pytest.raises(InternalError, match="without a terminal"):
        asyncio.run(run.run(work()))


def test_a_submit_says_all_that_the_noise_depends_on() -> None:
    run = Run(says("ab"))
    asyncio.run(run.run(work(num_choices=2)))
    first, second = run.replica.submits
    assert (first.choice, second.choice) == (0, 1)
    assert first.params == second.params
    assert (first.salt, first.tenant, first.policy_version) == ("s", "t", "fake-1")
    assert 0 < first.request_id < 2**63


def test_first_token_and_gaps_are_measured_on_the_given_clock() -> None:
    run = Run(says("abc", FinishReason.LENGTH, per_event=2))

    async def slow_sink(_: Delta) -> None:
        run.clock.advance(0.25)

    async def scenario() -> None:
        this = work()
        await run.generator.run(this, run.generator.streams(this), slow_sink)

    asyncio.run(scenario())
    sample = run.metrics.registry.get_sample_value
    assert sample("dayzero_time_to_first_token_seconds_sum") == 0.25
    assert sample("dayzero_inter_token_latency_seconds_count") == 2.0  # one is 0: it came with the first token
    assert sample("dayzero_inter_token_latency_seconds_sum") == 0.25
    assert sample("dayzero_output_tokens_total") == 3.0


LOOPING = says(b"and so on " * 20, None)
RETRY = GuardPolicy(mode="retry", max_retries=4)


def collapses(script: Script, *others: FakeReplica, guard: GuardPolicy = RETRY) -> Run:
    run = Run(script, *others)
    asyncio.run(run.run(work(guard=guard)))
    return run


def test_an_output_that_collapsed_twice_goes_to_the_other_replicas_in_turn() -> None:
    policies = [replace(SPEC, policy_version=f"fake-{number}") for number in range(4)]
    others = [FakeReplica(policy, LOOPING) for policy in policies]
    others[1].die()
    run = collapses(LOOPING, *others)
    assert [submit.attempt for submit in run.replica.submits] == [0, 1]
    assert [[submit.attempt for submit in other.submits] for other in others] == [[2], [], [3], [4]]
    assert [other.submits[0].policy_version for other in others if other.submits] == ["fake-0", "fake-2", "fake-3"]
    sample = run.metrics.registry.get_sample_value
    assert sample("dayzero_collapses_total", {"replica": "0", "tier": "1"}) == 2.0
    assert sample("dayzero_collapses_total", {"replica": "3", "tier": "1"}) == 1.0


def test_without_other_replicas_every_retry_stays() -> None:
    run = collapses(LOOPING)
    assert [submit.attempt for submit in run.replica.submits] == [0, 1, 2, 3, 4]
    assert run.replica.running == {}
    assert len(run.replica.aborted) == 5


def test_retries_share_the_time_that_the_request_was_given() -> None:
    run = Run(LOOPING)

    async def slow_sink(_: Delta) -> None:
        run.clock.advance(0.25)

    async def scenario() -> None:
        this = work(guard=GuardPolicy(mode="retry"))
        await run.generator.run(this, run.generator.streams(this), slow_sink)

    asyncio.run(scenario())
    given = [submit.deadline_s for submit in run.replica.submits]
    shown = [len(submit.committed) for submit in run.replica.submits]
    assert given == [60.0 - 0.25 * count for count in shown]


def test_leaving_between_two_attempts_leaves_nothing_behind() -> None:
    run = Run(LOOPING)

    async def sink(_: Delta) -> None:
        if len(run.replica.submits) == 2:
            raise RuntimeError("the client has gone")

    async def scenario() -> None:
        this = work(num_choices=2, guard=RETRY)
        with pytest.raises(RuntimeError):
            await run.generator.run(this, run.generator.streams(this), sink)

    asyncio.run(scenario())
    assert run.replica.running == {}


def test_a_failure_of_a_retry_is_the_requests() -> None:
    def script(submit: Submit) -> list[TokenEvent]:
        if submit.attempt:
            return [TokenEvent(submit.request_id, finish=FinishReason.ERROR, error="nan")]
        return LOOPING(submit)

    run = Run(script)
    with pytest.raises(InternalError):
        asyncio.run(run.run(work(guard=RETRY)))
    assert run.replica.running == {}
