"""Outputs that are messages with headers; a call is a message to a tool. `harmony` reads them, as whole outputs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """<start>role<channel>channel to=functions.f<message>{...}<end>

    constrain   may stand before the type of a body, in a header
    end         of a message that another one follows
    call_end    of a call
    last_end    of the last message
    """

    start: str
    channel: str
    constrain: str
    message: str
    end: str
    call_end: str
    last_end: str

    @property
    def ends(self) -> tuple[str, ...]:
        """What may end a message, whatever it is."""
        return (self.end, self.last_end, self.call_end)

    @property
    def answer_begin(self) -> str:
        """The end of a message, and the header of the one that is the answer."""
        return f"{self.end}{self.start}assistant{self.channel}final{self.message}"

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.start, self.channel, self.constrain, self.message, *self.ends)
