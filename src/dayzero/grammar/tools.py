"""The tools that a request offers, and which of them it wants called."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the client can call. Its arguments are an object of this JSON Schema."""

    name: str
    parameters: Mapping[str, object]
    strict: bool = False
