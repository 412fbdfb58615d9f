"""Keys of KV blocks: the one function that says when two requests may share KV.

A key commits to the whole prefix up to the end of its block, to the weights and numerics that computed it
(`version`) and to who may see it (`salt`). It is keyed by BLAKE2b, so equal keys mean equal prefixes, and a client
cannot aim for a collision (CVE-2025-25183).
"""

import array
import hashlib
from collections.abc import Sequence

BlockKey = bytes
KEY_BYTES = 16


def root_key(*, salt: str, version: str) -> BlockKey:
    """The parent of the first block. `salt` has no default: forgetting a tenant must not type-check.

    salt      derived by the gateway from its deployment secret and the tenant
    version   the policy_version: weights, adapter, precision recipe and numerics
    """
    digest = hashlib.blake2b(digest_size=KEY_BYTES, person=b"dayzero-prefix")
    for part in (salt, version):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()


def next_key(parent: BlockKey, tokens: Sequence[int]) -> BlockKey:
    """The key of the block that holds `tokens` after the prefix `parent`."""
    return hashlib.blake2b(array.array("i", tokens).tobytes(), digest_size=KEY_BYTES, key=parent).digest()


def block_keys(
    tokens: Sequence[int], block_size: int, *, salt: str, version: str, after: BlockKey | None = None
) -> list[BlockKey]:
    """One key for each full block of `tokens`, which follow the block with the key `after`; None: they come first."""
    keys: list[BlockKey] = []
    parent = root_key(salt=salt, version=version) if after is None else after
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = next_key(parent, tokens[start : start + block_size])
        keys.append(parent)
    return keys
