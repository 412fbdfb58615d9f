"""The grammar of outputs that are messages with headers, calls among them; `harmony` reads them.

An output begins behind the first header's role, which the prompt has written already.
"""

from collections.abc import Collection, Mapping, Sequence

from dayzero.grammar.lark import NOTHING, Lark
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.subschema import arguments_schema
from dayzero.grammar.tools import Tool
from dayzero.grammar.wanted import Wanted

_CHANNELS = ("analysis", "commentary", "final")


class MessageGrammar:
    """The grammars of outputs with calls of these tools, as llguidance's source. Without tools: `wanted_or_calls`.

    parallel        False: one call in an output
    token_ids       of the marks that are one token of the vocabulary
    eos_token_ids   a mark that is one of these is not written: it is how the output ends
    """

    def __init__(
        self,
        shape: Messages,
        tools: Sequence[Tool],
        *,
        parallel: bool,
        token_ids: Mapping[str, int],
        eos_token_ids: Collection[int],
    ) -> None:
        self._shape = shape
        self._tools = tools
        self._parallel = parallel
        self._token_ids = token_ids
        self._says_call_end = token_ids.get(shape.call_end) not in eos_token_ids
        self._says_last_end = token_ids.get(shape.last_end) not in eos_token_ids

    def calls(self, *, starts_in_reasoning: bool) -> str:
        """Calls, at least one, and before each nothing but what the model thinks."""
        lark = Lark(self._token_ids)
        return self._source(lark, self._calls(lark), starts_in_reasoning=starts_in_reasoning)

    def text_and_calls(self, *, starts_in_reasoning: bool) -> str:
        """Messages on any channel, and calls."""
        lark = Lark(self._token_ids)
        begin = self._begin(lark)
        call = lark.rule(self._call(lark))
        earlier = [f"{self._prose(lark, channel)} {begin}" for channel in _CHANNELS]
        if self._parallel:
            earlier.append(f"{call} {self._between_calls(lark)} {begin}")
        last = [f"{self._header(lark, channel)} {lark.text()} {self._last_end(lark)}" for channel in _CHANNELS]
        last.append(f"{call} {self._call_end(lark)}")
        output = f"({lark.any_of(earlier)})* {lark.any_of(last)}"
        return self._source(lark, output, starts_in_reasoning=starts_in_reasoning)

    def wanted_or_calls(self, wanted: Wanted, *, starts_in_reasoning: bool) -> str:
        """What was wanted as the last message, or calls if there are tools; before it what the model thinks."""
        lark = Lark(self._token_ids)
        last = f"{self._header(lark, 'final')} {wanted.body(lark)} {self._last_end(lark)}"
        if self._tools:
            last = lark.any_of([last, self._calls(lark)])
        output = f"({self._prose(lark, 'analysis')} {self._begin(lark)})* {last}"
        return self._source(lark, output, starts_in_reasoning=starts_in_reasoning)

    def _calls(self, lark: Lark) -> str:
        begin = self._begin(lark)
        call = lark.rule(f"({self._prose(lark, 'analysis')} {begin})* {self._call(lark)}")
        calls = f"{call} ({self._between_calls(lark)} {begin} {call})*" if self._parallel else call
        return f"{calls} {self._call_end(lark)}"

    def _source(self, lark: Lark, output: str, *, starts_in_reasoning: bool) -> str:
        return lark.source(f"{self._body(lark)} {self._begin(lark)} {output}" if starts_in_reasoning else output)

    def _begin(self, lark: Lark) -> str:
        """What begins each message but the first."""
        return lark.literal(f"{self._shape.start}assistant")

    def _header(self, lark: Lark, channel: str) -> str:
        return lark.literal(f"{self._shape.channel}{channel}{self._shape.message}")

    def _prose(self, lark: Lark, channel: str) -> str:
        return f"{self._header(lark, channel)} {self._body(lark)}"

    def _body(self, lark: Lark) -> str:
        shape = self._shape
        return lark.text_until(shape.end, marks=(shape.start, shape.channel, *shape.ends))

    def _call(self, lark: Lark) -> str:
        """A call of any of the tools. The recipient stands behind the channel, as in the documents, or before it."""
        shape = self._shape
        channel = f"{shape.channel}commentary"
        kind = lark.rule(f'" "? {lark.literal(shape.constrain)} "json" | " json" | {NOTHING}')

        def call(tool: Tool) -> str:
            recipient = f" to=functions.{tool.name}"
            head = lark.any_of([lark.literal(channel + recipient), lark.literal(recipient + channel)])
            return f"{head} {kind} {lark.literal(shape.message)} {lark.schema(arguments_schema(tool.parameters))}"

        return lark.any_of([call(tool) for tool in self._tools])

    def _between_calls(self, lark: Lark) -> str:
        ends = (self._shape.end, *((self._shape.call_end,) if self._says_call_end else ()))
        return lark.any_of([lark.literal(end) for end in ends])

    def _call_end(self, lark: Lark) -> str:
        return f"{lark.literal(self._shape.call_end)}" if self._says_call_end else NOTHING

    def _last_end(self, lark: Lark) -> str:
        return f"({lark.literal(self._shape.last_end)})?" if self._says_last_end else NOTHING
