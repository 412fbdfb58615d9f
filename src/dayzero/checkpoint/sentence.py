"""What a folder of sentence-transformers says about embeddings: how they are pooled, and the longest text.

    modules.json                 the steps: a model, a pooling, a normalisation
    1_Pooling/config.json        which hidden states count; the steps say in which folder
    sentence_bert_config.json    how many tokens a text may have

All embeddings get unit length, whether the folder normalises or not: their direction is the same.
"""

import re
from pathlib import Path

import msgspec

from dayzero.checkpoint.mapping import read_json_object, read_text
from dayzero.core.pooling import Pooling
from dayzero.errors import CheckpointError, UnsupportedModel

_MODULES = "modules.json"
_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LENGTH = "sentence_bert_config.json"
_KNOWN_STEPS = ("Transformer", "Pooling", "Normalize")
_MODES: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean",  # another length of the same direction
    "pooling_mode_lasttoken": "last",
}


class _Step(msgspec.Struct):
    """A step by the name of its class, and its folder."""

    type: str
    path: str = ""

    @property
    def kind(self) -> str:
        return self.type.rpartition(".")[2]


def read_pooling(folder: Path) -> Pooling | None:
    """None: the folder does not say. Raises UnsupportedModel for steps that would make other vectors of it."""
    if not (folder / _MODULES).is_file():
        return None
    steps = _steps(folder / _MODULES)
    for step in steps:
        if step.kind not in _KNOWN_STEPS:
            known = ", ".join(_KNOWN_STEPS)
            raise UnsupportedModel(f"step of an embedding not supported: {step.kind}", hint=f"known: {known}")
    poolings = [step for step in steps if step.kind == "Pooling"]
    if len(poolings) > 1:
        raise UnsupportedModel("more than one pooling of an embedding")
    return _pooling(folder, poolings[0].path) if poolings else None


def _pooling(folder: Path, path: str) -> Pooling:
    file = folder / path / "config.json"
    if not _PLAIN_FOLDER.fullmatch(path):
        raise CheckpointError(f"malformed path in {folder / _MODULES}: {path[:64]}")
    modes = [key for key, value in read_json_object(file).items() if key.startswith("pooling_mode_") and value is True]
    if len(modes) != 1 or modes[0] not in _MODES:
        raise UnsupportedModel(
            f"pooling not supported: {', '.join(modes) or 'none'}", hint=f"known: one of {', '.join(_MODES)}"
        )
    return _MODES[modes[0]]


def read_max_tokens(folder: Path) -> int | None:
    """Of a text, as the folder says; None: it does not."""
    if not (folder / _LENGTH).is_file():
        return None
    value = read_json_object(folder / _LENGTH).get("max_seq_length")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"wrong value in {folder / _LENGTH}: max_seq_length (wanted: a positive whole number)")
    return value


def _steps(file: Path) -> list[_Step]:
    try:
        return msgspec.json.decode(read_text(file), type=list[_Step])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CheckpointError(f"not a list of steps: {file}") from error
