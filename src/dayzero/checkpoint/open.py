"""A model on disk, whichever form it has, as one `Checkpoint`."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dayzero.checkpoint import gguf_names, gguf_text
from dayzero.checkpoint.config import GenerationDefaults, canonical, is_multimodal, read_generation, token_ids
from dayzero.checkpoint.gguf import read_gguf
from dayzero.checkpoint.mapping import read_json_object
from dayzero.checkpoint.packing import assemble, read_packing
from dayzero.checkpoint.safetensors import SafetensorsFile, read_folder
from dayzero.checkpoint.sentence import read_max_tokens, read_pooling
from dayzero.checkpoint.tensor import StoredTensor
from dayzero.checkpoint.tokenizer import read_eos_ids, read_tokenizer
from dayzero.core.pooling import Pooling
from dayzero.errors import CheckpointError
from dayzero.text.source import TokenizerSource

_SAMPLE_BYTES = 256  # of both ends of every tensor, for the fingerprint

# Other parts of a multimodal checkpoint, and buffers that old files carry and every reader computes.
_OTHER_PARTS = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.")
_PREFIXES = (("model.language_model.", "model."), ("language_model.", ""))
_COMPUTED_BUFFERS = (".rotary_emb.inv_freq", "embeddings.position_ids")

# A BERT file may hold what it was trained with besides, and call the encoder a part of that; old ones call a norm's
# weight and bias gamma and beta.
_BERT_HEADS = ("pooler.", "cls.", "bert.pooler.")
_OLD_BERT_NAMES = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


@dataclass(frozen=True)
class Checkpoint:
    """A model as it lies on disk. Opening one reads headers; tensors and tokenizer are read when asked for.

    family    Hugging Face's `model_type`, e.g. "llama"; it need not be one that `models` has
    config    canonical keys, see `checkpoint.config`
    tensors   by Hugging Face name; their bytes are views of mappings, released with the last of them
    pooling   of embeddings; None: it does not say

    Drop it after loading: it keeps the mappings, and once asked for the vocabulary, in memory.
    """

    family: str
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    generation: GenerationDefaults
    read_tokenizer: Callable[[], TokenizerSource] = field(repr=False)
    headers: tuple[bytes | memoryview, ...] = field(repr=False)
    pooling: Pooling | None = None

    @cached_property
    def tokenizer(self) -> TokenizerSource:
        """Read on first use; CheckpointError where there is none."""
        return self.read_tokenizer()

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the content: equal for a copy or another path, different after any change of shape or metadata
        and, as both ends of every tensor are hashed, after any training step or other quantization. 32 hex digits.
        """
        digest = hashlib.blake2b(digest_size=16)
        for header in self.headers:
            digest.update(len(header).to_bytes(8, "little"))
            digest.update(header)
        for name in sorted(self.tensors):
            tensor = self.tensors[name]
            for data in (tensor.data, *(tensor.parts[part].data for part in sorted(tensor.parts))):
                digest.update(f"{name}:{len(data)}:".encode())
                digest.update(data[:_SAMPLE_BYTES])
                digest.update(data[-_SAMPLE_BYTES:])
        return digest.hexdigest()


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a .gguf file or a Hugging Face folder. CheckpointError names the file, and the key or tensor, at fault."""
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise CheckpointError(f"no such file: {path}")
    if path.suffix in (".bin", ".pt", ".pth", ".ckpt"):
        raise CheckpointError(
            f"pickled weights: {path}", hint="a pickle can run code; save the model again as safetensors"
        )
    if path.suffix == ".safetensors":
        raise CheckpointError(f"a single weight file: {path}", hint=f"name its folder: {path.parent}")
    return _open_gguf(path)


def _open_gguf(path: Path) -> Checkpoint:
    file = read_gguf(path)
    config = gguf_names.read_config(file)
    return _checkpoint(
        config,
        gguf_names.read_tensors(file, config),
        GenerationDefaults(eos_token_ids=gguf_text.read_end_ids(file)),
        lambda: gguf_text.read_tokenizer(file),
        (memoryview(file.mapping)[: file.header_bytes],),
    )


def _open_folder(folder: Path) -> Checkpoint:
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            f"not a model: {folder} has no config.json", hint="name a folder that has one, or a .gguf"
        )
    raw = read_json_object(folder / "config.json")
    config = canonical(raw, folder / "config.json")
    if (max_tokens := read_max_tokens(folder)) is not None:
        config["max_seq_length"] = max_tokens
    packing = read_packing(raw, folder / "config.json")
    files = read_folder(folder)
    tensors = assemble(_gather(files, raw), packing, config)
    tied = config.setdefault("tie_word_embeddings", "lm_head.weight" not in tensors)
    if tied:
        tensors.pop("lm_head.weight", None)  # some files carry the tied copy too
    generation_file = folder / "generation_config.json"
    generation = read_generation(
        read_json_object(generation_file) if generation_file.is_file() else {},
        token_ids(config, "eos_token_id", folder / "config.json") | read_eos_ids(folder),
        generation_file,
    )
    return _checkpoint(
        config,
        tensors,
        generation,
        lambda: read_tokenizer(folder, config),
        (_identity(config), *(file.header for file in files)),
        pooling=read_pooling(folder),
    )


def _identity(config: dict[str, Any]) -> bytes:
    """The config as bytes, whatever the order and spacing of its file."""
    return json.dumps(config, sort_keys=True).encode()


def _checkpoint(
    config: dict[str, Any],
    tensors: dict[str, StoredTensor],
    generation: GenerationDefaults,
    tokenizer: Callable[[], TokenizerSource],
    headers: tuple[bytes | memoryview, ...],
    pooling: Pooling | None = None,
) -> Checkpoint:
    return Checkpoint(
        family=config["model_type"],
        config=MappingProxyType(config),
        tensors=MappingProxyType(tensors),
        generation=generation,
        read_tokenizer=tokenizer,
        headers=headers,
        pooling=pooling,
    )


def _gather(files: Iterable[SafetensorsFile], raw: dict[str, Any]) -> dict[str, StoredTensor]:
    """Tensors of all shards under their canonical names: of several parts of a model, the one that is served."""
    others, rename = _names_of(raw)
    result: dict[str, StoredTensor] = {}
    for file in files:
        for name, tensor in file.tensors.items():
            if name.endswith(_COMPUTED_BUFFERS) or name.startswith(others):
                continue
            canonical_name = rename(name)
            if canonical_name in result:
                raise CheckpointError(f"tensor occurs twice: {name}, the second time in {file.path}")
            result[canonical_name] = StoredTensor(canonical_name, tensor.shape, tensor.format, tensor.data)
    return result


def _names_of(raw: dict[str, Any]) -> tuple[tuple[str, ...], Callable[[str], str]]:
    """How names begin that are no part of what is served, and the canonical form of one that is."""
    if is_multimodal(raw):
        return _OTHER_PARTS, _language_name
    if raw.get("model_type") == "bert":
        return _BERT_HEADS, _bert_name
    return (), str


def _language_name(name: str) -> str:
    for prefix, replacement in _PREFIXES:
        if name.startswith(prefix):
            return replacement + name.removeprefix(prefix)
    return name


def _bert_name(name: str) -> str:
    name = name.removeprefix("bert.")
    for old, new in _OLD_BERT_NAMES:
        name = name.replace(old, new)
    return name
