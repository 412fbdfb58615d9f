"""The forms in which kernels take a weight [N, K]: dense, or codes with scales.

Plain tensors in natural order; how a kernel lays them out is its own affair.
"""

from dataclasses import dataclass

from torch import Tensor

GROUP = 32  # weights along K that share a scale, where nothing else is said
GROUPS = (32, 64, 128)  # of 4-bit codes


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """w = scale * (code - zero) or scale * code + minimum, by groups along K.

    bits    4, 5 or 8
    codes   [N, K] uint8, 0 to 2^bits - 1
    scales  [N, K / group] float16; a group is 32 or, of 4 bits, one of GROUPS
    zeros   [N, K / group] uint8, of 4 bits; None: 2^(bits - 1)
    minima  [N, K / group] float16, by 32, in place of zeros; or None
    order   [K] int32: which input each column of codes is for; None: they are in order
    rotated every 32 weights along K were turned (quant.int8.rotated), so activations must be before they meet them
    """

    bits: int
    codes: Tensor
    scales: Tensor
    zeros: Tensor | None = None
    minima: Tensor | None = None
    order: Tensor | None = None
    rotated: bool = False

    @property
    def group(self) -> int:
        """Weights along K that share a scale."""
        return self.codes.shape[1] // self.scales.shape[1]


@dataclass(frozen=True, slots=True, eq=False)
class TwoLevel:
    """GGUF's K formats: scales of groups are small integers times a scale of 256 weights along K.

    w = super_scale * scale * code - super_minimum * minimum       4 or 5 bits, groups of 32
    w = super_scale * scale * (code - 32)                          6 bits, groups of 16

    codes         [N, K] uint8, 0 to 2^bits - 1
    scales        [N, K / group] int8
    super_scales  [N, K / 256] float16
    minima        [N, K / group] uint8, up to 127; None with 6 bits
    super_minima  [N, K / 256] float16; None with 6 bits
    """

    bits: int
    codes: Tensor
    scales: Tensor
    super_scales: Tensor
    minima: Tensor | None = None
    super_minima: Tensor | None = None


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


@dataclass(frozen=True, slots=True, eq=False)
class Mxfp4:
    """w = e2m1(code) * 2^(scale - 127), by groups of 32 along K.

    codes   [N, K] uint8 as in `Nvfp4`
    scales  [N, K / 32] uint8 (e8m0); 255 stands for no number, and makes sums that are not finite
    """

    codes: Tensor
    scales: Tensor


CodeForm = Grouped | TwoLevel | PerChannel | Nvfp4 | Mxfp4
LinearForm = Tensor | CodeForm
