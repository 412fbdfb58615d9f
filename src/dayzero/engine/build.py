"""From a configuration to a running engine: the effects that `resolve` decided on, in order.

open checkpoint -> choose kernels -> size the KV pool -> load weights -> engine and frozen spec
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dayzero.checkpoint.open import Checkpoint, open_checkpoint
from dayzero.clock import Clock
from dayzero.core.spec import EngineConfig, EngineSpec
from dayzero.engine.divide import Division, divide
from dayzero.engine.endpoints import Endpoints
from dayzero.engine.engine import Engine
from dayzero.engine.machine import machine
from dayzero.engine.model import bind
from dayzero.engine.resolve import Memory, for_encoder, free_beside
from dayzero.engine.runner import ModelRunner
from dayzero.errors import ConfigError
from dayzero.kernels.attention import KV_ALIGN, HeadLayout
from dayzero.kernels.choose import choose, why_not_native
from dayzero.kernels.kv_format import KV_DTYPES, head_bytes
from dayzero.kernels.native.backend import NativeKernels
from dayzero.kernels.registry import Kernels
from dayzero.kv.groups import CacheGroup
from dayzero.kv.store import KVStore
from dayzero.models.family import Family
from dayzero.models.loader import load
from dayzero.models.registry import family_of
from dayzero.quant import precision as precisions
from dayzero.version import __version__

KV_WISHES = ("auto", "bf16", "int8")
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """What is known before a weight is read. `shape` has the served context."""

    config: EngineConfig
    checkpoint: Checkpoint
    family: Family
    shape: Any
    dtype: torch.dtype
    threads: int
    groups: tuple[CacheGroup, ...]
    weight_bytes: int
    division: Division
    kernels: Kernels | NativeKernels
    precision: str
    kv_dtype: str
    kv_is_committed: bool  # taken from the system at start: what was asked for, if there is as much

    @property
    def memory(self) -> Memory:
        """Of all endpoints together."""
        return self.division.memory


def plan_engine(config: EngineConfig) -> EnginePlan:
    """Read the checkpoint's headers, size the memory, choose kernels. Raises ConfigError or CheckpointError."""
    if config.dtype not in DTYPES:
        raise ConfigError(f"dtype not supported: {config.dtype}", hint="known: " + ", ".join(DTYPES))
    if config.block_size < 1 or KV_ALIGN % config.block_size:
        raise ConfigError(f"block size not supported: {config.block_size}", hint=f"use a divisor of {KV_ALIGN}")
    here = machine()
    threads = config.threads or here.cores
    torch.set_num_threads(threads)
    dtype = DTYPES[config.dtype]
    checkpoint = open_checkpoint(Path(config.model))
    family = family_of(checkpoint.family)
    shape = family.parse(checkpoint.config)
    if family.is_encoder:
        config = for_encoder(config, shape.max_context)
    kernels = choose(dtype, shape.heads, config.block_size, threads, config.kernels)
    precision = resolve_precision(config, checkpoint, shape.heads, kernels)
    kv_dtype = resolve_kv_dtype(config, shape.heads, kernels)
    groups = family.groups(shape, head_bytes(shape.heads.head_dim, KV_DTYPES[kv_dtype]))
    weight_bytes = precisions.weight_bytes(precision, checkpoint.tensors.values(), dtype)
    division = divide(config, groups, model_context=shape.max_context, weight_bytes=weight_bytes, machine=here)
    return EnginePlan(
        config=config,
        checkpoint=checkpoint,
        family=family,
        shape=replace(shape, max_context=division.memory.max_context),
        dtype=dtype,
        threads=threads,
        groups=groups,
        weight_bytes=weight_bytes,
        division=division,
        kernels=kernels,
        precision=precision,
        kv_dtype=kv_dtype,
        kv_is_committed=config.kv_memory_bytes is not None
        and division.memory.kv_bytes <= free_beside(weight_bytes, here),
    )


def resolve_precision(
    config: EngineConfig, checkpoint: Checkpoint, heads: HeadLayout, kernels: Kernels | NativeKernels
) -> str:
    """Of products. torch's kernels compute in the dtype and nothing else. Raises ConfigError for what cannot be had."""
    asked = config.precision
    if asked not in precisions.PRECISIONS:
        raise ConfigError(f"precision not supported: {asked}", hint="known: " + ", ".join(precisions.PRECISIONS))
    if isinstance(kernels, NativeKernels):
        return precisions.resolve(asked, checkpoint.tensors)
    if asked not in ("auto", "bf16") or (asked == "bf16" and config.dtype != "bfloat16"):
        raise ConfigError(
            f"precision {asked} needs native kernels: {_why_not_native(config, heads)}",
            hint=f"leave out --precision{_or_kernels(config)}",
        )
    return "bf16" if config.dtype == "bfloat16" else config.dtype


def resolve_kv_dtype(config: EngineConfig, heads: HeadLayout, kernels: Kernels | NativeKernels) -> str:
    """How KV is stored. torch's kernels store it in the dtype and nothing else. Raises ConfigError likewise."""
    asked, own = config.kv_dtype, "bf16" if config.dtype == "bfloat16" else config.dtype
    if asked not in KV_WISHES:
        raise ConfigError(f"KV dtype not supported: {asked}", hint="known: " + ", ".join(KV_WISHES))
    if asked in ("auto", own):
        return own
    if isinstance(kernels, NativeKernels):
        return asked
    raise ConfigError(
        f"KV dtype {asked} needs native kernels: {_why_not_native(config, heads)}",
        hint=f"leave out --kv-dtype{_or_kernels(config)}",
    )


def _why_not_native(config: EngineConfig, heads: HeadLayout) -> str:
    return why_not_native(DTYPES[config.dtype], heads, config.block_size, config.kernels)


def _or_kernels(config: EngineConfig) -> str:
    return ", or --kernels torch" if config.kernels == "torch" else ""


def build_engine(config: EngineConfig, clock: Clock, progress: Progress) -> tuple[Engine, EngineSpec]:
    """Load the model that `config` names; takes about a second per GB. Raises ConfigError or CheckpointError."""
    plan = plan_engine(config)
    weights = load(
        plan.family,
        plan.shape,
        plan.checkpoint.tensors,
        plan.dtype,
        plan.kernels,
        lambda done, total: progress("weights", done, total),
        precision=plan.precision,
    )
    store = KVStore(
        plan.groups,
        plan.memory.num_blocks,
        config.block_size,
        plan.shape.heads,
        KV_DTYPES[plan.kv_dtype],
        committed=plan.kv_is_committed,
    )
    spec = _spec(plan)
    model = bind(plan.family, weights, plan.kernels, store, plan.groups, config.block_size)
    if isinstance(plan.kernels, NativeKernels):
        torch.set_num_threads(1)  # what is left for torch is small, and two pools would wait for each other's cores
    runner = ModelRunner(model, eos_token_ids=spec.eos_token_ids)
    return Engine(Endpoints.of(spec, plan.groups, plan.division, clock), runner, clock, spec), spec


def _spec(plan: EnginePlan) -> EngineSpec:
    """Frozen once the weights are loaded: only then are all heights probed."""
    config = plan.config
    numerics_id = _numerics_id(f"{config.dtype} {plan.precision} KV {plan.kv_dtype}", plan.threads, plan.kernels)
    return EngineSpec(
        model=config.model,
        family=plan.family.name,
        dtype=config.dtype,
        precision=plan.precision,
        vocab_size=plan.shape.vocab_size,
        embedding_size=plan.shape.hidden_size,
        max_context=plan.memory.max_context,
        eos_token_ids=plan.checkpoint.generation.eos_token_ids,
        weight_bytes=plan.weight_bytes,
        block_size=config.block_size,
        kv_blocks=plan.memory.kv_blocks,
        kv_bytes=plan.memory.kv_bytes,
        kv_is_committed=plan.kv_is_committed,
        kv_dtype=plan.kv_dtype,
        is_encoder=plan.family.is_encoder,
        pooling=plan.checkpoint.pooling or ("mean" if plan.family.is_encoder else "last"),
        max_requests=config.max_requests,
        max_step_tokens=config.max_step_tokens,
        threads=plan.threads,
        prefix_cache=config.prefix_cache,
        numerics_id=numerics_id,
        policy_version=_digest(plan.checkpoint.fingerprint, numerics_id),
        kernels=plan.kernels.choices,
        endpoints=plan.division.specs,
    )


def _numerics_id(dtype: str, threads: int, kernels: Kernels | NativeKernels) -> str:
    """Whatever can change the bits of a logit beside the weights; our own code by its version."""
    return _digest(
        __version__,
        dtype,
        str(threads),
        torch.__version__,
        torch.backends.cpu.get_cpu_capability(),
        repr([(choice.op, choice.implementation) for choice in kernels.choices]),
        repr(sorted(kernels.heights().items())),
    )


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
