"""`--endpoint name=short,max_context=1024`: from words to what is asked of an endpoint."""

import math
from collections.abc import Mapping, Sequence

from dayzero.core.spec import EndpointConfig
from dayzero.errors import ConfigError

EXAMPLE = "name=short,max_context=1024,max_requests=16"
_COUNTS = ("max_context", "max_requests", "max_step_tokens", "max_in_flight")
_MOST = 2**31
_MOST_GIB = 2.0**20


def endpoints_of(texts: Sequence[str]) -> tuple[EndpointConfig, ...]:
    """One for each text, in their order. Raises ConfigError, which quotes what is wrong and shows what is right."""
    found = tuple(endpoint_of(text) for text in texts)
    names = [name for endpoint in found for name in endpoint.names]
    for name in names:
        if names.count(name) > 1:
            raise _refusal(f"two endpoints, or one twice, by the name {name!r}")
    return found


def endpoint_of(text: str) -> EndpointConfig:
    """`name=` may come more than once: so many names it has."""
    names: list[str] = []
    values: dict[str, str] = {}
    for word in text.split(","):
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not value:
            raise _refusal(f"not a key with a value: {word!r}")
        if key == "name":
            names.append(value)
        elif key not in (*_COUNTS, "kv_memory"):
            raise _refusal(f"unknown key: {key!r} (known: name, {', '.join(_COUNTS)}, kv_memory)")
        elif key in values:
            raise _refusal(f"{key} twice: {text!r}")
        else:
            values[key] = value
    if not names:
        raise _refusal(f"no name: {text!r}")
    return EndpointConfig(names=tuple(names), kv_memory_bytes=_bytes(values), **_counts(values))


def _counts(values: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for key in _COUNTS:
        if key in values:
            text = values[key]
            if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and 1 <= int(text) <= _MOST):
                raise _refusal(f"{key} is not a whole number from 1 to {_MOST}: {text!r}")
            found[key] = int(text)
    return found


def _bytes(values: Mapping[str, str]) -> int | None:
    if "kv_memory" not in values:
        return None
    text = values["kv_memory"]
    try:
        gib = float(text)
    except ValueError:
        gib = math.nan
    if not 0 < gib <= _MOST_GIB:
        raise _refusal(f"kv_memory is not a number of GiB above 0: {text!r}")
    return int(gib * 2**30)


def _refusal(what: str) -> ConfigError:
    return ConfigError(f"--endpoint: {what}", hint=f"for example: --endpoint {EXAMPLE}")
