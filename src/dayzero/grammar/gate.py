"""The one gate that every grammar of a request goes through before an engine sees it.

Compiled in a confined process, under limits of time and memory (CVE-2026-55574, PYSEC-2026-3933: compilers without
any). Verdicts are kept by content.
"""

from collections.abc import Callable

import msgspec

from dayzero.errors import InternalError, RequestError
from dayzero.grammar.jobs import Answer, Convert, Converted, Job, Loaded, LoadTokenizer, Refused, Try
from dayzero.grammar.recent import Recent
from dayzero.wire.confined.pool import CannotLoad, Gone, Pool

_VERDICT_BYTES = 256  # what one takes beside its reason, roughly


class Gate:
    """Of one model.

    tokenizer     makes the text of it, as the tokenizers library writes it; called before the first grammar
    cache_bytes   of verdicts; the oldest in use give way
    """

    def __init__(
        self,
        tokenizer: Callable[[], str],
        vocab_size: int,
        eos_token_ids: tuple[int, ...],
        *,
        limit_s: float = 2.0,
        processes: int = 2,
        cache_bytes: int = 2**20,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._limit_s = limit_s
        self._processes = processes
        self._pool: Pool | None = None
        self._verdicts: Recent[str] = Recent(cache_bytes)  # why not; "": good

    async def check(self, grammar: str, param: str) -> None:
        """Raises RequestError, with what is wrong, for a grammar that no engine should follow."""
        verdict = self._verdicts.get(grammar)
        if verdict is None:
            try:
                answer = await self._ask(Try(grammar))
            except _Exceeded as error:  # not kept: it may have been the machine's fault
                raise _refused(str(error), param) from None
            verdict = answer.reason if isinstance(answer, Refused) else ""
            self._verdicts.put(grammar, verdict, _VERDICT_BYTES + len(verdict))
        if verdict:
            raise _refused(verdict, param)

    async def lark_of(self, grammar: str, param: str) -> str:
        """A grammar in Lark's notation, or in GBNF as llama.cpp and xgrammar have it, in Lark's."""
        try:
            answer = await self._ask(Convert(grammar))
        except _Exceeded as error:
            raise _refused(str(error), param) from None
        if isinstance(answer, Refused):
            raise _refused(answer.reason, param)
        assert isinstance(answer, Converted), type(answer)
        return answer.lark

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def _ask(self, job: Job) -> Answer:
        pool = self._pool = self._pool or self._new_pool()
        try:
            answer: Answer = msgspec.msgpack.decode(await pool.ask(msgspec.msgpack.encode(job)), type=Answer)
        except TimeoutError:
            raise _Exceeded(f"the grammar took longer than {self._limit_s:g} s to compile") from None
        except (Gone, msgspec.DecodeError):
            raise _Exceeded("the grammar took too much memory to compile, or brought the compiler down") from None
        except CannotLoad as error:
            raise InternalError("the process that tries grammars does not start") from error
        return answer

    def _new_pool(self) -> Pool:
        """Made for the first grammar: few models are ever sent one."""
        load = LoadTokenizer(self._tokenizer(), self._vocab_size, self._eos_token_ids)
        return Pool(
            "dayzero.grammar.confined",
            msgspec.msgpack.encode(load),
            _check_loaded,
            limit_s=self._limit_s,
            processes=self._processes,
        )


class _Exceeded(Exception):
    """A job came to no answer."""


def _refused(reason: str, param: str) -> RequestError:
    return RequestError(reason, param=param, code="invalid_schema")


def _check_loaded(answer: bytes) -> None:
    if not isinstance(msgspec.msgpack.decode(answer, type=Answer), Loaded):
        raise CannotLoad
