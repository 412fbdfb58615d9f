import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest
from starlette.types import Message

from dayzero.clock import FakeClock
from dayzero.core.events import FinishReason, TokenEvent
from dayzero.gateway.answer import WRITE_ASIDE_FROM_SCORED, EventStreamWriter, until_disconnect
from dayzero.gateway.errors import ClientGone
from dayzero.gateway.generate import Usage
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, says, sse, stand, turns_until

USAGE = Usage(1, 2, 3)


class Connection:
    """One ASGI connection whose client can leave at a given moment."""

    def __init__(self, path: str, body: object) -> None:
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self._body = [msgspec.json.encode(body)]
        self.left = asyncio.Event()
        self.sent: list[Message] = []
        self.changed = asyncio.Event()

    async def receive(self) -> Message:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.changed.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def chat_body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], **fields}


def run(scenario: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scenario

    asyncio.run(bounded())


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("choices", [1, 3])
def test_a_client_that_leaves_frees_its_request(streams: bool, choices: int) -> None:
    """B52, B53: it went on to its last token, in plain answers, or its blocks were lost."""

    async def scenario() -> None:
        this = stand(says("endless", None))
        connection = Connection("/v1/chat/completions", chat_body(stream=streams, n=choices))
        async with asyncio.TaskGroup() as group:
            group.create_task(this.gateway.app(connection.scope, connection.receive, connection.send))
            await turns_until(lambda: len(this.replica.running) == choices)
            connection.left.set()
        assert this.replica.running == {}
        assert len(this.replica.aborted) == choices
        assert this.gateway.admission.in_flight == 0

    run(scenario())


def test_a_silent_stream_is_kept_alive_with_comments() -> None:
    async def scenario() -> None:
        this = stand(says("", None), keep_alive_s=0.01)
        connection = Connection("/v1/chat/completions", chat_body(stream=True))
        async with asyncio.TaskGroup() as group:
            group.create_task(this.gateway.app(connection.scope, connection.receive, connection.send))
            while connection.body.count(b": keep-alive\n\n") < 2:
                connection.changed.clear()
                await connection.changed.wait()
            connection.left.set()
        assert connection.sent[0]["status"] == 200
        assert connection.body.startswith(b'data: {"id":"chatcmpl-')

    run(scenario())


def failing(after: str) -> Any:
    def script(submit: Submit) -> list[TokenEvent]:
        events = says(after, None)(submit) if after else []
        return [*events, TokenEvent(submit.request_id, finish=FinishReason.ERROR, error="secret internals")]

    return script


def test_a_failure_before_the_first_byte_of_a_stream_is_a_status() -> None:
    response = stand(failing("")).chat(stream=True)
    assert response.status_code == 500
    assert response.headers["x-should-retry"] == "false"
    assert "secret" not in response.text


def test_a_failure_after_the_first_byte_of_a_stream_is_its_last_event() -> None:
    this = stand(failing("hel"))
    response = this.chat(stream=True)
    events = sse(response)
    assert response.status_code == 200
    assert set(events[-1]["error"]) == {"message", "type", "param", "code"}
    assert "secret" not in response.text
    assert this.replica.running == {}


def test_a_failure_of_a_plain_answer_is_a_status() -> None:
    assert stand(failing("hel")).chat().status_code == 500


def test_a_deadline_that_passed_is_a_504_that_is_not_worth_a_retry() -> None:
    def script(submit: Submit) -> list[TokenEvent]:
        return [TokenEvent(submit.request_id, finish=FinishReason.TIMEOUT)]

    this = stand(script, request_timeout_s=9.0)
    response = this.chat()
    assert response.status_code == 504
    assert response.headers["x-should-retry"] == "false"
    assert 8.0 < (this.replica.submits[0].deadline_s or 0) <= 9.0


def test_a_lost_replica_is_a_503_and_later_requests_are_refused_at_once() -> None:
    this = stand()
    this.replica.die()
    response = this.chat()
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "replica_lost"
    assert this.replica.submits == []


def test_a_long_plain_answer_is_written_like_a_short_one() -> None:
    text = "x" * WRITE_ASIDE_FROM_SCORED
    answer = stand(says(text)).complete(logprobs=1).json()["choices"][0]
    assert answer["text"] == text
    assert answer["logprobs"]["tokens"] == [*text, "<|eos|>"]


def test_a_stream_is_one_message_for_each_delta() -> None:
    async def scenario(this: Stand) -> None:
        connection = Connection("/v1/chat/completions", chat_body(stream=True))
        await this.gateway.app(connection.scope, connection.receive, connection.send)
        # the status line, three letters (the first with the role before it), the finish and [DONE]
        assert len(connection.sent) == 1 + 3 + 1 + 1

    run(scenario(stand(says("abc"))))


def test_the_writer_starts_with_the_opening_and_only_when_something_is_written() -> None:
    async def scenario() -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        writer = EventStreamWriter(send, b"opening", FakeClock())
        assert not sent
        await writer.write(b"one")
        await writer.write(b"two", more=False)
        assert [message.get("body") for message in sent] == [None, b"openingone", b"two"]
        assert [message.get("more_body") for message in sent[1:]] == [True, False]

    run(scenario())


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def result() -> Usage:
    return USAGE


async def quiet() -> None:
    pass


def test_work_that_ends_first_is_returned() -> None:
    assert asyncio.run(until_disconnect(result(), never, 60.0, quiet)) == USAGE


def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    async def fail() -> Usage:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(until_disconnect(fail(), never, 60.0, quiet))


def test_a_client_that_leaves_cancels_the_work() -> None:
    cancelled = []

    async def work() -> Usage:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return USAGE

    async def leave() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone):
        asyncio.run(until_disconnect(work(), leave, 60.0, quiet))
    assert cancelled == [True]
