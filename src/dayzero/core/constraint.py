"""What binds a request's output while it is drawn. A plain value; also the wire format."""

import msgspec

from dayzero.core.sampling import SamplingParams
from dayzero.errors import RequestError


class Constraint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grammar, and when it binds.

    grammar       llguidance's source, normalised and known to compile; "" for none
    after_tokens  ids of which any, once drawn, switches the grammar on
    repeats       once the grammar is complete, output is free until it is switched on again; otherwise the output ends
    banned        ids that are never drawn

    Without `after_tokens` it binds from the first token of the output.
    """

    grammar: str = ""
    after_tokens: tuple[int, ...] = ()
    repeats: bool = False
    banned: tuple[int, ...] = ()


def check(constraint: Constraint, params: SamplingParams, vocab_size: int) -> None:
    """Raise RequestError for what cannot go together. The end may come where the grammar lets it, and only there."""
    for token in (*constraint.after_tokens, *constraint.banned):
        if not 0 <= token < vocab_size:
            raise RequestError(f"a token of the constraint is outside the vocabulary: {token}")
    binds_all = bool(constraint.grammar) and not constraint.repeats
    if binds_all and params.ignore_eos:
        raise RequestError(
            "ignore_eos beside a grammar", param="ignore_eos", hint="a grammar says where the output ends"
        )
    if binds_all and params.min_tokens:
        raise RequestError(
            "min_tokens beside a grammar", param="min_tokens", hint="a grammar says where the output ends"
        )
