"""Which engines run in which precision, and how each is started."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(os.environ.get("DAYZERO_PEERS", Path.home() / ".cache" / "dayzero-peers"))
HERE = Path(__file__).parent
KV_GIB = 1  # for every engine that is told: 32 requests of 256 tokens take 0.25 on the 1B shape


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """An engine with a precision.

    bits    of most of its weights, as a class: those with the same compete for the same bytes
    model   in the checkpoint's folder
    """

    engine: str
    form: str
    bits: int
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.engine} {self.form}"


def _ours(form: str, bits: int, model: str, precision: str) -> Contender:
    options = {"precision": precision, "kv_memory_bytes": KV_GIB << 30}
    return Contender(engine="dayzero", form=form, bits=bits, model=model, options=options)


def _llama_cpp(form: str, bits: int) -> Contender:
    return Contender(engine="llama.cpp", form=form, bits=bits, model=f"{form}.gguf")


def _openvino(form: str, bits: int) -> Contender:
    options = {"kv_gib": KV_GIB}
    return Contender(engine="openvino", form=form, bits=bits, model=f"openvino-{form}", options=options)


CONTENDERS: Sequence[Contender] = (
    _ours("Q4_0", 4, "Q4_0.gguf", "as-stored"),
    _ours("Q4_1", 4, "Q4_1.gguf", "as-stored"),
    _ours("nvfp4", 4, "bf16", "nvfp4"),
    _ours("Q8_0", 8, "Q8_0.gguf", "as-stored"),
    _ours("int8", 8, "bf16", "int8"),
    _ours("bf16", 16, "bf16", "bf16"),
    _llama_cpp("Q4_0", 4),
    _llama_cpp("Q4_1", 4),
    _llama_cpp("Q8_0", 8),
    _llama_cpp("BF16", 16),
    _openvino("int4", 4),
    _openvino("int8", 8),
    _openvino("bf16", 16),
    Contender(engine="vllm", form="bf16", bits=16, model="bf16"),
    Contender(engine="transformers", form="bf16", bits=16, model="bf16"),
)


def command(engine: str) -> Sequence[str]:
    if engine == "llama.cpp":
        return [str(ROOT / "llama.cpp" / "build" / "peer")]
    python = sys.executable if engine == "dayzero" else str(ROOT / engine / "bin" / "python")
    return [python, str(HERE / f"peer_{engine}.py")]


def environment(engine: str, threads: int) -> Mapping[str, str]:
    """As each engine's documentation advises for a small machine; dayzero needs nothing."""
    if engine == "vllm":
        library = ROOT / "vllm" / "lib" / "libiomp5.so"
        return {
            "VLLM_CPU_KVCACHE_SPACE": str(KV_GIB),
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",  # without it, it leaves one of two cores idle
            "OMP_NUM_THREADS": str(threads),
            "LD_PRELOAD": str(library),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
    return MappingProxyType({"HF_HUB_OFFLINE": "1"})


def is_installed(engine: str) -> bool:
    return all(Path(word).exists() for word in command(engine))
