"""The one parser of outputs: reasoning, text and calls, while they come. A plain answer is the same, all at once.

What it says does not depend on how the output was cut. It holds back only what may yet be the beginning of a marker, of
a call whose tool is not known, or white space that would be dropped beside one.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from dayzero.grammar.format import Format
from dayzero.grammar.harmony import HarmonyParser
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text, joined
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.tools import Calls, Tool
from dayzero.grammar.window import Arguments, End, Malformed, Markers, Name, Piece, Reader, Truncated, Window

_BREAKS = "\r\n"


class Parser(Protocol):
    """Reads one output.

    is_reasoning   the next character belongs to reasoning, as far as is known
    has_misread    a call has begun that was not read to its end, or was none
    """

    @property
    def is_reasoning(self) -> bool: ...

    @property
    def has_misread(self) -> bool: ...

    def push(self, pieces: Sequence[Piece]) -> list[Part]:
        """The parts that these pieces complete."""
        ...

    def finish(self) -> list[Part]:
        """What was held back, now that the output has ended."""
        ...


def parser_for(
    format: Format,  # noqa: A002 - what it is called everywhere
    tools: Sequence[Tool],
    *,
    starts_in_reasoning: bool = False,
    marker_tokens: frozenset[str] = frozenset(),
    calls: Calls = "parse",
    parallel: bool = True,
) -> Parser:
    """A new parser of one output in this format. The arguments are those of `OutputParser`."""
    make = HarmonyParser if isinstance(format.shape, Messages) else partial(OutputParser, format)
    return make(
        tools, starts_in_reasoning=starts_in_reasoning, marker_tokens=marker_tokens, calls=calls, parallel=parallel
    )


class OutputParser:
    """Reads one output.

    calls           "suppress": calls are read and dropped; "ignore": nothing is a call
    parallel        False: calls after the first are dropped
    marker_tokens   markers that are one token of the vocabulary: the same characters, spelt out, are text
    is_reasoning    whether the next character belongs to reasoning, as far as is known
    has_misread     a marker or a name has begun a call that was not read to its end, or was none

    A call of a tool that was not offered is text, as the model wrote it, and so is what begins as a call but is none. A
    call of which something was said already ends incomplete instead.
    """

    def __init__(
        self,
        format: Format,  # noqa: A002 - what it is called everywhere
        tools: Sequence[Tool],
        *,
        starts_in_reasoning: bool = False,
        marker_tokens: frozenset[str] = frozenset(),
        calls: Calls = "parse",
        parallel: bool = True,
    ) -> None:
        self.is_reasoning = starts_in_reasoning and format.reasoning is not None
        self.has_misread = False
        assert not isinstance(format.shape, Messages), f"{format.name} is read by HarmonyParser"
        self._format = format
        self._shape = format.shape
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._calls = calls
        self._parallel = parallel
        self._window = Window(marker_tokens)
        begin, end = format.reasoning or ("", "")
        triggers = () if calls == "ignore" else format.begins
        self._in_text = Markers((*triggers, *(self._shape.marks if triggers else ()), begin, end), marker_tokens)
        self._in_reasoning = Markers((begin, end, *(triggers if format.closes_reasoning else ())), marker_tokens)
        self._triggers = frozenset(triggers)
        self._reader: Reader | None = None
        self._num_calls = 0
        self._is_marked = False  # a marker began what is read: no bare character and no word, which text may have
        self._is_open = False  # a call has been said to start
        self._has_called = False  # the reader has told of a call
        self._is_shown = False  # the last one it told of was none of ours, and is text
        self._held = ""  # white space that may be dropped
        self._has_spoken = False  # something since the beginning, the reasoning or the last call
        self._has_answered = False  # anything at all that is not reasoning
        self._after_reasoning = False

    def push(self, pieces: Sequence[Piece]) -> list[Part]:
        """The parts that these pieces complete."""
        self._window.push(pieces)
        return self._run()

    def finish(self) -> list[Part]:
        """What was held back, now that the output has ended."""
        self._window.is_final = True
        parts = self._run()
        if self._held and (self.is_reasoning or not (self._has_answered or self._after_reasoning or self._num_calls)):
            parts.append((Reasoning if self.is_reasoning else Text)(self._held))
        self._held = ""
        return joined(parts)

    def _run(self) -> list[Part]:
        parts: list[Part] = []
        while self._read_call(parts) if self._reader is not None else self._read_prose(parts):
            pass
        return joined(parts)

    # -- between calls -------------------------------------------------------------------------------------------------

    def _read_prose(self, parts: list[Part]) -> bool:
        """Up to the next marker; False if there is none yet."""
        window = self._window
        if self._begins_bare():
            self._begin_call("")
            return True
        found = window.find(self._in_reasoning if self.is_reasoning else self._in_text)
        self._say(window.take(found.at), parts)
        if found.marker is None:
            return False
        if found.marker in self._triggers:
            self._begin_call(found.marker)
            return True
        self._pass_marker(window.take(len(found.marker)), parts)
        return True

    def _begins_bare(self) -> bool:
        if self.is_reasoning or self._has_answered or not self._format.bare or self._calls == "ignore":
            return False
        return self._window.text.lstrip()[:1] in tuple(self._format.bare)

    def _pass_marker(self, marker: str, parts: list[Part]) -> None:
        begin, end = self._format.reasoning or ("", "")
        if marker == end:
            if self.is_reasoning:
                self.is_reasoning, self._has_spoken, self._after_reasoning, self._held = False, False, True, ""
        elif marker == begin:
            if self._has_spoken and marker not in self._window.tokens:
                self._say(marker, parts)  # a word about the marker
            elif not self.is_reasoning:
                self.is_reasoning, self._has_spoken, self._held = True, False, ""

    def _say(self, text: str, parts: list[Part]) -> None:
        text = self._held + text
        self._held = ""
        if not self._has_spoken:
            if self.is_reasoning or self._after_reasoning:
                text = text.lstrip(_BREAKS)
            if not text or text.isspace():
                self._held = text
                return
        self._has_spoken = True
        if self.is_reasoning:
            shown = text.rstrip(_BREAKS)
            self._held = text[len(shown) :]
            parts.append(Reasoning(shown))
        else:
            self._has_answered = True
            parts.append(Text(text))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _begin_call(self, trigger: str) -> None:
        window = self._window
        window.taken = []
        window.take(len(trigger))
        self._is_marked = bool(trigger) and not trigger.isalpha()
        self._has_called = self._is_shown = False
        self._reader = self._shape.read(window, trigger, self._tools)

    def _read_call(self, parts: list[Part]) -> bool:
        """Go on reading; False if more of the output is needed."""
        assert self._reader is not None
        try:
            for said in self._reader:
                if said is None:
                    return False
                self._tell(said, parts)
        except Malformed:
            self._break_off(parts, drops_rest=False)
        except Truncated:
            self._break_off(parts, drops_rest=self._has_called)
        else:
            if self._is_shown:
                self._show_raw(parts)
        self._reader = None
        self._window.taken = None
        return True

    def _tell(self, said: Name | Arguments | End, parts: list[Part]) -> None:
        match said:
            case Name(name) if name in self._tools and not self._is_full:
                self._start_call(name, parts)
            case Arguments(text) if self._is_open and text:
                self._emit(CallArguments(self._num_calls, text), parts)
            case End():
                self._end_call(parts, is_complete=True)

    def _start_call(self, name: str, parts: list[Part]) -> None:
        if self.is_reasoning:
            if self._held:
                parts.append(Reasoning(self._held))
            self.is_reasoning = False
            self._after_reasoning = True
        self._held = ""
        self._is_open = True
        self._window.taken = None
        self._emit(CallStarted(self._num_calls, name), parts)

    def _end_call(self, parts: list[Part], *, is_complete: bool) -> None:
        self._has_called = True
        self._is_shown = not self._is_open
        if self._is_open:
            self._emit(CallEnded(self._num_calls, is_complete), parts)
            self._num_calls += 1
            self._is_open = False
            self._has_answered = True
            self._has_spoken = self._after_reasoning = False
        else:
            self._show_raw(parts)
        self._window.taken = []

    def _break_off(self, parts: list[Part], *, drops_rest: bool) -> None:
        """It was no call, or not all of one."""
        self.has_misread |= self._is_open or (self._is_marked and not drops_rest)
        if self._is_open:
            self._end_call(parts, is_complete=False)
        elif not drops_rest:
            self._show_raw(parts)

    def _show_raw(self, parts: list[Part]) -> None:
        raw = "".join(self._window.taken or ())
        if self.is_reasoning or (self._calls == "parse" and not self._is_full):
            self._say(raw, parts)

    @property
    def _is_full(self) -> bool:
        return self._num_calls > 0 and not self._parallel

    def _emit(self, part: Part, parts: list[Part]) -> None:
        if self._calls == "parse":
            parts.append(part)
