"""Every exception of the project, and who is at fault.

    DayzeroError
    |-- ConfigError           the user's flags or file            exit 2
    |-- CheckpointError       unreadable or unsupported model     exit 3
    |   `-- UnsupportedModel  a known format, an unknown family
    |-- RequestError          the client's fault                  HTTP 400
    |   |-- ContextTooLong                                        400 context_length_exceeded
    |   |-- UnknownModel                                          404 model_not_found
    |   |-- Unauthorized                                          401 invalid_api_key
    |   `-- BodyTooLarge                                          413
    |-- CapacityError         try again later                     HTTP 429 / 503 with retry-after
    |   |-- QueueFull                                             429
    |   `-- Draining                                              503
    `-- InternalError         our fault                           HTTP 500
        `-- ReplicaLost       the engine process died             503

Expected outcomes are return values, not exceptions. A message is lower case, without a full stop, one value
after a colon; `hint` says what to do next. Messages of RequestError reach the client: no internals in them.
"""


class DayzeroError(Exception):
    """What went wrong, and in `hint` what to do about it."""

    exit_code = 1
    status = 500
    kind = "api_error"
    code: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class ConfigError(DayzeroError):
    """A flag, a file or an environment that cannot work."""

    exit_code = 2


class CheckpointError(DayzeroError):
    """A model on disk that is unreadable, incomplete or inconsistent."""

    exit_code = 3


class UnsupportedModel(CheckpointError):
    """A readable checkpoint of a family, format or tokenizer that we do not have."""


class RequestError(DayzeroError):
    """The client's fault; `param` names the field."""

    status = 400
    kind = "invalid_request_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.param = param
        if code is not None:
            self.code = code


class ContextTooLong(RequestError):
    """More tokens than the served context holds."""

    code = "context_length_exceeded"

    def __init__(self, *, prompt_tokens: int, max_tokens: int, limit: int, param: str = "messages") -> None:
        super().__init__(
            f"context too long: {prompt_tokens} prompt tokens + {max_tokens} to generate (limit: {limit})",
            param=param,
            hint="shorten the prompt, ask for fewer tokens, or serve with a larger --max-context",
        )


class UnknownModel(RequestError):
    """The request names a model that is not served here."""

    status = 404
    code = "model_not_found"


class Unauthorized(RequestError):
    """No key, or a wrong one."""

    status = 401
    kind = "authentication_error"
    code = "invalid_api_key"


class BodyTooLarge(RequestError):
    """More bytes than the gateway reads."""

    status = 413
    code = "request_too_large"


class CapacityError(DayzeroError):
    """Try again after `retry_after_s`."""

    status = 503
    kind = "overloaded_error"
    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class QueueFull(CapacityError):
    """As many requests wait as may wait."""

    status = 429
    kind = "rate_limit_error"
    code = "queue_full"


class Draining(CapacityError):
    """The server finishes what it has and takes nothing new."""

    code = "draining"


class InternalError(DayzeroError):
    """Our fault. The client sees a fixed sentence, never this message."""

    code = "internal_error"


class ReplicaLost(InternalError):
    """The engine process that held the request is gone."""

    status = 503
    code = "replica_lost"
