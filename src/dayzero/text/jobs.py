"""Messages to and from a confined process: closed unions, so that another kind of work is another job.

On the pipe each is four bytes of length (little-endian) and msgpack.
"""

import msgspec

from dayzero.text.conversation import Conversation, Rendering

LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = 256 * 1024 * 1024


class LoadTemplate(msgspec.Struct, frozen=True, tag="load_template"):
    """The template of all later `Render` jobs, and the characters that their veil covers."""

    source: str
    named_tokens: dict[str, str]
    alphabet: str
    limit_s: float


class Render(msgspec.Struct, frozen=True, tag="render"):
    conversation: Conversation
    limit_s: float


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The template compiles."""


class Rendered(msgspec.Struct, frozen=True, tag="rendered"):
    rendering: Rendering


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The job failed as an error of the project would say it; which class follows from the kind of job."""

    message: str
    hint: str | None
    param: str | None


Job = LoadTemplate | Render
Answer = Loaded | Rendered | Refused
