"""GET /health, /ready, /version and /metrics."""

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.errors import CapacityError, Draining, ReplicaLost
from dayzero.gateway.admission import Admission
from dayzero.gateway.answer import send_bytes, send_json
from dayzero.gateway.metrics import CONTENT_TYPE, Metrics
from dayzero.router.replica import Replica
from dayzero.version import __version__


class HealthView:
    """Whether this process is of any use: a restart would help if not. The one route that needs no key."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        if not self._replica.is_alive:
            raise ReplicaLost("no engine is left")
        await send_json(send, b'{"status":"ok"}')


class ReadyView:
    """Whether a request would be taken now."""

    def __init__(self, replica: Replica, admission: Admission) -> None:
        self._replica = replica
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        if not self._replica.is_alive:
            raise ReplicaLost("no engine is left")
        if self._admission.is_draining:
            raise Draining("the server is shutting down")
        if self._admission.is_full:
            raise CapacityError("the queue is full")
        await send_json(send, b'{"status":"ready"}')


class VersionView:
    """What answers here: the software, and the weights and numerics that a token is a function of."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        spec = self._replica.spec
        body = {
            "version": __version__,
            "policy_version": spec.policy_version,
            "numerics_id": spec.numerics_id,
        }
        await send_json(send, msgspec.json.encode(body))


class MetricsView:
    """Prometheus' text format."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send_bytes(send, self._metrics.exposition(), CONTENT_TYPE.encode())
