"""Writes a grammar as llguidance reads it: Lark, with JSON Schemas and tokens by their ids in it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

MAX_SPACES = 8  # of white space in one place: models under a grammar can go on with it forever
NOTHING = '""'
# Otherwise what must come is tokenized, and text that spells a control token comes as that token.
_OPTIONS = '%llguidance {"no_forcing": true}'
_SLASH = r"\/"
_BARE_SLASH = re.compile(r"(\\.)|/", re.DOTALL)
_SPACES = rf"[ \t\r\n]{{1,{MAX_SPACES}}}"


class Lark:
    """Rules under way.

    token_ids   of the strings that are one token of the vocabulary; the others are spelt out
    """

    def __init__(self, token_ids: Mapping[str, int]) -> None:
        self._token_ids = token_ids
        longest_first = sorted((re.escape(token) for token in token_ids if token), key=len, reverse=True)
        self._tokens = re.compile(f"({'|'.join(longest_first)})") if longest_first else None
        self._rules: list[str] = []
        self._names: dict[str, str] = {}  # of rules, by what they say: the same one is not written twice

    def literal(self, text: str) -> str:
        """Exactly this text, the tokens in it as tokens."""
        pieces = [text] if self._tokens is None else self._tokens.split(text)
        written = [
            f"<[{self._token_ids[piece]}]>" if piece in self._token_ids else json.dumps(piece, ensure_ascii=False)
            for piece in pieces
            if piece
        ]
        return " ".join(written)

    def spelt(self, text: str) -> str:
        """Exactly this text, none of it as a token: what a client has written says no markers."""
        return json.dumps(text, ensure_ascii=False)

    def rule(self, body: str) -> str:
        """The name of a rule that says this."""
        return self._define("rule", body)

    def schema(self, schema: Mapping[str, object]) -> str:
        """JSON that fits the schema, its white space bounded."""
        bounded = {**schema, "x-guidance": {"whitespace_pattern": _SPACES}}
        return self.rule(f"%json {json.dumps(bounded, ensure_ascii=False)}")

    def regex(self, pattern: str) -> str:
        """Text that the expression matches, from end to end."""
        return self.rule(f"/{_BARE_SLASH.sub(lambda found: found[1] or _SLASH, pattern)}/")

    def nested(self, lark: str) -> str:
        """What another grammar of this kind derives."""
        return self.rule(f"%lark {{\n{lark}\n}}")

    def word(self, pattern: str, *, besides: Iterable[str]) -> str:
        """What matches the regular expression whole, but none of these."""
        others = "|".join(_escaped(word) for word in besides)
        return self._define("WORD", f"/{pattern}/ & ~/({others})/" if others else f"/{pattern}/")

    def text(self, *, besides: str = "", marks: Sequence[str] = ()) -> str:
        """Any text that holds none of `marks`, and whose first character that is no space is none of `besides`."""
        terms = [f"/{_text(besides)}/", *_without(marks)]
        return self.rule(self._define("TEXT", " & ".join(terms)))

    def text_until(
        self,
        end: str,
        *,
        marks: Sequence[str] = (),
        length: tuple[int, int | None] = (0, None),
        pattern: str = "",
        besides: str = "",
    ) -> str:
        """Any text of so many characters that holds none of `marks`, nor `end`, and `end` after it.

        pattern   a JSON Schema's, of which a match is somewhere in the text
        besides   as for `text`; goes with none of the others
        """
        least, most = length
        text = _text(besides) if besides else f"(?s:.{{{least},{'' if most is None else most}}})"
        before, *rest = [end] if self._tokens is None else self._tokens.split(end, maxsplit=1)
        behind = _escaped(before) if rest else ""
        terms = [f"/{text}{behind}/"]
        terms += [f"/{_anywhere(pattern)}{behind}/"] if pattern else []
        # A suffix is the first of its kind already.
        terms += _without((end, *marks) if rest else [mark for mark in marks if mark != end])
        terminal = self._define("TEXT", " & ".join(terms))
        if rest:  # text holds no token, and ends where one comes
            return f"{terminal} {self.literal(''.join(rest))}"
        return self._define("rule", terminal, f"[suffix={json.dumps(end, ensure_ascii=False)}]")

    def reserve(self) -> str:
        """The name of a rule that is not written yet, for rules that refer to themselves."""
        self._rules.append("")
        return f"rule{len(self._rules) - 1}"

    def define(self, name: str, body: str) -> None:
        """Write a reserved rule."""
        self._rules[int(name.removeprefix("rule"))] = f"{name}: {body}"

    def listed(self, items: Sequence[tuple[str, bool]], *, separator: str = '"," WS?') -> str:
        """The items in their order, of which some are not required, with separators between those that are there."""
        later, rest = "", ""  # what may follow an item; and the same where no item came before
        for item, is_required in reversed(items):
            follows = f"{separator} {item} {later}"
            first = f"{item} {later}"
            if is_required:
                later, rest = self.rule(follows), self.rule(first)
            else:
                rest = self.rule(f"{first} | {rest or NOTHING}")
                later = self.rule(f"{follows} | {later or NOTHING}")
        return rest or NOTHING

    def any_of(self, bodies: Sequence[str]) -> str:
        return self.rule(" | ".join(bodies))

    def source(self, start: str) -> str:
        """The whole grammar; outputs are what the body `start` says."""
        return "\n".join((_OPTIONS, f"start: {start}", *self._rules, f"WS: /{_SPACES}/", ""))

    def _define(self, kind: str, body: str, options: str = "") -> str:
        says = f"{kind}{options}: {body}"
        if says not in self._names:
            self._names[says] = f"{kind}{len(self._rules)}"
            self._rules.append(f"{self._names[says]}{options}: {body}")
        return self._names[says]


def _without(marks: Sequence[str]) -> list[str]:
    """The term of texts that hold none of these; none for no marks."""
    alternatives = "|".join(_escaped(mark) for mark in dict.fromkeys(marks))
    return [f"~/(?s:.*)({alternatives})(?s:.*)/"] if alternatives else []


def _text(besides: str) -> str:
    return rf"\s*([^\s{_escaped(besides)}](?s:.*))?" if besides else "(?s:.*)"


def _anywhere(pattern: str) -> str:
    """A text with a match of the pattern in it. Anchors count at the ends of its alternatives; elsewhere llguidance
    refuses them."""
    found = []
    for alternative in _alternatives(pattern):
        begins = alternative.startswith("^")
        ends = alternative.endswith("$") and not re.search(r"(?<!\\)(\\\\)*\\\$$", alternative)
        inner = alternative[begins : len(alternative) - ends].replace("\n", r"\n")
        inner = _BARE_SLASH.sub(lambda match: match[1] or _SLASH, inner)
        found.append(f"{'' if begins else '(?s:.*)'}({inner}){'' if ends else '(?s:.*)'}")
    return "|".join(found) if len(found) == 1 else f"({'|'.join(found)})"


def _alternatives(pattern: str) -> list[str]:
    """What stands between bars that are in no group and no class."""
    found, depth, is_class, is_escaped = [""], 0, False, False
    for character in pattern:
        if is_escaped or character == "\\":
            is_escaped = not is_escaped
        elif is_class or character == "[":
            is_class = character != "]"
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            found.append("")
            continue
        found[-1] += character
    return found


def _escaped(text: str) -> str:
    """Within a regular expression between slashes."""
    return re.escape(text).replace("/", _SLASH).replace("\n", "n")  # the backslash is there already
