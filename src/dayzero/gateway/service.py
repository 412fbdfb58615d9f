"""What the views of text APIs share: from a body to a typed request, from text to tokens, from work to an answer."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.clock import Clock
from dayzero.core.constraint import Constraint
from dayzero.errors import ReplicaLost, RequestError
from dayzero.gateway import exchange
from dayzero.gateway.answer import Format, answer_stream, answer_whole
from dayzero.gateway.aside import aside
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.constrain import Constrainer
from dayzero.gateway.endpoint import Endpoint, Endpoints
from dayzero.gateway.fields import GenerationFields, Terms
from dayzero.gateway.generate import Generator, Prompt, Work
from dayzero.gateway.guard import GuardPolicy
from dayzero.gateway.parse import FieldRules, parse_object, read_body, to_struct
from dayzero.gateway.stream import StreamRules
from dayzero.router.replica import Replica
from dayzero.text.tokenizer import Tokenizer

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

# Below these, the work takes less than handing it to a thread and back.
ENCODE_ASIDE_FROM_CHARS = 4096
PARSE_ASIDE_FROM_BYTES = 2**16
_SALT_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_MAX_SALT_CHARS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TextService:
    """One model behind one gateway."""

    config: GatewayConfig
    replica: Replica
    tokenizer: Tokenizer
    defaults: GenerationDefaults
    endpoints: Endpoints
    generator: Generator
    constrainer: Constrainer
    clock: Clock

    async def read(self, scope: Scope, receive: Receive, kind: type[T], rules: FieldRules) -> tuple[T, Endpoint]:
        """The typed body of a request, and whom it is for. RequestError names the field at fault."""
        limits = self.config.limits
        body = await read_body(receive, within_s=limits.body_read_s)

        def parse() -> tuple[object, T, list[str]]:
            fields = parse_object(body, max_depth=limits.json_depth, max_containers=limits.json_containers)
            return fields.get("model"), *to_struct(fields, kind, rules, strict=self.config.strict)

        model, request, ignored = await aside(parse, is_long=len(body) >= PARSE_ASIDE_FROM_BYTES)
        exchange.of(scope).ignored_fields += ignored
        endpoint = self.endpoints.find(model)
        exchange.of(scope).endpoint = endpoint.key
        return request, endpoint

    async def tokenize(self, num_chars: int, encode: Callable[[], R]) -> R:
        """Call `encode`, which works on so many characters, where it does not keep the loop from others."""
        return await aside(encode, is_long=num_chars >= ENCODE_ASIDE_FROM_CHARS)

    def salt(self, tenant: str, cache_salt: str | None) -> str:
        """Of the prefixes that a request may share. Raises RequestError."""
        return derive_salt(self.config.cache_secret, tenant, check_salt(cache_salt))

    def time_left_s(self, started_s: float) -> float:
        """Of a request that began then, before its deadline."""
        return max(0.0, started_s + self.config.request_timeout_s - self.clock.now_s())

    async def answer(
        self,
        prompts: list[Prompt],
        fields: GenerationFields,
        terms: Terms,
        rules: StreamRules,
        form: Format,
        connection: tuple[Scope, Receive, Send],
        *,
        endpoint: Endpoint,
        constraint: Constraint | None,
    ) -> None:
        """Generate and answer, as a stream or at once."""
        if not self.replica.is_alive:
            raise ReplicaLost("no engine is left")
        scope, receive, send = connection
        this = exchange.of(scope)
        work = Work(
            prompts=prompts,
            num_choices=terms.num_choices,
            rules=rules,
            constraint=constraint,
            endpoint=endpoint.key,
            salt=self.salt(this.tenant, fields.cache_salt),
            tenant=this.tenant,
            priority=fields.priority or 0,
            received_s=this.started_s,
            deadline_s=self.time_left_s(this.started_s),
            guard=GuardPolicy(mode=terms.guard),
        )
        this.prompt_tokens = work.prompt_tokens
        this.seed = terms.seed
        if fields.stream:
            await answer_stream(self.generator, work, form, scope, receive, send, config=self.config, clock=self.clock)
        else:
            await answer_whole(self.generator, work, form, scope, receive, send, config=self.config)


def check_salt(salt: str | None) -> str:
    """A client's own salt, "" if it gave none (CVE-2026-105756: a loose one reaches the engine)."""
    if salt is None:
        return ""
    if not 1 <= len(salt) <= _MAX_SALT_CHARS or not _SALT_CHARS.issuperset(salt):
        raise RequestError(
            "malformed cache_salt", param="cache_salt", hint=f"use 1 to {_MAX_SALT_CHARS} of A-Z a-z 0-9 _ -"
        )
    return salt


def derive_salt(secret: bytes, tenant: str, cache_salt: str) -> str:
    """Who may share KV: the deployment's secret keeps the salt from being guessed, the tenant from being chosen."""
    return hmac.new(secret, f"{tenant}\0{cache_salt}".encode(), hashlib.sha256).hexdigest()[:32]
