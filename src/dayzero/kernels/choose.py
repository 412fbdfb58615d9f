"""Native kernels where they can serve, else torch's; a wish that cannot be granted is refused by name."""

import dataclasses

import torch

from dayzero.core.spec import KernelChoice
from dayzero.errors import ConfigError
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.native.backend import NativeKernels, obstacle
from dayzero.kernels.registry import Kernels, select

WISHES = ("auto", "native", "torch")


def choose(
    dtype: torch.dtype,
    heads: HeadLayout,
    block_size: int,
    num_threads: int,
    wish: str = "auto",
    *,
    poisoned: bool = False,
) -> Kernels | NativeKernels:
    """The kernels of an engine, native ones poisoned if tests want it. Raises ConfigError if such cannot serve it."""
    if wish not in WISHES:
        raise ConfigError(f"kernels not known: {wish}", hint="known: " + ", ".join(WISHES))
    why_not = why_not_native(dtype, heads, block_size, wish)
    if not why_not:
        return NativeKernels(num_threads, poisoned=poisoned)
    if wish == "native":
        raise ConfigError(f"native kernels cannot serve this model here: {why_not}", hint="leave out --kernels native")
    kernels = select(dtype, heads)
    told = tuple(_with_note(choice, why_not) if choice.op == "linear" else choice for choice in kernels.choices)
    return dataclasses.replace(kernels, choices=told)


def why_not_native(dtype: torch.dtype, heads: HeadLayout, block_size: int, wish: str = "auto") -> str:
    """What keeps native kernels from serving; empty if they do."""
    return "torch was asked for" if wish == "torch" else obstacle(dtype, heads, block_size)


def _with_note(choice: KernelChoice, note: str) -> KernelChoice:
    return KernelChoice(choice.op, choice.implementation, f"{choice.reason}; {note}")
