"""Messages to and from a process that renders chat templates: closed unions, msgpack on the pipe."""

import msgspec

from dayzero.text.conversation import Conversation, Rendering


class LoadTemplate(msgspec.Struct, frozen=True, tag="load_template"):
    """The template of all later `Render` jobs, and the characters that their veil covers."""

    source: str
    named_tokens: dict[str, str]
    alphabet: str


class Render(msgspec.Struct, frozen=True, tag="render"):
    conversation: Conversation


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
