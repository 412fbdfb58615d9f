"""The compiled module: there, or not and why."""

import importlib
from types import ModuleType


def _imported() -> tuple[ModuleType | None, str]:
    """The module, or why it is not there."""
    try:
        return importlib.import_module("dayzero._native"), ""
    except ModuleNotFoundError:
        return None, "native kernels are not built: install again where there is a C++ compiler"
    except ImportError as error:
        return None, f"native kernels do not load: {error}"


_MODULE, _WHY_NOT = _imported()
INSTRUCTION_SETS = ("amx", "avx512", "avx2")  # the best first; amx-model, with tiles in plain C++, is for tests


def module() -> ModuleType | None:
    """The extension, if it was built."""
    return _MODULE


def best_instruction_set() -> tuple[str | None, str]:
    """The first instruction set that the extension has code for and this processor can run; else None and why not."""
    if _MODULE is None:
        return None, _WHY_NOT
    lacking = []
    for name in INSTRUCTION_SETS:
        missing = _MODULE.missing(name)
        if not missing:
            return name, ""
        lacking.append(f"native/{name} needs {missing}")
    return None, "; ".join(lacking)


def lacking() -> dict[str, str]:
    """For each instruction set that the extension has code for, what this processor lacks; empty if nothing."""
    return {} if _MODULE is None else {name: _MODULE.missing(name) for name in INSTRUCTION_SETS}
