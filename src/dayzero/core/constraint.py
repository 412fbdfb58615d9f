"""What binds a request's output while it is drawn. A plain value; also the wire format."""

import msgspec


class Constraint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grammar, and when it binds.

    grammar       llguidance's source, normalised and known to compile; "" for none
    after_tokens  ids of which any, once drawn, switches the grammar on
    after_texts   the same for what tokens spell together, of markers that are no token of this vocabulary
    repeats       once the grammar is complete, output is free until it is switched on again; otherwise the output ends
    banned        ids that are never drawn

    Without `after_tokens` and `after_texts` it binds from the first token of the output.
    """

    grammar: str = ""
    after_tokens: tuple[int, ...] = ()
    after_texts: tuple[bytes, ...] = ()
    repeats: bool = False
    banned: tuple[int, ...] = ()
