"""The matcher of an engine, for bench_grammar.py. A grammar is compiled anew for each output, as for each request."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from followers import Compile, Follower, serve

from dayzero.grammar.lark import Lark
from dayzero.grammar.matcher import Matcher, TokenTable


class MatcherFollower:
    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        if matcher.is_broken:
            raise ValueError("not compiled")

    def fill(self) -> bool:
        self._matcher.mask()
        return not self._matcher.is_broken

    def accept(self, token: int) -> bool:
        return self._matcher.take([token])

    def is_accepting(self) -> bool:
        return self._matcher.is_accepting


def make(vocabulary: Mapping[str, Any]) -> Compile:
    table = TokenTable(vocabulary["tokenizer"], len(vocabulary["tokens"]), vocabulary["eos"])

    def compile_schema(schema: str) -> Callable[[], Follower]:
        lark = Lark({})
        grammar = lark.source(lark.schema(json.loads(schema)))
        return lambda: MatcherFollower(table.matcher(grammar))

    return compile_schema


if __name__ == "__main__":
    serve(make)
