"""How a peer is spoken to: JSON lines, a request on its stdin and a reply on its stdout.

load       {"op": "load", "model": path, "threads": 2, "options": {}} -> {"version": "1.2", "has_prefix_cache": true}
generate   {"op": "generate", "prompts": [[5, 7], [6]], "output_tokens": 128} -> {"seconds": 1.5}
           greedily, without an early end: each prompt gets just that many tokens
score      {"op": "score", "tokens": [5, 7], "position": 0, "rows": path} -> {}
           continue one sequence at `position`; write the logits after each token to the file, float32; llama.cpp alone
failure    {"error": "why"}
The end of stdin closes the peer.

Every measure is made of `generate` (measures.py), so no peer has its own notion of one.
Runs in each peer's environment: only the standard library here.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TextIO

Prompts = Sequence[Sequence[int]]


class Peer(Protocol):
    has_prefix_cache: bool

    def load(self, model: str, threads: int, options: Mapping[str, Any]) -> str:
        """Make the model ready; return the engine's version."""

    def generate(self, prompts: Prompts, output_tokens: int) -> int:
        """Complete all prompts together; return how many tokens came out."""


def serve(peer: Peer) -> None:
    """Answer until stdin ends. Whatever the engine prints goes to stderr, so that stdout holds replies alone."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        answer_all(peer, sys.stdin, replies)


def answer_all(peer: Peer, requests: TextIO, replies: TextIO) -> None:
    for line in requests:
        try:
            reply = _answer(peer, json.loads(line))
        except Exception as error:  # noqa: BLE001 - a process boundary: the caller decides
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _answer(peer: Peer, request: Mapping[str, Any]) -> Mapping[str, Any]:
    if request["op"] == "load":
        version = peer.load(request["model"], request["threads"], request["options"])
        return {"version": version, "has_prefix_cache": peer.has_prefix_cache}
    prompts, output_tokens = request["prompts"], request["output_tokens"]
    start_s = time.perf_counter()
    num_tokens = peer.generate(prompts, output_tokens)
    seconds = time.perf_counter() - start_s
    if num_tokens != len(prompts) * output_tokens:
        raise ValueError(f"{num_tokens} tokens for {len(prompts)} prompts (wanted: {output_tokens} each)")
    return {"seconds": seconds}
