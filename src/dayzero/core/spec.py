"""What the user asked of an engine (`EngineConfig`), and what was decided and never changes (`EngineSpec`).

`resolve` lives in the engine, which alone can weigh checkpoint and hardware; both values cross the wire.
"""

import msgspec

from dayzero.core.pooling import Pooling


class FakeModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model without weights for tests and for measuring the loop: tokens are a hash of request and position."""

    vocab_size: int = 49152
    max_context: int = 8192
    eos_token_ids: tuple[int, ...] = ()  # empty: only max_tokens ends a request
    step_s: float = 0.0  # time that a step pretends to take
    embedding_size: int = 8  # at most 32


class EndpointConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of an endpoint. None: a part of what those endpoints leave of the server's that say.

    names             what clients call it; the first is what the server itself calls it
    max_context       None: the server's
    max_requests      running at once
    max_step_tokens   computed in a step that other endpoints have a part of
    max_in_flight     in the system, those that wait included: the gateway's
    """

    names: tuple[str, ...]
    max_context: int | None = None
    max_requests: int | None = None
    max_step_tokens: int | None = None
    max_in_flight: int | None = None
    kv_memory_bytes: int | None = None


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was asked. None means: decide from the checkpoint and the machine.

    model      a local folder or .gguf file: whatever names a model has been turned into a path before
    endpoints  among which the rest is divided; none: one has it all
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
    endpoints: tuple[EndpointConfig, ...] = ()
    fake: FakeModel | None = None


class KernelChoice(msgspec.Struct, frozen=True, array_like=True):
    """Which implementation serves an op, and why."""

    op: str
    implementation: str
    reason: str


class EndpointSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint has for itself alone."""

    name: str  # "" if nobody asked for endpoints
    max_context: int
    max_requests: int
    max_step_tokens: int  # in a step that other endpoints have a part of
    kv_blocks: int  # of the first cache group
    kv_bytes: int


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided at start-up. Printed once, frozen, and part of every answer about this engine.

    max_context   of the endpoint that has the longest
    is_encoder    it makes embeddings, and no text; it has no KV, and 0 blocks of it
    pooling       of an embedding whose request does not say
    endpoints     none: see `all_endpoints`
    """

    model: str
    family: str
    dtype: str
    precision: str  # of products
    vocab_size: int  # width of the logits
    embedding_size: int  # width of the hidden states
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
    kv_is_committed: bool = False  # taken from the system at start, not as it fills
    is_encoder: bool = False
    pooling: Pooling = "last"
    endpoints: tuple[EndpointSpec, ...] = ()

    @property
    def all_endpoints(self) -> tuple[EndpointSpec, ...]:
        """At least one: if nobody asked for any, that has all there is."""
        return self.endpoints or (
            EndpointSpec(
                name="",
                max_context=self.max_context,
                max_requests=self.max_requests,
                max_step_tokens=self.max_step_tokens,
                kv_blocks=self.kv_blocks,
                kv_bytes=self.kv_bytes,
            ),
        )
