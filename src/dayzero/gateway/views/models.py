"""GET /v1/models and /v1/models/{model}."""

import time
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.errors import UnknownModel
from dayzero.gateway.answer import send_json
from dayzero.gateway.service import TextService


class ModelsView:
    """The list, of one model."""

    def __init__(self, service: TextService) -> None:
        self._service = service
        self._created = int(time.time())

    def entry(self) -> dict[str, Any]:
        return {
            "id": self._service.config.served_model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "dayzero",
            "max_model_len": self._service.context,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send_json(send, msgspec.json.encode({"object": "list", "data": [self.entry()]}))


class ModelView:
    """One model by name."""

    def __init__(self, models: ModelsView) -> None:
        self._models = models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        entry = self._models.entry()
        if scope["path_params"]["model"] != entry["id"]:
            raise UnknownModel("no such model", param="model", hint=f"served: {entry['id']}")
        await send_json(send, msgspec.json.encode(entry))
