"""bench/roofline.py and native/roofline.cpp: what a roof is made of, and what cannot be measured."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dayzero.kernels.native.extension import best_instruction_set, module

NATIVE: Any = module()
INSTRUCTION_SET, WHY_NOT = best_instruction_set()
PATH = Path(__file__).parents[2] / "bench" / "roofline.py"


class FakeNative:
    """A machine of round figures that writes down what is read."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def read_bytes_per_s(self, pool: object, address: int, size_bytes: int) -> float:
        del pool
        self.reads.append((address, size_bytes))
        return 1e9

    def peak_ops_per_s(self, pool: object, instruction_set: str, arithmetic: str) -> float:
        del pool, instruction_set
        return {"bf16": 1e10, "fp32": 1e9}[arithmetic]


@pytest.fixture(scope="module")
def roofline() -> Any:
    spec = importlib.util.spec_from_file_location("roofline", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["roofline"] = module
    spec.loader.exec_module(module)
    return module


def test_a_floor_is_the_longer_of_reading_and_computing(roofline: Any) -> None:
    roofs = roofline.Roofline(FakeNative(), None, "avx512")
    reads_long = roofline.Work(bytes=1 << 20, ops={"bf16": 1000})
    computes_long = roofline.Work(bytes=64, ops={"bf16": 10**9, "fp32": 10**8})
    assert roofs.floor_s(reads_long, cold=False) == pytest.approx((1 << 20) / 1e9)
    assert roofs.floor_s(computes_long, cold=True) == pytest.approx(0.1 + 0.1)


def test_a_cold_read_finds_memory_that_was_not_read_since_the_caches_were_emptied(roofline: Any) -> None:
    native = FakeNative()
    roofs = roofline.Roofline(native, None, "avx512")
    for _ in range(5):
        roofs.evict()
        emptied = len(native.reads) - 1
        roofs.bytes_per_s(10_000_000, cold=True)
        spans = [range(address, address + size) for address, size in native.reads[emptied:]]
        assert len(spans) > 1
        assert all(a.stop <= b.start or b.stop <= a.start for i, a in enumerate(spans) for b in spans[:i])


def test_a_warm_read_is_of_the_same_memory(roofline: Any) -> None:
    native = FakeNative()
    roofline.Roofline(native, None, "avx512").bytes_per_s(4096, cold=False)
    assert len(native.reads) > 1
    assert len(set(native.reads)) == 1


needs_native = pytest.mark.skipif(INSTRUCTION_SET is None, reason=WHY_NOT)


@pytest.fixture
def pool() -> Any:
    return NATIVE.ThreadPool(1, 0)


@needs_native
@pytest.mark.parametrize("arithmetic", ["fp32", "bf16", "int8"])
def test_a_peak_is_that_of_vectors(pool: Any, arithmetic: str) -> None:
    """Scalars would do two operations a cycle. The best of several: a busy machine takes the core away now and then."""
    assert max(NATIVE.peak_ops_per_s(pool, INSTRUCTION_SET, arithmetic) for _ in range(20)) > 1e10


@needs_native
@pytest.mark.parametrize("size_bytes", [-64, 0, 63, 100])
def test_a_part_of_a_line_is_refused(pool: Any, size_bytes: int) -> None:
    memory = torch.ones(128, dtype=torch.uint8)
    with pytest.raises(ValueError, match="whole lines"):
        NATIVE.read_bytes_per_s(pool, memory.data_ptr(), size_bytes)


@needs_native
def test_what_is_no_arithmetic_or_no_instruction_set_is_refused(pool: Any) -> None:
    with pytest.raises(ValueError, match="no loop for fp64"):
        NATIVE.peak_ops_per_s(pool, INSTRUCTION_SET, "fp64")
    with pytest.raises(ValueError, match="mmx"):
        NATIVE.peak_ops_per_s(pool, "mmx", "fp32")
