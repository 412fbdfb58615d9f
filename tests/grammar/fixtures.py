"""Answers in every format, of every kind, as its model writes them. They are ours: `upstream/` has those of others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.gemma_object import STRING_MARK
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.window import Marker, Piece
from tests.grammar.bug_cases import KOELN, NESTED, PING
from tests.grammar.splits import with_marker_tokens
from tests.grammar.written import Call, written

KINDS = ("content", "parallel", "nested", "escapes", "emoji", "markers in strings", "no arguments", "truncated")
PROSE = "Hello, wörld: {1} [2] <b>\n\n| a < b |"
ESCAPES = "\"q\" \\ back\\n /s 'x'\n\ttab \x01 \\u00e9 ${x} %s"
EMOJI = "😀 한국어 👩‍👩‍👧 \ufffd e\u0301"
_QUOTE = "\ue000"  # stands for markers that a string says


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One answer, and what it says.

    outline    the output, `_QUOTE` in it where a string says `said`
    broken     the arguments, as JSON, of a call of `read` that the output breaks off
    is_text    no token of a vocabulary: a marker that was cut
    """

    kind: str
    form: Format
    outline: str
    calls: Sequence[Call] = ()
    text: str = ""
    reasoning: str = ""
    broken: str | None = None
    said: str = ""
    is_text: bool = False

    def __str__(self) -> str:
        return f"{self.form.name}-{self.kind}-{len(self.outline)}"

    @property
    def output(self) -> str:
        return self.outline.replace(_QUOTE, self.said)

    def as_tokens(self) -> list[Piece]:
        """Markers as tokens of their own, but for those that a string says, which are spelled."""
        pieces = with_marker_tokens(self.outline, () if self.is_text else self.form.markers)
        return [piece if isinstance(piece, Marker) else piece.replace(_QUOTE, self.said) for piece in pieces]


def answer(form: Format, text: str, calls: Sequence[Call], reasoning: str = "") -> str:
    if isinstance(form.shape, Messages):
        shape = form.shape
        said = [(channel, words) for channel, words in (("analysis", reasoning), ("commentary", text)) if words]
        messages = [f"{shape.channel}{channel}{shape.message}{words}<|end|>" for channel, words in said]
        return f"{shape.start}assistant".join((*messages, *([written(form, calls)] if calls else [])))
    begin, end = form.reasoning or ("", "")
    thought = f"{begin}{reasoning}{end}\n\n" if reasoning else ""
    return thought + text + (written(form, calls, triggered=bool(text or thought)) if calls else "")


def markers_to_say(form: Format) -> str:
    """All markers that a string of this format can say."""
    said = " ".join(marker for marker in form.markers if marker != STRING_MARK)
    return f"{said} {form.shape.tags.value_end} x" if isinstance(form.shape, Tagged) else f"{said} x"


def fixtures_of(form: Format) -> Iterator[Fixture]:
    thought = "Let me see.\nYes." if form.reasoning or isinstance(form.shape, Messages) else ""
    yield Fixture(kind="content", form=form, outline=answer(form, PROSE, (), thought), text=PROSE, reasoning=thought)
    both = answer(form, PROSE, [KOELN], thought)
    yield Fixture(kind="content", form=form, outline=both, calls=[KOELN], text=PROSE, reasoning=thought)
    for kind, calls in (
        ("parallel", [KOELN, PING, Call("weather", {"city": "Bonn", "days": 2})]),
        ("nested", [NESTED]),
        ("escapes", [Call("write_file", {"path": ESCAPES, "content": "x"}), Call("plan", {"trip": {"a": [ESCAPES]}})]),
        ("emoji", [Call("write_file", {"path": EMOJI}), Call("todo", {"items": [EMOJI, {EMOJI: EMOJI}]})]),
        ("no arguments", [PING]),
    ):
        yield Fixture(kind=kind, form=form, outline=written(form, calls), calls=calls)
    said = markers_to_say(form)
    outline = written(form, [Call("write_file", {"content": f"a {_QUOTE} b", "path": "c"})])
    call = Call("write_file", {"content": f"a {said} b", "path": "c"})
    yield Fixture(kind="markers in strings", form=form, outline=outline, calls=[call], said=said)
    whole = written(form, [PING, Call("read", {"id": "abcd"})])
    cut = whole[: whole.rindex("cd")]
    yield Fixture(kind="truncated", form=form, outline=cut, calls=[PING], broken='{"id": "ab')
    begun = whole[:5]
    yield Fixture(kind="truncated", form=form, outline=begun, text=begun, is_text=True)


FIXTURES = [fixture for form in FORMATS.values() for fixture in fixtures_of(form)]
