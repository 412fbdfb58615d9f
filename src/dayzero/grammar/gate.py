"""The one gate that every grammar of a request goes through before an engine sees it.

Compiled in a confined process, under limits of time and memory (CVE-2026-55574, PYSEC-2026-3933: compilers without
any), in one of two lanes, so that what takes long keeps nobody else waiting for long: all are tried in the quick lane
first, and what does not end there goes to the slow one, where few may wait. Verdicts are kept by content.
"""

from collections.abc import Callable

import msgspec

from dayzero.errors import CapacityError, InternalError, RequestError
from dayzero.grammar.jobs import Answer, Convert, Converted, Job, Loaded, LoadTokenizer, Refused, Try
from dayzero.grammar.recent import Recent
from dayzero.wire.confined.pool import CannotLoad, Confined, Gone, Pool

_VERDICT_BYTES = 256  # what one takes beside its reason, roughly
_QUICK_PROCESSES = 2


class GrammarTooDear(RequestError):
    """A grammar that did not compile within its limits of time and memory."""


class Gate:
    """Of one model.

    tokenizer     makes the text of it, as the tokenizers library writes it; called before the first grammar
    quick_s       that a grammar may take in the quick lane; limit_s, which is more: in both
    max_slow      grammars in the slow lane, those that wait included
    cache_bytes   of verdicts; the oldest in use give way
    """

    def __init__(
        self,
        tokenizer: Callable[[], str],
        vocab_size: int,
        eos_token_ids: tuple[int, ...],
        *,
        quick_s: float = 0.25,
        limit_s: float = 1.75,
        max_slow: int = 3,
        cache_bytes: int = 2**20,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._quick_s = quick_s
        self._limit_s = limit_s
        self._max_slow = max_slow
        self._num_slow = 0
        self._confined: Confined | None = None
        self._lanes: tuple[Pool, Pool] | None = None  # quick, slow
        self._verdicts: Recent[str] = Recent(cache_bytes)  # why not; "": good

    async def check(self, grammar: str, param: str) -> None:
        """Raises RequestError, with what is wrong, for a grammar that no engine should follow."""
        verdict = self._verdicts.get(grammar)
        if verdict is None:
            try:
                answer = await self._ask(Try(grammar))
            except _Exceeded as error:  # not kept: it may have been the machine's fault
                raise GrammarTooDear(str(error), param=param, code="invalid_schema") from None
            verdict = answer.reason if isinstance(answer, Refused) else ""
            self._verdicts.put(grammar, verdict, _VERDICT_BYTES + len(verdict))
        if verdict:
            raise _refused(verdict, param)

    async def lark_of(self, grammar: str, param: str) -> str:
        """A grammar in Lark's notation, or in GBNF as llama.cpp and xgrammar have it, in Lark's."""
        try:
            answer = await self._ask(Convert(grammar))
        except _Exceeded as error:
            raise GrammarTooDear(str(error), param=param, code="invalid_schema") from None
        if isinstance(answer, Refused):
            raise _refused(answer.reason, param)
        assert isinstance(answer, Converted), type(answer)
        return answer.lark

    async def close(self) -> None:
        if self._confined is not None:
            await self._confined.close()

    async def _ask(self, job: Job) -> Answer:
        quick, slow = self._lanes = self._lanes or self._new_lanes()
        try:
            return await _answered(quick, job)
        except (TimeoutError, Gone, CannotLoad):  # its own fault, or not: once more tells
            return await self._ask_slowly(slow, job)

    async def _ask_slowly(self, slow: Pool, job: Job) -> Answer:
        if self._num_slow == self._max_slow:
            raise CapacityError("too many grammars that take long to compile")
        self._num_slow += 1
        try:
            return await _answered(slow, job)
        except TimeoutError:
            raise _Exceeded(f"the grammar took longer than {self._limit_s:g} s to compile") from None
        except Gone:
            raise _Exceeded("the grammar took too much memory to compile, or brought the compiler down") from None
        except CannotLoad as error:
            raise InternalError("the process that tries grammars does not start") from error
        finally:
            self._num_slow -= 1

    def _new_lanes(self) -> tuple[Pool, Pool]:
        """Made for the first grammar: few models are ever sent one."""
        load = msgspec.msgpack.encode(LoadTokenizer(self._tokenizer(), self._vocab_size, self._eos_token_ids))
        self._confined = Confined("dayzero.grammar.confined", load, _check_loaded)
        return (
            Pool(self._confined, limit_s=self._quick_s, processes=_QUICK_PROCESSES),
            Pool(self._confined, limit_s=self._limit_s - self._quick_s, processes=1),
        )


class _Exceeded(Exception):
    """A job came to no answer."""


async def _answered(lane: Pool, job: Job) -> Answer:
    try:
        answer: Answer = msgspec.msgpack.decode(await lane.ask(msgspec.msgpack.encode(job)), type=Answer)
    except msgspec.DecodeError as error:
        raise Gone from error
    return answer


def _refused(reason: str, param: str) -> RequestError:
    return RequestError(reason, param=param, code="invalid_schema")


def _check_loaded(answer: bytes) -> None:
    if not isinstance(msgspec.msgpack.decode(answer, type=Answer), Loaded):
        raise CannotLoad
