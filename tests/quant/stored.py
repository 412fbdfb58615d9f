"""Stored tensors to decode."""

import numpy as np
import torch

from dayzero.checkpoint.tensor import FORMATS, StoredTensor, stored_bytes


def random_tensor(name: str, shape: tuple[int, ...]) -> StoredTensor:
    """Random blocks whose fp16 scales are small and finite, as in a real file."""
    num_bytes = stored_bytes(shape, name)
    assert num_bytes is not None
    data = np.random.default_rng(2).integers(0, 256, num_bytes, dtype=np.uint8)
    if name in ("F32", "F16", "BF16"):
        weights = torch.randn(shape, generator=torch.Generator().manual_seed(2))
        kind = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[name]
        data = weights.to(kind).view(-1).view(torch.uint8).numpy()
    else:
        blocks = data.reshape(-1, FORMATS[name].block_bytes)
        starts = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}.get(name, (0,))
        for start in starts:
            blocks[:, start : start + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    return StoredTensor("w", shape, name, memoryview(data.tobytes()))
