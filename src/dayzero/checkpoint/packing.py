"""Weights that AWQ or GPTQ made of a safetensors checkpoint: 4-bit codes, zeros and scales in tensors of their own.

    <module>.qweight, .qzeros, .scales and GPTQ's .g_idx   ->   <module>.weight, with them as its parts

Here is which files are known and that shapes agree; what the numbers mean is `quant.packed`'s affair. Source of the
layouts: AutoAWQ (GEMM) and AutoGPTQ, whose successor GPTQModel calls its own two `gptq` and `gptq_v2`.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dayzero.checkpoint.tensor import FORMATS, StoredTensor
from dayzero.errors import CheckpointError, UnsupportedModel

AWQ, GPTQ, GPTQ_V2 = "AWQ", "GPTQ", "GPTQ v2"
PACKINGS = (AWQ, GPTQ, GPTQ_V2)

_CODES_IN_WORD = 8  # of 4 bits
_GROUP_UNIT = 32  # weights along K that int8 activations share a scale with: a group of codes is some of those
_PARTS = ("qweight", "qzeros", "scales", "g_idx")
_HAS_BIAS = re.compile(r"self_attn\.[qkv]_proj$")  # where `attention_bias` puts one


def read_packing(raw: Mapping[str, Any], where: Path) -> str | None:
    """How a config.json says that its weights are packed: one of PACKINGS, or None if they are not."""
    text_config = raw.get("text_config")
    nested = text_config.get("quantization_config") if isinstance(text_config, dict) else None
    quantization = raw.get("quantization_config") or nested
    if not quantization:
        return None
    method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
    if method == "awq":
        return _read_awq(quantization, where)
    if method == "gptq":
        return _read_gptq(quantization, where)
    raise UnsupportedModel(
        f"quantized weights in {where}: {str(method)[:40]}",
        hint="known in safetensors: awq, gptq; or use the bf16 checkpoint of this model, or a GGUF file",
    )


def _read_awq(quantization: Mapping[str, Any], where: Path) -> str:
    _require(quantization, "bits", (4,), where)
    _require(quantization, "zero_point", (True,), where)
    version = str(quantization.get("version", "gemm")).lower()
    _require({"version": version}, "version", ("gemm",), where)
    return AWQ


def _read_gptq(quantization: Mapping[str, Any], where: Path) -> str:
    _require(quantization, "bits", (4,), where)
    _require(quantization, "is_marlin_format", (False,), where)
    _require(quantization, "pack_dtype", ("int32",), where)
    dynamic = quantization.get("dynamic") or {}
    if not isinstance(dynamic, dict) or not all(isinstance(changes, dict) for changes in dynamic.values()):
        raise UnsupportedModel(f"quantized weights in {where}: dynamic is not an object of objects")
    for module, changes in dynamic.items():
        if not module.startswith("-:"):  # which leaves a module as it was
            _require(changes, "bits", (4,), where)
    layout = quantization.get("checkpoint_format") or quantization.get("format") or "gptq"
    _require({"checkpoint_format": layout}, "checkpoint_format", ("gptq", "gptq_v2"), where)
    return GPTQ_V2 if layout == "gptq_v2" else GPTQ


def _require(quantization: Mapping[str, Any], key: str, known: tuple[object, ...], where: Path) -> None:
    """A key that is there has a value that we know."""
    value = quantization.get(key, known[0])
    if value not in known:
        raise UnsupportedModel(
            f"quantized weights in {where}: {key} is {str(value)[:40]} (known: {', '.join(map(str, known))})",
            hint="use the bf16 checkpoint of this model, or a GGUF file",
        )


def assemble(
    tensors: Mapping[str, StoredTensor], packing: str | None, config: Mapping[str, Any]
) -> dict[str, StoredTensor]:
    """The tensors with every packed weight as one. CheckpointError names a part that is missing or misshapen."""
    result = dict(tensors)
    for name in tensors:
        module, _, last = name.rpartition(".")
        if packing is not None and last == "qweight":
            if f"{module}.weight" in tensors:
                raise CheckpointError(f"tensor occurs twice: {module}.weight, packed and not")
            result[f"{module}.weight"] = _assembled(module, tensors, packing)
            for part in _PARTS:
                result.pop(f"{module}.{part}", None)
            if _is_spare_bias(module, tensors.get(f"{module}.bias"), config):
                del result[f"{module}.bias"]
    for tensor in result.values():
        if tensor.format not in (*FORMATS, *PACKINGS):
            raise UnsupportedModel(
                f"unknown format of tensor {tensor.name}: {tensor.format}",
                hint="its config does not say that it is packed, or not how",
            )
    return result


def _is_spare_bias(module: str, bias: StoredTensor | None, config: Mapping[str, Any]) -> bool:
    """Whether it is the bias of zeros that some of GPTQ's tools add to every module."""
    wanted = config.get("attention_bias") and _HAS_BIAS.search(module)
    return bias is not None and not wanted and bias.data == bytes(len(bias.data))


def _assembled(module: str, tensors: Mapping[str, StoredTensor], packing: str) -> StoredTensor:
    def part(name: str) -> StoredTensor:
        tensor = tensors.get(f"{module}.{name}")
        if tensor is None:
            raise CheckpointError(f"tensor missing: {module}.{name}", hint="the packed weight beside it needs it")
        if (tensor.format in FORMATS) is not (name == "scales") or (len(tensor.shape) == 2) is not (name != "g_idx"):
            raise CheckpointError(f"tensor misshapen: {module}.{name} is {tensor.format} {list(tensor.shape)}")
        return tensor

    codes, zeros, scales = part("qweight"), part("qzeros"), part("scales")
    groups, features = scales.shape
    along_n = _CODES_IN_WORD if packing == AWQ else 1
    inner = codes.shape[0] * (_CODES_IN_WORD // along_n)
    parts = {"qzeros": zeros, "scales": scales}
    if packing != AWQ and f"{module}.g_idx" in tensors:
        parts["g_idx"] = part("g_idx")
    for name, tensor, wanted in (
        ("qweight", codes, (codes.shape[0], features // along_n)),
        ("qzeros", zeros, (groups, features // _CODES_IN_WORD)),
        ("g_idx", parts.get("g_idx"), (inner,)),
    ):
        if tensor is not None and tensor.shape != wanted:
            raise CheckpointError(
                f"tensor misshapen: {module}.{name} is {list(tensor.shape)} "
                f"(its scales {list(scales.shape)} want {list(wanted)})"
            )
    if features % _CODES_IN_WORD or inner % groups or inner // groups % _GROUP_UNIT:
        raise UnsupportedModel(
            f"groups of {module}: {features} features, {groups} groups of {inner} weights",
            hint=f"features come by {_CODES_IN_WORD}, groups are some multiple of {_GROUP_UNIT} weights",
        )
    return replace(codes, name=f"{module}.weight", shape=(features, inner), format=packing, parts=parts)
