"""The model families that are known. A new one is one file and one line here."""

from dayzero.errors import UnsupportedModel
from dayzero.models.bert import BERT
from dayzero.models.family import Family
from dayzero.models.gemma3 import GEMMA3
from dayzero.models.llama import LLAMA
from dayzero.models.qwen2 import QWEN2
from dayzero.models.qwen3 import QWEN3

FAMILIES: dict[str, Family] = {family.name: family for family in (LLAMA, QWEN2, QWEN3, GEMMA3, BERT)}
ALIASES = {"gemma3_text": "gemma3"}  # the text part of a checkpoint names itself so


def family_of(model_type: str) -> Family:
    """The family of a checkpoint's `model_type`."""
    family = FAMILIES.get(ALIASES.get(model_type, model_type))
    if family is None:
        raise UnsupportedModel(
            f"architecture not supported: {model_type}", hint="known: " + ", ".join(sorted(FAMILIES))
        )
    return family
