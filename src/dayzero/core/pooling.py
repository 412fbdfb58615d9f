"""How the hidden states of a text become its embedding, one vector of unit length. Also the wire format.

cls    the first token: what an encoder that was trained so begins a text with
mean   of all tokens
last   the last token, which has seen all others
"""

from typing import Literal

Pooling = Literal["cls", "mean", "last"]
