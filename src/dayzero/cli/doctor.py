"""`dayzero doctor`: what this machine has, which kernel serves each op and why, what a model would need."""

import platform
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from dayzero.cli.progress import Bars
from dayzero.errors import ConfigError
from dayzero.workshop.bench.provenance import cpuinfo, processor

if TYPE_CHECKING:
    from dayzero.engine.build import EnginePlan

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")


def doctor(
    model: Annotated[str | None, typer.Argument(help="folder, .gguf file or hub id; none: the embedded model")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32")] = "bfloat16",
    precision: Annotated[str, typer.Option(help="bf16, int8, nvfp4, as-stored (the model's own codes), auto")] = "auto",
    kv_dtype: Annotated[str, typer.Option(help="of stored K and V: bf16, int8 (half the memory), auto")] = "auto",
    kernels: Annotated[str, typer.Option(help="auto, native or torch")] = "auto",
    offline: Annotated[bool, typer.Option("--offline", help="never look at the hub")] = False,
) -> None:
    """Look at this machine, and at what a model would need on it."""
    import torch

    from dayzero.checkpoint.locate import locate
    from dayzero.core.spec import EngineConfig
    from dayzero.engine.build import plan_engine
    from dayzero.engine.machine import machine

    console = Console()
    here = machine()
    _table(
        console,
        "this machine",
        [
            ("processor", processor()),
            ("cores", str(here.cores)),
            ("instructions", ", ".join(_flags()) or "not known on this platform"),
            ("memory free", f"{here.free_bytes / 2**30:.1f} GiB"),
            ("python, torch", f"{platform.python_version()}, {torch.__version__}"),
            ("torch uses", torch.backends.cpu.get_cpu_capability()),
        ],
    )
    _print_native(console)
    with Bars() as bars:
        path = locate(model, offline=offline, progress=bars)
    plan = plan_engine(
        EngineConfig(model=str(path), dtype=dtype, precision=precision, kernels=kernels, kv_dtype=kv_dtype)
    )
    _table(
        console,
        f"{path.name} as {dtype}, precision {plan.precision}",
        [
            ("family", plan.family.name),
            ("weights", f"{plan.weight_bytes / 2**20:.0f} MiB"),
            ("context", f"{plan.memory.max_context} tokens"),
            *_kv_rows(plan),
        ],
    )
    _table(console, "precisions", list(_precisions(plan)))
    table = Table("op", "kernel", "because", title="kernels", title_justify="left")
    for choice in plan.kernels.choices:
        table.add_row(choice.op, choice.implementation, choice.reason)
    console.print(table)


def _kv_rows(plan: "EnginePlan") -> list[tuple[str, str]]:
    if plan.family.is_encoder:
        return [("KV", "none: an encoder keeps nothing")]
    per_token = sum(group.bytes_per_token for group in plan.groups)
    return [
        ("KV", f"{per_token / 2**10:.1f} KiB a token, in {plan.kv_dtype}"),
        ("KV pool", f"{plan.memory.kv_bytes / 2**30:.2f} GiB, committed as it fills"),
    ]


def _print_native(console: Console) -> None:
    """For which instruction sets there is native code, and which of it cannot run here."""
    from dayzero.kernels.native.extension import best_instruction_set, lacking

    sets = lacking()
    if not sets:
        console.print(best_instruction_set()[1], soft_wrap=True)
        return
    rows = [(f"native/{name}", f"refused: needs {missing}" if missing else "can run") for name, missing in sets.items()]
    _table(console, "native kernels", rows)


def _precisions(plan: "EnginePlan") -> Iterator[tuple[str, str, str]]:
    """Each, what the weights would take in it, and why it is served, how it can be, or why it cannot."""
    from dayzero.engine.build import resolve_precision
    from dayzero.quant.precision import PRECISIONS, weight_bytes

    names = [name for name in PRECISIONS if name != "auto"]
    if plan.precision not in names:  # torch's kernels in float32
        yield plan.precision, f"{plan.weight_bytes / 2**20:.0f} MiB", _why_chosen(plan)
    for name in names:
        config = msgspec.structs.replace(plan.config, precision=name)
        try:
            resolve_precision(config, plan.checkpoint, plan.shape.heads, plan.kernels)
        except ConfigError as error:
            yield name, "", f"refused: {error.message}"
        else:
            num_bytes = weight_bytes(name, plan.checkpoint.tensors.values(), plan.dtype)
            note = _why_chosen(plan) if name == plan.precision else f"--precision {name}"
            yield name, f"{num_bytes / 2**20:.0f} MiB", note


def _why_chosen(plan: "EnginePlan") -> str:
    if plan.config.precision != "auto":
        return "chosen: asked for"
    if not plan.kernels.choices[0].implementation.startswith("native/"):
        return "chosen: torch's kernels compute in nothing else"
    return f"chosen: the checkpoint has {'codes' if plan.precision == 'as-stored' else 'no codes'} of its own"


def _table(console: Console, title: str, rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _flags() -> list[str]:
    present = cpuinfo("flags").split()
    return [flag for flag in FLAGS if flag in present]
