"""The file that --chat-template names."""

from pathlib import Path

from dayzero.errors import ConfigError


def read_template(path: Path) -> str:
    """The source of a chat template. Whether it parses is seen where it is compiled."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat template not readable: {path}", hint=type(error).__name__) from None
