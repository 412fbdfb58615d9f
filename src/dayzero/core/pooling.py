"""How the hidden states of a text become its embedding, one vector of unit length. Also the wire format."""

from typing import Literal

from dayzero.errors import RequestError

Pooling = Literal["mean", "last", "cls"]


def check(pooling: Pooling, *, is_encoder: bool) -> None:
    """Raise RequestError for a pooling that says nothing of the text.

    mean   of all tokens
    last   the last token, which in a decoder has seen all others
    cls    the first token, which only in an encoder has seen any other
    """
    if pooling == "cls" and not is_encoder:
        raise RequestError(
            "pooling not supported: cls",
            param="pooling",
            hint="the first token of a decoder has seen no other; use mean or last",
        )
