"""The endpoints of one model: which names lead where, and what may be in the system at each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from dayzero.core.shares import shares
from dayzero.core.spec import EngineSpec
from dayzero.errors import UnknownModel
from dayzero.gateway.admission import Admission
from dayzero.gateway.config import GatewayConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint by one of its names.

    model   that name: what a client calls it, and is told in answers
    key     what the engine calls it
    """

    model: str
    key: str
    max_context: int
    admission: Admission


class Endpoints:
    """Of one gateway.

    admission   of all of them together
    """

    def __init__(self, by_name: Mapping[str, Endpoint], admission: Admission) -> None:
        assert by_name, "a gateway without endpoints"
        self.admission = admission
        self._by_name = dict(by_name)
        self._first = next(iter(by_name.values()))

    @classmethod
    def of(cls, config: GatewayConfig, spec: EngineSpec) -> Self:
        """As configured; without any, the one of the served model name. Raises ConfigError."""
        asked = config.endpoints
        limits = (
            shares(
                [one.max_in_flight for one in asked],
                config.max_in_flight,
                what="requests in flight",
                hint="lower max_in_flight",
            )
            if asked
            else [config.max_in_flight]
        )
        all_names = [one.names for one in asked] or [(config.served_model_name,)]
        together = Admission(sum(limits))
        by_name = {}
        for names, limit, found in zip(all_names, limits, spec.all_endpoints, strict=True):
            assert found.name in ("", names[0]), (found.name, names)
            admission = Admission(limit, within=together)
            for name in names:
                by_name[name] = Endpoint(model=name, key=found.name, max_context=found.max_context, admission=admission)
        return cls(by_name, together)

    @property
    def by_key(self) -> dict[str, Admission]:
        """Of those that somebody asked for, by what the engine calls them."""
        return {endpoint.key: endpoint.admission for endpoint in self._by_name.values() if endpoint.key}

    def __iter__(self) -> Iterator[Endpoint]:
        """By each of their names."""
        return iter(self._by_name.values())

    def find(self, name: object) -> Endpoint:
        """Who names none is at the first. Raises UnknownModel."""
        if name is None:
            return self._first
        found = self._by_name.get(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownModel(
                f"no such model: {str(name)[:100]}", param="model", hint=f"served: {', '.join(self._by_name)}"
            )
        return found
