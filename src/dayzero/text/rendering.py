"""Chat templates rendered in confined processes, for a server: none can take its time or memory."""

from collections.abc import Mapping

import msgspec

from dayzero.errors import CheckpointError, RequestError
from dayzero.text.conversation import Conversation, Rendering
from dayzero.text.jobs import Answer, LoadTemplate, Refused, Render, Rendered
from dayzero.text.veil import alphabet_of
from dayzero.wire.confined.pool import CannotLoad, Confined, Gone, Pool


class ConfinedTemplate:
    """`ChatTemplate` with the same results, over a small pool of processes.

    Knows the markup of the tokenizer, so that `text.chat.encode_rendering` can tell client text from the template's.
    A job that takes too long, too much memory or the process down is a RequestError for its own request.
    """

    def __init__(
        self,
        source: str,
        named_tokens: Mapping[str, str],
        *,
        markup: Mapping[str, int],
        limit_s: float = 2.0,
        processes: int = 2,
    ) -> None:
        load = msgspec.msgpack.encode(LoadTemplate(source, dict(named_tokens), alphabet_of(markup)))
        self._limit_s = limit_s
        self._confined = Confined("dayzero.text.confined", load, _check_loaded)
        self._pool = Pool(self._confined, limit_s=limit_s, processes=processes)

    async def start(self) -> None:
        """Load the template. Raises CheckpointError if it does not compile."""
        try:
            await self._confined.start()
        except CannotLoad as error:
            raise _not_loaded() from error

    async def render(self, chat: Conversation) -> Rendering:
        """Raises RequestError."""
        job = _encoded(Render(chat))
        try:
            answer = msgspec.msgpack.decode(await self._pool.ask(job), type=Answer)
        except TimeoutError as error:
            raise RequestError(f"chat template took longer than {self._limit_s:g} s", param="messages") from error
        except (Gone, msgspec.DecodeError) as error:
            raise RequestError("chat template used too much memory or crashed", param="messages") from error
        except CannotLoad as error:
            raise _not_loaded() from error
        if isinstance(answer, Refused):
            raise RequestError(answer.message, param=answer.param, hint=answer.hint)
        assert isinstance(answer, Rendered), type(answer)
        return answer.rendering

    async def close(self) -> None:
        """End all processes."""
        await self._confined.close()


def _check_loaded(answer: bytes) -> None:
    loaded = msgspec.msgpack.decode(answer, type=Answer)
    if isinstance(loaded, Refused):
        raise CheckpointError(loaded.message, hint=loaded.hint)


def _not_loaded() -> CheckpointError:
    return CheckpointError(
        "chat template could not be loaded within its limits", hint="give another one with --chat-template"
    )


def _encoded(job: Render) -> bytes:
    try:
        return msgspec.msgpack.encode(job)
    except (UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise RequestError(
            "messages hold what cannot be rendered", param="messages", hint="no lone surrogates, no integers of 65 bits"
        ) from error
