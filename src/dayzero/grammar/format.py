"""What a model writes around its thoughts and its calls: one record for each format.

The parser, the grammar of a call, and the check of a chat template are made of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import Reader, Window


class Shape(Protocol):
    """How calls are written, after what begins them."""

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:
        """All calls up to the end of what the trigger began. `trigger` "": they begin with the output itself."""
        ...

    @property
    def marks(self) -> tuple[str, ...]:
        """Strings within calls that may be one token of a vocabulary; alone, outside of calls, they mean nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format.

    shape             of the calls
    triggers          what calls begin with
    also_read         what models were seen to begin calls with, too; a grammar never does
    bare              characters that calls may begin with instead, as the very first of an answer
    reasoning         what stands before and after what a model thinks
    closes_reasoning  a call may come before the end of reasoning, and ends it
    forbidden         what a model must never write: the turns of others, and results of tools
    tokens            further strings within calls or thoughts that may be one token of a vocabulary
    call_id           how a template names the calls of earlier turns, where the model depends on it: `{name}`, and
                      `{index}` or `{index:9}`, so many digits, which counts the calls of a conversation
    templates         a chat template that holds all of one of these speaks this format
    """

    name: str
    shape: Shape | Messages
    triggers: tuple[str, ...] = ()
    also_read: tuple[str, ...] = ()
    bare: str = ""
    reasoning: tuple[str, str] | None = None
    closes_reasoning: bool = False
    forbidden: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    call_id: str = ""
    templates: tuple[tuple[str, ...], ...] = ()

    @property
    def reasoning_end(self) -> str:
        """What ends a model's thoughts, so that its answer follows; "" for a format without thoughts."""
        if isinstance(self.shape, Messages):
            return self.shape.answer_begin
        return "" if self.reasoning is None else self.reasoning[1]

    @property
    def begins(self) -> tuple[str, ...]:
        """All that begins calls as they are read."""
        return (*self.triggers, *self.also_read)

    @property
    def markers(self) -> tuple[str, ...]:
        """Every string that may be one token of a vocabulary."""
        return tuple(dict.fromkeys((*self.begins, *self.shape.marks, *(self.reasoning or ()), *self.tokens)))
