"""What the gateway is told: frozen values, printed at start-up except for the keys."""

import secrets
from dataclasses import dataclass, field

from dayzero.core.spec import EndpointConfig
from dayzero.errors import ConfigError
from dayzero.gateway.guard import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds of one HTTP request, each enforced before the text is tokenized.

    header_bytes      of all names and values together (CVE-2025-48956)
    body_bytes        counted while it streams in; Content-Length is not trusted
    json_containers   arrays and objects: each costs many times the bytes that it takes in a body
    embedding_inputs  of one request; the engine has `embedding_inputs_at_once` of them at a time
    choices           `n`, for each of the prompts
    schema_bytes      of the JSON Schema of one tool or answer
    chars_per_token   a text longer than this many characters for each token of the context is not even tokenized
    head_read_s       time for a client to deliver its headers, and to say anything on a new connection
    body_read_s       time for a client to deliver its body
    """

    header_bytes: int = 16 * 2**10
    body_bytes: int = 4 * 2**20
    head_read_s: float = 30.0
    body_read_s: float = 60.0
    json_depth: int = 64
    json_containers: int = 65536
    messages: int = 2048
    prompts: int = 64
    embedding_inputs: int = 2048
    embedding_inputs_at_once: int = 64
    choices: int = 16
    stops: int = 16
    stop_chars: int = 256
    stop_token_ids: int = 128
    logit_biases: int = 1024
    tools: int = 128
    schema_bytes: int = 64 * 2**10
    chars_per_token: int = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewayConfig:
    """One gateway.

    api_keys            empty: everyone may do everything; each key is a tenant of its own
    endpoints           the first is for requests that name no model; none: there is one, of the served model name
    max_in_flight       engine requests in the system, those that wait included; `n` choices count n times
    default_max_tokens  of a chat that does not say; less where the context is shorter
    request_timeout_s   from the first byte of a request to its last token
    write_timeout_s     how long a client may leave a full connection unread
    keep_alive_s        silence after which a stream gets a comment
    drain_timeout_s     how long streams may go on after SIGTERM
    store_responses     responses are kept for their tenants, unless a request says otherwise; else nothing is
    stored_bytes        of each tenant
    stored_s            how long each is kept
    collapse_guard      of chats that do not say: what is done about an output that repeats itself
    strict              an unknown field is an error instead of a response header
    cache_secret        of the deployment, for the prefix-cache salts; drawn, so that no other process shares a prefix
    """

    served_model_name: str
    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    cors_origins: tuple[str, ...] = ()
    strict: bool = False
    collapse_guard: Mode = "retry"
    store_responses: bool = False
    stored_bytes: int = 64 * 2**20
    stored_s: float = 3600.0
    endpoints: tuple[EndpointConfig, ...] = ()
    max_in_flight: int = 1024
    default_max_tokens: int = 2048
    request_timeout_s: float = 600.0
    write_timeout_s: float = 60.0
    keep_alive_s: float = 15.0
    drain_timeout_s: float = 30.0
    cache_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        names = [name for endpoint in self.endpoints for name in endpoint.names]
        for name in (self.served_model_name, *names):
            if not name.isprintable() or not name:
                raise ConfigError(f"served model name: {name!r}", hint="use printable characters")
        if doubled := [name for name in names if names.count(name) > 1]:
            raise ConfigError(f"two endpoints of one name: {doubled[0]}", hint="give each name once")
        if not 0 <= self.port < 65536:
            raise ConfigError(f"port out of range: {self.port}")
        if any(not key or not key.isascii() or key != key.strip() for key in self.api_keys):
            raise ConfigError("an api key is empty, has spaces around it or is not ASCII")
        if self.max_in_flight < 1:
            raise ConfigError(f"max_in_flight: {self.max_in_flight} is below 1")
