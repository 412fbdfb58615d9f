import asyncio

import pytest

from dayzero.clock import SystemClock
from dayzero.workshop.bench.client import Client, Place, Sampling, error_message, quotes
from dayzero.workshop.bench.target import open_http
from dayzero.workshop.bench.timeline import Status, Usage
from dayzero.workshop.bench.workloads.session import Chat, Completion
from tests.workshop.bench.scripted_server import (
    DONE,
    FINISH,
    ROLE,
    Refusal,
    ScriptedServer,
    Stream,
    answer,
    chat_chunk,
    event,
    usage,
)

HELLO = Chat(({"role": "user", "content": "hello there, this is a prompt of some length"},))


class StepClock:
    """Every look at it is a second later."""

    def __init__(self):
        self._now_s = 0.0
        self.first_bytes = asyncio.Event()

    def now_s(self):
        self._now_s += 1.0
        if self._now_s == 3:  # after the start and the sending of a request
            self.first_bytes.set()
        return self._now_s


def send(*scripts, turn=HELLO, history=(), timeout_s=30.0, sampling=None):
    """One turn against a scripted server: (timeline, text, the server)."""

    async def go():
        async with ScriptedServer(*scripts) as server, open_http("key") as http:
            client = Client(http, server.url, sampling or Sampling(model="m"), StepClock(), timeout_s=timeout_s)
            recorded = []
            timeline, text = await client.send(turn, history, Place(3, 1), recorded.append)
            assert recorded == [timeline]
            return timeline, text, server

    return asyncio.run(go())


def test_a_streamed_answer_gives_its_text_usage_and_arrivals():
    last = event({"choices": [], "usage": usage(11, 3, cached_tokens=4)})
    timeline, text, _ = send(Stream([ROLE, chat_chunk("one"), chat_chunk(" two three"), FINISH, last, DONE]))
    assert text == "one two three"
    assert timeline.status is Status.SUCCESSFUL
    assert timeline.usage == Usage(11, 3, 4)
    assert len(timeline.outputs_s) == 2
    assert timeline.output_tokens == 3
    assert timeline.sent_s < timeline.outputs_s[0] <= timeline.outputs_s[1] <= timeline.ended_s
    assert (timeline.session, timeline.turn, timeline.due_s) == (3, 1, timeline.sent_s)


def test_chunks_cut_anywhere_by_the_network_are_put_together():
    whole = b"".join([ROLE, chat_chunk("é"), chat_chunk("b"), FINISH, DONE])
    timeline, text, _ = send(Stream([whole[n : n + 7] for n in range(0, len(whole), 7)]))
    assert (text, len(timeline.outputs_s)) == ("éb", 2)


def test_without_usage_tokens_are_counted_as_chunks():
    timeline, _, _ = send(Stream([chat_chunk("a"), chat_chunk("b"), FINISH, DONE]))
    assert (timeline.usage, timeline.output_tokens) == (None, 2)


def test_a_chat_sends_the_history_the_key_and_the_sampling():
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    sampling = Sampling(model="m", max_tokens=7, temperature=0.5, ignore_eos=True, extra={"top_k": 3})
    _, _, server = send(answer("x"), history=history, sampling=sampling)
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["authorization"] == "Bearer key"
    assert server.bodies[0] == {
        "model": "m",
        "max_tokens": 7,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "top_k": 3,
        "messages": [*history, *HELLO.messages],
    }


@pytest.mark.parametrize(("prompt", "sent"), [("def f():", "def f():"), ((5, 6, 7), [5, 6, 7])])
def test_a_completion_sends_text_or_token_ids_and_its_own_max_tokens(prompt, sent):
    last = event({"choices": [{"text": "x", "finish_reason": "stop"}], "usage": usage(3, 1)})
    _, text, server = send(Stream([last, DONE]), turn=Completion(prompt, max_tokens=9))
    assert server.paths == ["/v1/completions"]
    assert (server.bodies[0]["prompt"], server.bodies[0]["max_tokens"], text) == (sent, 9, "x")


def test_a_refusal_is_a_failure_with_its_message_and_retry_after():
    refusal = Refusal(429, {"error": {"message": "queue full\nsecond line"}}, {"retry-after": "2"})
    timeline, _, _ = send(refusal)
    assert timeline.status is Status.FAILED
    assert (timeline.failure.kind, timeline.failure.message) == ("http 429", "queue full")
    assert timeline.retry_after_s == 2.0
    assert timeline.outputs_s == ()


def test_an_error_in_the_middle_of_a_stream_is_a_failure():
    timeline, _, _ = send(Stream([chat_chunk("a"), event({"error": {"message": "replica lost"}})]))
    assert timeline.status is Status.FAILED
    assert (timeline.failure.kind, timeline.failure.message) == ("error in stream", "replica lost")


def test_a_malformed_chunk_is_a_failure():
    timeline, _, _ = send(Stream([b"data: {oops\n\n", DONE]))
    assert timeline.failure.kind == "malformed"


def test_a_broken_connection_is_a_failure():
    timeline, _, _ = send(Stream([chat_chunk("a")], end="break"))
    assert (timeline.status, timeline.failure.kind) == (Status.FAILED, "disconnected")


def test_a_stream_that_ends_without_a_finish_reason_was_cut_short():
    timeline, _, _ = send(Stream([chat_chunk("a")]))
    assert (timeline.status, timeline.failure.kind) == (Status.FAILED, "cut short")


def test_a_server_that_hangs_is_a_timeout():
    timeline, _, _ = send(Stream([chat_chunk("a")], end="hang"), timeout_s=0.05)
    assert (timeline.status, timeline.failure.kind) == (Status.FAILED, "timeout")


def test_a_message_that_quotes_the_prompt_is_withheld():
    quoting = {"error": {"message": "cannot parse: this is a prompt of some length"}}
    timeline, _, _ = send(Refusal(400, quoting))
    assert (timeline.failure.kind, timeline.failure.message) == (
        "http 400",
        "(withheld: the message quotes the prompt)",
    )


def test_nobody_listening_is_a_failure_to_connect():
    async def go():
        async with ScriptedServer(answer("x")) as server:
            url = server.url
        async with open_http(None) as http:
            client = Client(http, url, Sampling(model="m"), SystemClock(), timeout_s=5)
            return (await client.send(HELLO, [], Place(0, 0), lambda _: None))[0]

    timeline = asyncio.run(go())
    assert timeline.failure.kind == "connect"


def test_a_cancelled_request_is_recorded_as_incomplete_with_what_had_come():
    async def go():
        recorded = []
        async with ScriptedServer(Stream([chat_chunk("a")], end="hang")) as server, open_http(None) as http:
            clock = StepClock()
            client = Client(http, server.url, Sampling(model="m"), clock, timeout_s=30)
            sending = asyncio.ensure_future(client.send(HELLO, [], Place(0, 0), recorded.append))
            await clock.first_bytes.wait()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        return recorded

    (timeline,) = asyncio.run(go())
    assert (timeline.status, timeline.failure) == (Status.INCOMPLETE, None)
    assert timeline.output_tokens == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a"}}', "a"),
        (b'{"error": "b"}', "b"),
        (b'{"message": "c"}', "c"),
        (b"<html>", ""),
        (b"\xff", ""),
        (b"[]", ""),
        (b'{"error": {"message": "' + b"x" * 1000 + b'"}}', "x" * 160),
    ],
)
def test_only_the_message_of_an_error_body_is_shown(body, message):
    assert error_message(body) == message


def test_quoting_starts_at_24_characters():
    text = "the quick brown fox jumps over the lazy dog"
    assert quotes(f"bad: {text[5:29]}", [text])
    assert not quotes(f"bad: {text[5:28]}", [text])
