"""A client that knows of a document only what the changes of its chunks say."""

import json
from collections.abc import Sequence
from typing import Any


class Document:
    """value      of the document as far as it is known
    completed  paths, in the order in which they became whole
    """

    def __init__(self) -> None:
        self.completed: list[str] = []
        self._root: dict[str, Any] = {}

    @property
    def value(self) -> Any:
        return self._root["document"]

    def apply(self, changes: Sequence[dict[str, Any]]) -> None:
        for change in changes:
            assert set(change) <= {"path", "value", "append", "complete"}
            holder, key = self._place(change["path"])
            if "value" in change and isinstance(holder, list):
                holder[key:] = [change["value"]]
            elif "value" in change:
                holder[key] = change["value"]
            if "append" in change:
                holder[key] += change["append"]
            if "complete" in change:
                self.completed.append(change["path"])

    def _place(self, path: str) -> tuple[Any, Any]:
        """The container of what is at a path, and where it is there."""
        holder: Any = self._root
        key: Any = "document"
        for name in path.split("/")[1:]:
            holder = holder[key]
            key = int(name) if isinstance(holder, list) else name.replace("~1", "/").replace("~0", "~")
        return holder, key


def told(chunk: bytes) -> dict[str, Any]:
    """What is in a chunk's `partial_json`, {} if there is none."""
    return json.loads(chunk) if chunk else {}
