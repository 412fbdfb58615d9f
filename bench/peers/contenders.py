"""Which engines run in which precision, how each is started, and which are measured together."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(os.environ.get("DAYZERO_PEERS", Path.home() / ".cache" / "dayzero-peers"))
HERE = Path(__file__).parent
KV_GIB = 1  # for every engine that is told: 32 requests of 256 tokens take 0.25 on the 1B shape
OURS = "dayzero "  # how the names of our own begin
SERVED = " http"  # how the names of contenders that are asked through HTTP end
SMOLLM2, DEGRIDDED, LLAMA_1B = "smollm2-135m", "smollm2-135m-degrid", "llama-1b"  # checkpoints of make_models.py
DEGRID_SEED = 0
CONCURRENT = ("concurrent-8", "concurrent-32")


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """An engine with a precision.

    bits    of most of its weights, as a class: those with the same compete for the same bytes
    model   in the checkpoint's folder
    served  the engine's own server, with the client on the same cores
    """

    engine: str
    form: str
    bits: int
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    served: bool = False

    @property
    def name(self) -> str:
        return f"{self.engine} {self.form}{SERVED if self.served else ''}"


def _ours(form: str, bits: int, model: str, precision: str) -> Contender:
    options = {"precision": precision, "kv_memory_bytes": KV_GIB << 30}
    return Contender(engine="dayzero", form=form, bits=bits, model=model, options=options)


def _llama_cpp(form: str, bits: int) -> Contender:
    return Contender(engine="llama.cpp", form=form, bits=bits, model=f"{form}.gguf")


def _openvino(form: str, bits: int) -> Contender:
    options = {"kv_gib": KV_GIB}
    return Contender(engine="openvino", form=form, bits=bits, model=f"openvino-{form}", options=options)


IN_PROCESS: Sequence[Contender] = (
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

# OpenVINO GenAI has no server of its own, and transformers' is another engine than its `generate`.
THROUGH_HTTP = ("dayzero Q4_0", "dayzero int8", "dayzero bf16", "llama.cpp Q4_0", "llama.cpp Q8_0", "vllm bf16")

CONTENDERS: Sequence[Contender] = (
    *IN_PROCESS,
    *(replace(contender, served=True) for contender in IN_PROCESS if contender.name in THROUGH_HTTP),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What is loaded together and measured in turns. `names` None: every contender."""

    title: str
    measures: Sequence[str]
    names: Sequence[str] | None = None

    def contenders(self) -> list[Contender]:
        return [contender for contender in CONTENDERS if self.names is None or contender.name in self.names]


# All forms of the larger shape do not fit into 24 GiB, so those that are compared are loaded together: by their bits
# for a single stream, and the best of each engine for the rest.
SESSIONS: Mapping[str, Sequence[Session]] = MappingProxyType(
    {
        SMOLLM2: (Session(title="all", measures=("decode", "prefill", "cached", *CONCURRENT)),),
        LLAMA_1B: (
            Session(
                title="4 and 8 bits",
                measures=("decode",),
                names=[contender.name for contender in IN_PROCESS if contender.bits < 16],
            ),
            Session(
                title="16 bits",
                measures=("decode",),
                names=[contender.name for contender in IN_PROCESS if contender.bits == 16],
            ),
            Session(
                title="best",
                measures=("prefill", "cached", *CONCURRENT),
                names=(
                    *("dayzero Q4_0", "dayzero int8", "dayzero bf16", "llama.cpp Q4_0", "llama.cpp Q8_0"),
                    *("openvino int4", "openvino bf16", "vllm bf16"),
                ),
            ),
        ),
    }
)


def command(contender: Contender) -> Sequence[str]:
    """Of the process that speaks protocol.py's lines."""
    if contender.served:
        return [sys.executable, str(HERE / "peer_http.py")]
    if contender.engine == "llama.cpp":
        return [str(ROOT / "llama.cpp" / "build" / "peer")]
    python = sys.executable if contender.engine == "dayzero" else str(ROOT / contender.engine / "bin" / "python")
    return [python, str(HERE / f"peer_{contender.engine}.py")]


def load_options(contender: Contender, threads: int) -> Mapping[str, Any]:
    """What a process is told when it loads its model."""
    if not contender.served:
        return contender.options
    return {
        "command": server_command(contender, threads),
        "environment": dict(environment(contender.engine, threads)),
        "ready": "/ready" if contender.engine == "dayzero" else "/health",
    }


def server_command(contender: Contender, threads: int) -> Sequence[str]:
    """An engine's own server, with as much KV and as many requests as in process; {model} and {port} stay open."""
    if contender.engine == "dayzero":
        options = ("--precision", contender.options["precision"], "--kv-memory", str(KV_GIB), "--offline")
        return [sys.executable, "-m", "dayzero.cli.main", "serve", "{model}", *options, "--port", "{port}"]
    if contender.engine == "llama.cpp":
        server = str(ROOT / "llama.cpp" / "build" / "bin" / "llama-server")
        slots = ("--parallel", "32", "--ctx-size", str(32 * 512), "--batch-size", "2048")
        return [server, "--model", "{model}", "--threads", str(threads), *slots, "--no-ui", "--port", "{port}"]
    # Its command asks for the version of a package `vllm`, and that for CPUs is named otherwise.
    module = ("-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "--port", "{port}")
    limits = ("--dtype", "bfloat16", "--max-model-len", "2048", "--max-num-seqs", "64")
    return [str(ROOT / "vllm" / "bin" / "python"), *module, *limits]


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


def is_installed(contender: Contender) -> bool:
    server = [server_command(contender, 1)[0]] if contender.served else []
    return all(Path(word).exists() for word in (*command(contender), *server))
