"""AWQ's and GPTQ's files from codes, word by word as their layouts are described; and a quantizer to have codes."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dayzero.checkpoint.packing import AWQ, GPTQ, GPTQ_V2
from dayzero.checkpoint.tensor import StoredTensor

CONFIGS = {
    AWQ: {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
    GPTQ: {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False},
    GPTQ_V2: {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"},
}
_IN_ORDER = range(8)
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def quantized(weight_NK: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes [N, K], zeros and float16 scales [N, K / group]: each group between its least and its largest weight."""
    groups = weight_NK.view(len(weight_NK), -1, group)
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scales = ((high - low) / 15).half()
    zeros = (-low / scales.float()).round().clamp(0, 15)
    codes = (groups / scales.float().unsqueeze(-1) + zeros.unsqueeze(-1)).round().clamp(0, 15)
    return codes.flatten(1).to(torch.uint8), zeros.to(torch.uint8), scales


def meant(codes_NK: Tensor, zeros_NG: Tensor, scales_NG: Tensor) -> Tensor:
    """[N, K] float64."""
    group = codes_NK.shape[1] // zeros_NG.shape[1]
    zeros, scales = (x.double().repeat_interleave(group, 1) for x in (zeros_NG, scales_NG))
    return (codes_NK.double() - zeros) * scales


def packed(
    packing: str, codes_NK: Tensor, zeros_NG: Tensor, scales_NG: Tensor, order: Sequence[int] | None = None
) -> dict[str, Tensor]:
    """The tensors of one module; `order`: the input of each column of codes, whose groups are whole."""
    scales = scales_NG.T.contiguous()
    if packing == AWQ:
        qweight = _words(codes_NK.T.numpy(), _AWQ_ORDER)
        return {"qweight": qweight, "qzeros": _words(zeros_NG.T.numpy(), _AWQ_ORDER), "scales": scales}
    qzeros = _words(zeros_NG.T.numpy(), _IN_ORDER)
    if packing == GPTQ:
        qzeros -= 0x11111111
    inner = codes_NK.shape[1]
    group, places = inner // zeros_NG.shape[1], torch.argsort(torch.tensor(order or range(inner)))
    return {
        "qweight": _words(codes_NK[:, places].numpy(), _IN_ORDER).T.contiguous(),
        "qzeros": qzeros,
        "scales": scales,
        "g_idx": (places // group).int(),
    }


def _words(codes: np.ndarray, order: Sequence[int]) -> Tensor:
    """[A, B] -> int32 [A, B / 8]; the lowest nibble is order[0] of its eight."""
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), dtype=np.uint32)
    for nibble, column in enumerate(order):
        words |= codes[:, column::8].astype(np.uint32) << np.uint32(4 * nibble)
    return torch.from_numpy(words.view(np.int32).copy())


def stored(parts: Mapping[str, Tensor], module: str = "w") -> dict[str, StoredTensor]:
    """As a reader of safetensors leaves them."""
    kinds = {torch.int32: "I32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}
    return {
        f"{module}.{name}": StoredTensor(
            f"{module}.{name}",
            tuple(part.shape),
            kinds[part.dtype],
            memoryview(part.contiguous().view(-1).view(torch.uint8).numpy().tobytes()),
        )
        for name, part in parts.items()
    }
