"""The names that others may use, and what importing them costs."""

import subprocess
import sys
import types

import pytest

import dayzero
from dayzero.gateway.fields import GenerationFields

HEAVY = "{'torch', 'transformers', 'fastapi', 'uvicorn', 'huggingface_hub'}"
EVERY_MODULE_OF = (
    "import importlib, pkgutil, sys; package = importlib.import_module({package!r});"
    "[importlib.import_module(m.name) for m in pkgutil.walk_packages(package.__path__, package.__name__ + '.')]"
)


def imports_of(statement: str, names: str = HEAVY) -> set[str]:
    """Which of the heavy modules a fresh interpreter has after a statement."""
    code = f"import sys; {statement}; print(*sorted({names} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_exported_names_are_sorted_and_documented():
    assert dayzero.__all__ == sorted(dayzero.__all__)
    for name in dayzero.__all__:
        assert name == "__version__" or getattr(dayzero, name).__doc__, name


def test_the_exported_names_are_all_there_are():
    public = {
        name
        for name, value in vars(dayzero).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "TYPE_CHECKING"
    }
    assert public <= set(dayzero.__all__)


def test_the_public_methods_of_llm_are_documented():
    public = {name for name in vars(dayzero.LLM) if not name.startswith("_")}
    assert public == {"chat", "embed", "generate", "stream"}
    for name in public:
        assert getattr(dayzero.LLM, name).__doc__, name


def test_the_options_of_llm_are_fields_of_the_server():
    from dayzero.llm import SamplingOptions

    assert SamplingOptions.__annotations__.keys() - {"logprobs", "prompt_logprobs"} <= {
        *GenerationFields.__struct_fields__
    }


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="LLN"):
        _ = dayzero.LLN


def test_importing_the_package_imports_nothing_heavy():
    assert imports_of("import dayzero") == set()


def test_importing_the_command_line_imports_nothing_heavy():
    assert imports_of("import dayzero.cli.main") == set()


def test_importing_serve_leaves_the_servers_libraries_for_later():
    assert imports_of("import dayzero.cli.serve") == set()


@pytest.mark.parametrize("package", ["gateway", "fleet", "router", "text", "checkpoint", "wire", "core"])
def test_the_front_half_imports_no_torch(package):
    every = EVERY_MODULE_OF.format(package=f"dayzero.{package}")
    assert imports_of(every, "{'torch', 'triton', 'transformers'}") == set()


@pytest.mark.model
def test_asking_for_llm_imports_torch():
    assert "torch" in imports_of("from dayzero import LLM")
