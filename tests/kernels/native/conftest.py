"""Every test runs on each instruction set that the extension has and this processor can run, with 1 and 2 threads."""

import pytest

from dayzero.kernels.native.extension import INSTRUCTION_SETS, module
from tests.kernels.native.replay import Machine


@pytest.fixture(scope="session", params=[1, 2], ids=["1-thread", "2-threads"])
def num_threads(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="session", params=INSTRUCTION_SETS)
def machine(request: pytest.FixtureRequest, num_threads: int) -> Machine:
    native = module()
    if native is None:
        pytest.skip("the native kernels are not built")
    missing = native.missing(request.param)
    if missing:
        pytest.skip(f"native/{request.param} needs {missing}")
    return Machine(native, request.param, native.ThreadPool(num_threads, 50))
