"""From what a request wants of its outputs to what binds them: one place for all views, through one gate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from dayzero.core import constraint as rules
from dayzero.core.constraint import Constraint
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineSpec
from dayzero.errors import RequestError
from dayzero.gateway.reading import Reading
from dayzero.gateway.structured import Structured
from dayzero.gateway.tools import ToolUse
from dayzero.grammar.answer_constraint import answer_constraint, own_turn_constraint, plain_constraint
from dayzero.grammar.gate import GrammarTooDear
from dayzero.grammar.wanted import GrammarWanted, Wanted, check_schema

_NO_TOOLS = ToolUse()


class GrammarGate(Protocol):
    """What tries grammars before an engine gets them; see `grammar.gate.Gate`."""

    async def check(self, grammar: str, param: str) -> None: ...

    async def lark_of(self, grammar: str, param: str) -> str: ...

    async def close(self) -> None: ...


def bound_by(structured: Structured | None, use: ToolUse = _NO_TOOLS) -> str | None:
    """The field that binds outputs; of several, one. None: none does."""
    if structured is not None:
        return structured.param
    return use.tools[0].place if len(use.tools) == 1 else "tools" if use.tools else None


class Constrainer:
    """Of one model."""

    def __init__(self, spec: EngineSpec, gate: GrammarGate) -> None:
        self._spec = spec
        self._gate = gate

    async def constraint(
        self,
        structured: Structured | None,
        params: Sequence[SamplingParams],
        *,
        use: ToolUse = _NO_TOOLS,
        reading: Reading | None = None,
    ) -> Constraint | None:
        """What binds every output of a request; None: nothing does.

        params    of all its prompts, none of which may contradict it
        reading   None: an output is text, without reasoning and calls
        Raises RequestError, naming the field, for what cannot be enforced.
        """
        if structured is None and not use.tools:
            return None if reading is None else self._own_turn(reading)
        wanted = None if structured is None else await self._checked(structured)
        try:
            bound = await self._tried(wanted, use, reading)
        except GrammarTooDear:
            raise  # so might be what follows
        except RequestError as error:
            raise await self._with_place(error, use, reading) from None
        for one in params:
            rules.check(bound, one, self._spec.vocab_size)
        return bound

    def _own_turn(self, reading: Reading) -> Constraint | None:
        bound = own_turn_constraint(
            reading.format, token_ids=self._token_ids(reading), eos_token_ids=self._spec.eos_token_ids
        )
        return None if bound == Constraint() else bound

    def _token_ids(self, reading: Reading) -> Mapping[str, int]:
        """A tokenizer may have more tokens than the model's output is wide, which are never drawn."""
        return {text: token for text, token in reading.token_ids.items() if token < self._spec.vocab_size}

    async def _tried(self, wanted: Wanted | None, use: ToolUse, reading: Reading | None) -> Constraint:
        bound = self._bound(wanted, use, reading)
        if bound.grammar:
            await self._gate.check(bound.grammar, "tools")
        return bound

    async def _with_place(self, error: RequestError, use: ToolUse, reading: Reading | None) -> RequestError:
        """An error of all tools together, as that of the first that is wrong by itself, if one is."""
        for tool in use.tools if error.param == "tools" else ():
            try:
                await self._tried(None, replace(use, tools=(tool,), parallel=False), reading)
            except RequestError as found:
                if not isinstance(found, GrammarTooDear):
                    found.param = tool.place
                    return found
        return error

    def _bound(self, wanted: Wanted | None, use: ToolUse, reading: Reading | None) -> Constraint:
        if reading is None:
            return Constraint() if wanted is None else plain_constraint(wanted)
        for tool in use.tools:
            if use.must_call or tool.strict:
                check_schema(tool.parameters, tool.place)
        return answer_constraint(
            reading.bound_format,
            use.tools,
            mode=use.mode,
            wanted=wanted,
            parallel=use.parallel,
            starts_in_reasoning=reading.starts_in_reasoning,
            token_ids=self._token_ids(reading),
            eos_token_ids=self._spec.eos_token_ids,
        )

    async def _checked(self, structured: Structured) -> Wanted:
        """In Lark's notation, and by itself: among other things that an answer may be, no output at all passes."""
        wanted, param = structured.wanted, structured.param
        if isinstance(wanted, GrammarWanted):
            wanted = GrammarWanted(await self._gate.lark_of(wanted.lark, param))
        await self._gate.check(plain_constraint(wanted).grammar, param)
        return wanted
