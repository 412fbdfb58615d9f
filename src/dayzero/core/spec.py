"""What the user asked of an engine (`EngineConfig`), and what was decided and never changes (`EngineSpec`).

`resolve` lives in the engine, which alone can weigh checkpoint and hardware; both values cross the wire.
"""

import msgspec


class FakeModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model without weights for tests and for measuring the loop: tokens are a hash of request and position."""

    vocab_size: int = 49152
    max_context: int = 8192
    eos_token_ids: tuple[int, ...] = ()  # empty: only max_tokens ends a request
    step_s: float = 0.0  # time that a step pretends to take


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was asked. None means: decide from the checkpoint and the machine.

    model is a local folder or .gguf file: whatever names a model has been turned into a path before.
    """

    model: str
    dtype: str = "bfloat16"  # or float32, the golden mode
    max_context: int | None = None
    max_requests: int = 64
    max_step_tokens: int = 256  # more makes longer gaps between tokens and prompts no faster: docs/log.md
    kv_memory_bytes: int | None = None
    kv_dtype: str = "auto"  # or bf16, int8: `kernels.kv_format`
    block_size: int = 16
    threads: int | None = None
    kernels: str = "auto"  # or native, torch: `kernels.choose`
    precision: str = "auto"  # of products, or bf16, int8, nvfp4, as-stored: `quant.precision`
    prefix_cache: bool = True
    fake: FakeModel | None = None


class KernelChoice(msgspec.Struct, frozen=True, array_like=True):
    """Which implementation serves an op, and why."""

    op: str
    implementation: str
    reason: str


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided at start-up. Printed once, frozen, and part of every answer about this engine."""

    model: str
    family: str
    dtype: str
    precision: str  # of products
    vocab_size: int  # width of the logits
    max_context: int
    eos_token_ids: tuple[int, ...]
    weight_bytes: int
    block_size: int
    kv_blocks: int  # of the first cache group
    kv_bytes: int
    kv_dtype: str
    max_requests: int
    max_step_tokens: int
    threads: int
    prefix_cache: bool
    numerics_id: str
    policy_version: str
    kernels: tuple[KernelChoice, ...]
