"""From a checkpoint to a production API, fast and faithful, on the hardware you have.

`LLM` is the in-process Python API; everything else is reached through the `dayzero` command.
"""

from typing import TYPE_CHECKING

from dayzero.version import __version__

if TYPE_CHECKING:
    from dayzero.llm import LLM

__all__ = ["LLM", "__version__"]


def __getattr__(name: str) -> object:
    """Import `LLM`, and with it torch, only when asked: the gateway process must not pay for it."""
    if name == "LLM":
        from dayzero.llm import LLM

        return LLM
    raise AttributeError(f"module 'dayzero' has no attribute {name!r}")
