"""Every format by its name, and which one a chat template speaks."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from dayzero.errors import ConfigError
from dayzero.grammar.format import Format
from dayzero.grammar.format_file import read_format
from dayzero.grammar.formats.deepseek_v3 import DEEPSEEK_V3
from dayzero.grammar.formats.deepseek_v31 import DEEPSEEK_V31
from dayzero.grammar.formats.deepseek_v32 import DEEPSEEK_V32
from dayzero.grammar.formats.gemma4 import GEMMA4
from dayzero.grammar.formats.glm import GLM
from dayzero.grammar.formats.harmony import HARMONY
from dayzero.grammar.formats.hermes import HERMES
from dayzero.grammar.formats.kimi_k2 import KIMI_K2
from dayzero.grammar.formats.llama3_json import LLAMA3_JSON
from dayzero.grammar.formats.minimax_m2 import MINIMAX_M2
from dayzero.grammar.formats.mistral import MISTRAL
from dayzero.grammar.formats.mistral_json import MISTRAL_JSON
from dayzero.grammar.formats.phi4_mini import PHI4_MINI
from dayzero.grammar.formats.pythonic import PYTHONIC
from dayzero.grammar.formats.qwen3_coder import QWEN3_CODER

# In the order in which they are looked for: what holds another's strings and more comes before it.
FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        found.name: found
        for found in (
            HARMONY,
            DEEPSEEK_V32,
            DEEPSEEK_V3,
            DEEPSEEK_V31,
            KIMI_K2,
            GLM,
            MINIMAX_M2,
            GEMMA4,
            PHI4_MINI,
            QWEN3_CODER,
            HERMES,
            MISTRAL,
            MISTRAL_JSON,
            PYTHONIC,
            LLAMA3_JSON,
        )
    }
)


def format_of(chat_template: str) -> Format | None:
    """The format that a template's text speaks; None if it is none of these."""
    for one in FORMATS.values():
        if any(all(text in chat_template for text in texts) for texts in one.templates):
            return one
    return None


def chosen_format(name: str, chat_template: str) -> Format | None:
    """A format by its name, or by the path of a file that ends with .toml. ConfigError for anything else.

    None for "none"; for "auto" what the template speaks.
    """
    if name == "auto":
        return format_of(chat_template)
    if name == "none":
        return None
    if name.endswith(".toml"):
        return read_format(Path(name))
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise ConfigError(
            f"no such tool format: {name}", hint=f"known: auto, none, {known}, or a file that ends with .toml"
        )
    return FORMATS[name]
