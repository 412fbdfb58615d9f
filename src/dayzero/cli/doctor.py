"""`dayzero doctor`: what this machine has, which kernel serves each op and why, what a model would need."""

import platform
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dayzero.cli.progress import Bars
from dayzero.workshop.bench.provenance import cpuinfo, processor

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")


def doctor(
    model: Annotated[str | None, typer.Argument(help="folder, .gguf file or hub id; none: the embedded model")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32")] = "bfloat16",
    precision: Annotated[str, typer.Option(help="bf16, int8, nvfp4, as-stored (GGUF's own codes), auto")] = "auto",
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
    with Bars() as bars:
        path = locate(model, offline=offline, progress=bars)
    plan = plan_engine(EngineConfig(model=str(path), dtype=dtype, precision=precision, kernels=kernels))
    per_token = sum(group.bytes_per_token for group in plan.groups)
    _table(
        console,
        f"{path.name} as {dtype}, precision {plan.precision}",
        [
            ("family", plan.family.name),
            ("weights", f"{plan.weight_bytes / 2**20:.0f} MiB"),
            ("KV", f"{per_token / 2**10:.1f} KiB a token"),
            ("context", f"{plan.memory.max_context} tokens"),
            ("KV pool", f"{plan.memory.kv_bytes / 2**30:.2f} GiB, committed as it fills"),
        ],
    )
    table = Table("op", "kernel", "because", title="kernels", title_justify="left")
    for choice in plan.kernels.choices:
        table.add_row(choice.op, choice.implementation, choice.reason)
    console.print(table)


def _table(console: Console, title: str, rows: list[tuple[str, str]]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _flags() -> list[str]:
    present = cpuinfo("flags").split()
    return [flag for flag in FLAGS if flag in present]
