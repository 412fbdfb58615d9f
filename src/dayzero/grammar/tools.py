"""The tools that a request offers, and which of them it wants called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# "suppress": calls are read and dropped; "ignore": nothing is a call.
Calls = Literal["parse", "suppress", "ignore"]
# Whether an answer calls: "required" is one tool of several or more, "named" the one that is offered.
CallMode = Literal["none", "auto", "required", "named"]

ANY_ARGUMENTS: Mapping[str, object] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the client can call. Its arguments are an object of this JSON Schema.

    place   of the schema in the request, for errors
    """

    name: str
    parameters: Mapping[str, object]
    strict: bool = False
    place: str = "tools"
