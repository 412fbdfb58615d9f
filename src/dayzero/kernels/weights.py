"""The forms in which kernels take a weight [N, K]: dense, or codes with scales.

Plain tensors in natural order; how a kernel lays them out is its own affair.
"""

from dataclasses import dataclass

from torch import Tensor

GROUP = 32  # weights along K that share a scale in `Grouped`


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """w = scale * (code - offset) + minimum, by groups of 32 along K.

    bits    4: codes 0..15, offset 8; 8: codes 0..255, offset 128; no offset where there are minima
    codes   [N, K] uint8
    scales  [N, K / 32] float16
    minima  the same, or None
    """

    bits: int
    codes: Tensor
    scales: Tensor
    minima: Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PerChannel:
    """w = scale * (code - 128), codes [N, K] uint8, scales [N] float32."""

    codes: Tensor
    scales: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Nvfp4:
    """w = e2m1(code) * e4m3(scale) * global_scale, by groups of 16 along K.

    codes   [N, K] uint8, 0..15: sign and index of {0, .5, 1, 1.5, 2, 3, 4, 6}
    scales  [N, K / 16] float8_e4m3fn, positive
    """

    codes: Tensor
    scales: Tensor
    global_scale: float


LinearForm = Tensor | Grouped | PerChannel | Nvfp4
