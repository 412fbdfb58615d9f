"""Messages between a gateway and one engine process. Both directions are closed unions.

    gateway                          engine
       |  <---------------- Hello  ----  |    its first word; a protocol that differs closes the channel
       |  ---- Start(config) --------->  |
       |  <-------------- Loading* ----  |
       |  <------- Ready(spec) | Fatal   |
       |  ---- Submit* Abort* -------->  |    a Tokenizer before the first Submit with a grammar
       |  <----------- StepReport* ----  |    one per step, with the events of all requests
       |  ---- Shutdown -------------->  |

Every Submit is answered by events of which exactly one is terminal. An Abort of a request that has ended is a no-op.
"""

import msgspec

from dayzero.core.constraint import Constraint
from dayzero.core.events import RequestId, TokenEvent
from dayzero.core.pooling import Pooling
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig, EngineSpec

PROTOCOL_VERSION = 4


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Load this model."""

    config: EngineConfig


class Submit(msgspec.Struct, frozen=True, kw_only=True, tag="submit"):
    """One generation, or one embedding.

    committed   output that was already delivered: the request resumes after it, and penalties, limits and stops count
                it as output. Empty for a new request.
    salt        who may share this request's KV; derived by the gateway, see `core.prefix`
    priority    lower runs first; first come, first served within one
    deadline_s  seconds from now after which the request ends with TIMEOUT
    choice      which of the `n` choices of one API request: part of the noise
    attempt     how often the collapse guard has retried: part of the noise
    constraint  what binds the output
    endpoint    whose limits and memory it takes part in
    pooling     an embedding is wanted, made so: no token is drawn, and `params` are `EMBEDS`
    """

    request_id: RequestId
    prompt: list[int]
    params: SamplingParams
    salt: str
    policy_version: str
    committed: list[int] = []
    tenant: str = ""
    adapter: str | None = None
    priority: int = 0
    deadline_s: float | None = None
    choice: int = 0
    attempt: int = 0
    constraint: Constraint | None = None
    endpoint: str = ""
    pooling: Pooling | None = None


EMBEDS = SamplingParams(max_tokens=0, seed=0)


class Tokenizer(msgspec.Struct, frozen=True, tag="tokenizer"):
    """The model's tokenizer as the tokenizers library writes it: what grammars are made of."""

    json: str


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """Free all that the request holds within one step.

    num_kept   output tokens, the committed ones among them, that are worth having in the prefix cache; None: all are
    """

    request_id: RequestId
    num_kept: int | None = None


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """Exit now."""


ToEngine = Start | Tokenizer | Submit | Abort | Shutdown


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The engine process is up."""

    protocol: int


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """How far loading has got; `total` 0 means unknown."""

    stage: str
    done: int
    total: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine takes requests."""

    spec: EngineSpec


class EndpointLoad(msgspec.Struct, frozen=True, array_like=True):
    """An endpoint's part of it."""

    running: int = 0
    waiting: int = 0
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0
    preemptions: int = 0


class Load(msgspec.Struct, frozen=True, array_like=True):
    """The engine's state after a step, and counters since it started. Raw numbers: metrics are made in the gateway.

    endpoints   in the order of `EngineSpec.all_endpoints`; none: it has not stepped yet
    """

    running: int = 0
    waiting: int = 0
    kv_blocks_used: int = 0  # held by requests; cached blocks without a holder count as free
    kv_blocks_total: int = 0
    steps: int = 0
    computed_tokens: int = 0
    prefix_hit_tokens: int = 0
    preemptions: int = 0
    step_s: float = 0.0  # duration of the last step
    endpoints: tuple[EndpointLoad, ...] = ()


class StepReport(msgspec.Struct, frozen=True, tag="step"):
    """All that happened in one step."""

    events: list[TokenEvent]
    load: Load


class Fatal(msgspec.Struct, frozen=True, tag="fatal"):
    """The engine cannot start or go on; it exits after this. `exit_code` is that of the error's class."""

    message: str
    hint: str | None
    exit_code: int


FromEngine = Hello | Loading | Ready | StepReport | Fatal
