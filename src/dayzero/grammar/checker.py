"""Whether a grammar can be used, found out by compiling it here. For grammars of clients there is `gate`."""

from collections.abc import Sequence

from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark

from dayzero.errors import RequestError
from dayzero.grammar.matcher import TokenTable


class Checker:
    """Of one vocabulary; the parameters are those of `TokenTable`."""

    def __init__(self, tokenizer: str, vocab_size: int, eos_token_ids: Sequence[int]) -> None:
        self._table = TokenTable(tokenizer, vocab_size, eos_token_ids)

    def check(self, grammar: str, param: str) -> None:
        """Raises RequestError, with what is wrong in one line, for a grammar that no engine should follow."""
        reason = self._table.fault(grammar)
        if reason is not None:
            raise RequestError(reason, param=param, code="invalid_schema")

    def lark_of(self, grammar: str, param: str) -> str:
        """A grammar in Lark's notation, or in GBNF as llama.cpp and xgrammar have it, in Lark's."""
        try:
            return str(any_to_lark(grammar))
        except (GbnfToLarkError, ValueError, RecursionError, LookupError) as error:
            raise RequestError(
                f"the grammar does not parse: {str(error)[:200]}", param=param, code="invalid_schema"
            ) from None
