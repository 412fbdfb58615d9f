"""Writes a grammar as llguidance reads it: Lark, with JSON Schemas and tokens by their ids in it."""

import json
import re
from collections.abc import Mapping, Sequence

MAX_SPACES = 8  # of white space in one place: models under a grammar can go on with it forever
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

    def literal(self, text: str) -> str:
        """Exactly this text, the tokens in it as tokens."""
        pieces = [text] if self._tokens is None else self._tokens.split(text)
        written = [
            f"<[{self._token_ids[piece]}]>" if piece in self._token_ids else json.dumps(piece, ensure_ascii=False)
            for piece in pieces
            if piece
        ]
        return " ".join(written)

    def rule(self, body: str) -> str:
        """The name of a new rule."""
        name = f"rule{len(self._rules)}"
        self._rules.append(f"{name}: {body}")
        return name

    def schema(self, schema: Mapping[str, object]) -> str:
        """JSON that fits the schema, its white space bounded."""
        bounded = {**schema, "x-guidance": {"whitespace_pattern": _SPACES}}
        return self.rule(f"%json {json.dumps(bounded, ensure_ascii=False)}")

    def text(self, *, besides: str = "") -> str:
        """Any text, whose first character that is no space is none of `besides`."""
        return self.rule(f"/{_text(besides)}/")

    def text_until(self, end: str, *, length: tuple[int, int | None] = (0, None), besides: str = "") -> str:
        """Any text of so many characters, and the first `end` after it. `besides` as for `text`."""
        least, most = length
        text = _text(besides) if besides else f"(?s:.{{{least},{'' if most is None else most}}})"
        before, *rest = [end] if self._tokens is None else self._tokens.split(end, maxsplit=1)
        if rest:  # no text holds a token, so the text can be as long as it likes
            return f"{self.rule(f'/{text}{_escaped(before)}/')} {self.literal(''.join(rest))}"
        name = f"rule{len(self._rules)}"
        self._rules.append(f"{name}[suffix={json.dumps(end, ensure_ascii=False)}]: /{text}/")
        return name

    def any_of(self, bodies: Sequence[str]) -> str:
        return self.rule(" | ".join(bodies))

    def source(self, start: str) -> str:
        """The whole grammar; outputs are what the body `start` says."""
        return "\n".join((f"start: {start}", *self._rules, f"WS: /{_SPACES}/", ""))


def _text(besides: str) -> str:
    return rf"\s*([^\s{_escaped(besides)}](?s:.*))?" if besides else "(?s:.*)"


def _escaped(text: str) -> str:
    """Within a regular expression between slashes."""
    return re.escape(text).replace("/", r"\/")
