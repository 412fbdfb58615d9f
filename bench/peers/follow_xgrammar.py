"""xgrammar, for bench_grammar.py: in the environment of vLLM's peer, which brings it.

Schemas mean what JSON Schema says (`strict_mode` would forbid keys that they do not name), and nothing is cached.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import xgrammar
from followers import Compile, Follower, serve


class XGrammarFollower:
    def __init__(self, grammar: Any, vocab_size: int) -> None:
        self._matcher = xgrammar.GrammarMatcher(grammar)
        self._rows = xgrammar.allocate_token_bitmask(1, vocab_size)

    def fill(self) -> bool:
        self._matcher.fill_next_token_bitmask(self._rows)
        return True

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    def is_accepting(self) -> bool:
        return bool(self._matcher.is_completed())


def make(vocabulary: Mapping[str, Any]) -> Compile:
    tokens = [token.encode("latin-1") for token in vocabulary["tokens"]]
    info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, stop_token_ids=vocabulary["eos"])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile_schema(schema: str) -> Callable[[], Follower]:
        try:
            json.loads(schema)
            grammar = compiler.compile_json_schema(schema, strict_mode=False)
        except Exception as refused:  # noqa: BLE001 - of several libraries' kinds
            raise ValueError(str(refused)) from None
        return lambda: XGrammarFollower(grammar, len(tokens))

    return compile_schema


if __name__ == "__main__":
    serve(make)
