"""GET /v1/models and /v1/models/{model}."""

import time
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.gateway.answer import send_json
from dayzero.gateway.endpoint import Endpoint, Endpoints


class ModelsView:
    """The list: one model, by each name of its endpoints."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._created = int(time.time())

    def entry(self, endpoint: Endpoint) -> dict[str, Any]:
        return {
            "id": endpoint.model,
            "object": "model",
            "created": self._created,
            "owned_by": "dayzero",
            "max_model_len": endpoint.max_context,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        entries = [self.entry(endpoint) for endpoint in self._endpoints]
        await send_json(send, msgspec.json.encode({"object": "list", "data": entries}))


class ModelView:
    """One model by name."""

    def __init__(self, models: ModelsView, endpoints: Endpoints) -> None:
        self._models = models
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        endpoint = self._endpoints.find(scope["path_params"]["model"])
        await send_json(send, msgspec.json.encode(self._models.entry(endpoint)))
