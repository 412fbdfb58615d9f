import asyncio
from itertools import islice

import pytest

from dayzero.clock import SystemClock
from dayzero.errors import ConfigError
from dayzero.workshop.bench.client import Client, Sampling
from dayzero.workshop.bench.run import Driver, Load, Plan, numbered_sessions, run_load, schedule
from dayzero.workshop.bench.target import Target, open_http
from dayzero.workshop.bench.timeline import Status, Timeline
from dayzero.workshop.bench.workloads.registry import WorkloadOptions
from dayzero.workshop.bench.workloads.session import Chat, Completion, Session
from tests.workshop.bench.scripted_server import Refusal, ScriptedServer, Stream, answer

HANG = Stream([], end="hang")


class Talk:
    """Sessions of two turns; the first has a recorded reply."""

    def session(self, index):
        first = Chat(({"role": "user", "content": f"first {index}"},), reply="recorded")
        return Session((first, Chat(({"role": "user", "content": "second"},))), index)


class Single:
    def session(self, index):
        return Session((Completion(f"prompt {index}"),), index)


def run(load, *scripts, workload=None, cut_after=None):
    """A run to its end, or cut when the server has been asked `cut_after` times: (timelines, the server)."""

    async def go():
        recorded = []
        async with ScriptedServer(*scripts) as server, open_http(None) as http:
            client = Client(http, server.url, Sampling(model="m"), SystemClock(), timeout_s=30)
            async with asyncio.TaskGroup() as group:
                done = group.create_task(
                    run_load(client, workload or Single(), load, SystemClock(), recorded.append, seed=1)
                )
                if cut_after is not None:
                    await server.asked(cut_after)
                    done.cancel()
        return recorded, server

    return asyncio.run(go())


class BusyClient:
    """Takes some turns of the event loop for each request, and counts how many are with it at once."""

    def __init__(self):
        self.most = self._now = 0

    async def send(self, _turn, _history, place, _record):
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(50):
            await asyncio.sleep(0)
        self._now -= 1
        return Timeline(session=place.session, turn=place.turn, due_s=0, sent_s=0, ended_s=0), ""


def most_at_once(load):
    client = BusyClient()
    asyncio.run(run_load(client, Single(), load, SystemClock(), lambda _: None))
    return client.most


@pytest.mark.parametrize(("requests", "turns"), [(1, [1]), (2, [2]), (5, [2, 2, 1])])
def test_sessions_are_taken_until_their_turns_are_the_requests(requests, turns):
    sessions = list(numbered_sessions(Talk(), requests))
    assert [len(session.turns) for _, session in sessions] == turns
    assert [index for index, _ in sessions] == list(range(len(turns)))


def test_without_a_number_of_requests_sessions_have_no_end():
    assert len(list(islice(numbered_sessions(Talk(), None), 1000))) == 1000


def test_a_closed_loop_sends_each_request_once():
    recorded, server = run(Load(concurrency=3, requests=10), answer("x"))
    assert sorted(body["prompt"] for body in server.bodies) == sorted(f"prompt {n}" for n in range(10))
    assert {timeline.status for timeline in recorded} == {Status.SUCCESSFUL}


def test_a_closed_loop_keeps_its_concurrency_in_flight():
    assert most_at_once(Load(concurrency=5, requests=30)) == 5
    assert most_at_once(Load(concurrency=5, requests=2)) == 2


def test_a_cut_run_records_what_was_in_flight_as_incomplete():
    recorded, server = run(Load(concurrency=3, requests=10), HANG, cut_after=3)
    assert len(server.bodies) == 3
    assert [timeline.status for timeline in recorded] == [Status.INCOMPLETE] * 3


def test_the_next_turn_carries_the_recorded_reply_or_else_the_one_that_came():
    class Three:
        def session(self, index):
            return Session((*Talk().session(index).turns, Chat(({"role": "user", "content": "third"},))), index)

    _, server = run(Load(concurrency=1, requests=3), answer("gene", "rated"), workload=Three())
    assert [(message["role"], message["content"]) for message in server.bodies[2]["messages"]] == [
        ("user", "first 0"),
        ("assistant", "recorded"),
        ("user", "second"),
        ("assistant", "generated"),
        ("user", "third"),
    ]


def test_a_session_ends_with_its_first_failure():
    refusal = Refusal(429, {"error": {"message": "full"}}, {"retry-after": "0"})
    recorded, server = run(Load(concurrency=1, requests=4), refusal, workload=Talk())
    assert [(timeline.session, timeline.turn) for timeline in recorded] == [(0, 0), (1, 0)]
    assert len(server.bodies) == 2


def test_an_open_loop_sends_without_waiting_for_answers():
    recorded, _ = run(Load(rate_per_s=100, requests=5), HANG, cut_after=5)
    assert [timeline.status for timeline in recorded] == [Status.INCOMPLETE] * 5
    assert all(timeline.sent_s >= timeline.due_s for timeline in recorded)


def test_an_open_loop_can_be_capped():
    assert most_at_once(Load(rate_per_s=100_000, requests=30)) > 3
    assert most_at_once(Load(rate_per_s=100_000, requests=30, concurrency=3)) == 3


def test_an_open_loop_of_some_time_sends_what_the_rate_gives_in_it():
    due = schedule(Single(), Load(rate_per_s=50, duration_s=2), seed=1)
    assert len(due) == 100
    assert 0 < due[0][0] < due[-1][0] < 2
    assert len(schedule(Single(), Load(rate_per_s=50, duration_s=2, requests=3), seed=1)) == 3


def test_the_end_of_the_time_cuts_what_is_in_flight():
    recorded, _ = run(Load(concurrency=2, duration_s=0.1), HANG)
    assert [timeline.status for timeline in recorded] == [Status.INCOMPLETE] * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"requests": 1},
        {"concurrency": 1},
        {"concurrency": 0, "requests": 1},
        {"rate_per_s": -1.0, "requests": 1},
        {"rate_per_s": float("inf"), "requests": 1},
        {"rate_per_s": float("nan"), "requests": 1},
        {"concurrency": 1, "duration_s": 0.0},
    ],
)
def test_a_load_without_shape_or_end_is_refused(fields):
    with pytest.raises(ConfigError):
        Load(**fields)


def drive(plan, *scripts, rounds=(0,), labels=("A",), is_dayzero=False):
    async def go():
        recorded = []
        async with ScriptedServer(*scripts) as server, open_http(None) as http:
            target = Target(server.url, "m", None, is_dayzero)
            driver = Driver(http, target, plan, None, SystemClock())
            await driver.warm_up("A")
            num_warm = len(server.bodies)
            for label in labels:
                for number in rounds:
                    await driver.measure(label, recorded.append, round_number=number)
        return recorded, server, num_warm

    return asyncio.run(go())


def plan_of(**fields):
    load = Load(concurrency=1, requests=3)
    return Plan(**({"workload": "humaneval", "options": WorkloadOptions(), "load": load, "seed": 7} | fields))


@pytest.mark.parametrize(
    ("is_dayzero", "fields", "guard"),
    [(True, {}, "off"), (False, {}, None), (True, {"extra": {"collapse_guard": "stop"}}, "stop")],
)
def test_only_chats_of_dayzero_ask_not_to_be_guarded_unless_the_plan_says_otherwise(is_dayzero, fields, guard):
    for as_chat in (True, False):
        plan = plan_of(as_chat=as_chat, **fields)
        _, server, _ = drive(plan, answer("x"), is_dayzero=is_dayzero)
        said = guard if as_chat else fields.get("extra", {}).get("collapse_guard")
        assert [body.get("collapse_guard") for body in server.bodies] == [said] * 3


def test_warm_up_requests_are_sent_but_not_recorded():
    recorded, server, num_warm = drive(plan_of(warmup=2), answer("x"))
    assert (num_warm, len(recorded), len(server.bodies)) == (2, 3, 5)


def test_a_warm_up_that_fails_altogether_is_an_error_with_its_reason():
    with pytest.raises(ConfigError, match="every warm-up request failed: http 400: context too long"):
        drive(plan_of(warmup=2), Refusal(400, {"error": {"message": "context too long"}}))


def test_prompts_differ_between_sides_and_rounds_but_for_sides_only_in_their_salt():
    _, server, _ = drive(plan_of(), answer("x"), rounds=(0, 1), labels=("A", "B"))
    prompts = [body["prompt"] for body in server.bodies]
    assert len(set(prompts)) == 12
    bare = [prompt.split("\n", 1)[1] for prompt in prompts]
    assert bare[:6] == bare[6:]


def test_prompts_can_be_repeated_as_they_are():
    _, server, _ = drive(plan_of(repeat_prompts=True), answer("x"), labels=("A", "B"))
    prompts = [body["prompt"] for body in server.bodies]
    assert prompts[:3] == prompts[3:]
    assert not any(prompt.startswith("# ") for prompt in prompts)


def test_completions_can_be_sent_as_chats():
    _, server, _ = drive(plan_of(as_chat=True), answer("x"))
    assert set(server.paths) == {"/v1/chat/completions"}
