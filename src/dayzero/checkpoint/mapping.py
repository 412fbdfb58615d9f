"""Files as read-only mappings, and small JSON files with a size cap. Every failure is a CheckpointError."""

import json
import mmap
from pathlib import Path
from typing import Any

from dayzero.errors import CheckpointError

FETCH_AGAIN = "the download or copy did not finish; fetch the file again"
MAX_JSON_BYTES = 64 * 1024 * 1024  # the largest tokenizer.json of known models is about 33 MB


def map_file(path: Path) -> mmap.mmap:
    """Map the whole file read-only. The mapping lives as long as any view of it."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise CheckpointError(f"empty file: {path}", hint=FETCH_AGAIN)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error


def read_text(path: Path) -> str:
    """The whole file as UTF-8."""
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise CheckpointError(f"file too large: {path} has {size} bytes (limit: {MAX_JSON_BYTES})")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"not UTF-8: {path}, byte {error.start}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON object of a file."""
    return parse_json_object(read_text(path), str(path))


def parse_json_object(text: str, where: str) -> dict[str, Any]:
    """A JSON object; a key that occurs twice is an error, for readers of such a file disagree about it."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except _DuplicateKey as error:
        raise CheckpointError(f"key occurs twice in {where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"not valid JSON: {where}", hint=FETCH_AGAIN) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"not a JSON object: {where}")
    return value


class _DuplicateKey(ValueError):
    """A JSON object with the same key twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKey(key)
        result[key] = value
    return result
