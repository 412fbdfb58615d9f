"""How the limits of goodput are written: `ttft:200ms itl:50ms e2e:2s`."""

import re
from collections.abc import Iterable

from dayzero.errors import ConfigError
from dayzero.workshop.bench.measures import LATENCIES

_LIMIT = re.compile(r"([a-z0-9_]+):([0-9]+(?:\.[0-9]+)?)(ms|s)")


def parse_limits(texts: Iterable[str]) -> dict[str, float]:
    """{measure of LATENCIES: seconds}. Limits are separated by spaces or commas; the unit must be written."""
    limits_s: dict[str, float] = {}
    for text in texts:
        for word in text.replace(",", " ").split():
            match = _LIMIT.fullmatch(word)
            if match is None or f"{match[1]}_s" not in LATENCIES:
                known = ", ".join(name.removesuffix("_s") for name in LATENCIES)
                raise ConfigError(f"not a goodput limit: {word}", hint=f"write ttft:200ms or e2e:2s; known: {known}")
            limits_s[f"{match[1]}_s"] = float(match[2]) * (0.001 if match[3] == "ms" else 1.0)
    return limits_s
