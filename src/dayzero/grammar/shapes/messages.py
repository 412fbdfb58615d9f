"""Outputs that are messages with headers; a call is a message to a tool. `harmony` reads them, as whole outputs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """<start>role<channel>channel to=functions.f<message>{...}<end>

    constrain   may stand before the type of a body, in a header
    ends        of a message, any one of them
    """

    start: str
    channel: str
    constrain: str
    message: str
    ends: tuple[str, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.start, self.channel, self.constrain, self.message, *self.ends)
