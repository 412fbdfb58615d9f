"""The user's own prompts: a file of JSON lines, `{"prompt": ...}` or `{"messages": [...]}`, each with an optional
`max_tokens`. Other fields are ignored; empty lines are skipped.
"""

from pathlib import Path
from typing import Annotated

import msgspec

from dayzero.errors import ConfigError
from dayzero.workshop.bench.workloads.session import Chat, Completion, Session, Turn

MAX_FILE_BYTES = 256 * 2**20


class _Line(msgspec.Struct):
    prompt: str | list[Annotated[int, msgspec.Meta(ge=0)]] | None = None
    messages: list[dict[str, object]] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


class JsonLines:
    """One request a session, in the order of the file; after the last line the first comes again."""

    def __init__(self, path: Path) -> None:
        self._turns = read_turns(path)

    def session(self, index: int) -> Session:
        return Session((self._turns[index % len(self._turns)],), group=index)


def read_turns(path: Path) -> list[Turn]:
    """Every line as a turn. A line that is no request is a ConfigError with its number; its text is not quoted."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes", hint="split the file")
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the workload file: {path} ({error.strerror})") from None
    decoder = msgspec.json.Decoder(_Line)
    turns = [_turn(path, number, line, decoder) for number, line in enumerate(raw.split(b"\n"), 1) if line.strip()]
    if not turns:
        raise ConfigError(f"the workload file has no requests: {path}", hint='write lines like {"prompt": "Once upon"}')
    return turns


def _turn(path: Path, number: int, raw: bytes, decoder: "msgspec.json.Decoder[_Line]") -> Turn:
    where = f"{path}, line {number}"
    try:
        line = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {_reason(error)}", hint="every line is one JSON object") from None
    if (line.prompt is None) == (line.messages is None):
        raise ConfigError(f"{where}: needs either `prompt` or `messages`")
    if line.messages is not None:
        if not line.messages or not all(isinstance(message.get("role"), str) for message in line.messages):
            raise ConfigError(f"{where}: `messages` must be a list of objects that each have a `role`")
        return Chat(tuple(line.messages), max_tokens=line.max_tokens)
    assert line.prompt is not None
    if not line.prompt:
        raise ConfigError(f"{where}: `prompt` is empty")
    return Completion(line.prompt if isinstance(line.prompt, str) else tuple(line.prompt), line.max_tokens)


def _reason(error: Exception) -> str:
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
