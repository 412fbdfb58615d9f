"""A library that follows grammars, as a process that is asked by JSON lines. Only the standard library here.

vocabulary  first line: {"tokens": [bytes of each token as latin-1], "eos": [ids], "tokenizer": its JSON}
schema      every other: {"schema": text, "instances": [[token ids]]}
            -> {"first_mask_s": 0.001, "masks_s": [0.00001], "accepted": [true]}, or {"refused": "why"}

Seconds are those of the process's own CPU. `first_mask_s` is from the schema to the mask of the first token, and each
of `masks_s` a token's: the mask, and accepting what was drawn. An instance is accepted if every token of it was
allowed, and the end behind them.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Follower(Protocol):
    """One output's grammar."""

    def fill(self) -> bool:
        """Make the mask of the next token; False if that takes more than it may."""
        ...

    def accept(self, token: int) -> bool: ...

    def is_accepting(self) -> bool:
        """Whether the end may follow."""
        ...


Compile = Callable[[str], Callable[[], Follower]]  # a schema; a new follower of it. Raises ValueError for a refused one


def serve(make: Callable[[Mapping[str, Any]], Compile]) -> None:
    """Until stdin ends."""
    compile_schema = make(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(followed(compile_schema, asked["schema"], asked["instances"])) + "\n")
        sys.stdout.flush()


def followed(compile_schema: Compile, schema: str, instances: Sequence[Sequence[int]]) -> dict[str, Any]:
    start_s = time.process_time()
    try:
        new = compile_schema(schema)
        if not new().fill():
            return {"refused": "the first mask takes too much"}
    except ValueError as refused:
        return {"refused": str(refused)[:200]}
    first_mask_s = time.process_time() - start_s
    masks_s: list[float] = []
    accepted = [follow(new(), tokens, masks_s) for tokens in instances]
    return {"first_mask_s": first_mask_s, "masks_s": masks_s, "accepted": accepted}


def follow(follower: Follower, tokens: Sequence[int], masks_s: list[float]) -> bool:
    for token in tokens:
        start_s = time.process_time()
        is_allowed = follower.fill() and follower.accept(token)
        masks_s.append(time.process_time() - start_s)
        if not is_allowed:
            return False
    return follower.is_accepting()
