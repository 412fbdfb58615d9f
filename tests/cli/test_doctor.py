from pathlib import Path

import pytest

from dayzero.kernels.ops import OPS
from tests.cli.conftest import Dayzero

pytestmark = pytest.mark.model


def test_doctor_shows_the_machine_what_the_model_needs_and_why_each_kernel_serves(
    dayzero: Dayzero, smollm2: Path
) -> None:
    done = dayzero("doctor", smollm2, "--precision", "bf16")
    assert (done.code, done.err) == (0, "")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.out.splitlines() if "│" in line]
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert int(facts["cores"]) >= 1
    assert facts["memory free"].endswith("GiB")
    assert facts["family"] == "llama"
    assert facts["weights"] == "257 MiB"
    assert facts["KV"] == "22.5 KiB a token"
    assert facts["context"] == "8192 tokens"
    assert "GiB" in facts["KV pool"]
    kernels = {row[0]: row[1:] for row in rows if len(row) == 3}
    assert set(kernels) == {op.name for op in OPS}
    assert all(implementation and reason for implementation, reason in kernels.values())


def test_doctor_says_why_a_wish_for_kernels_or_a_precision_cannot_be_granted(dayzero: Dayzero, smollm2: Path) -> None:
    done = dayzero("doctor", smollm2, "--dtype", "float32", "--kernels", "native")
    assert done.code == 2
    assert "error: native kernels cannot serve this model here: native kernels compute in bfloat16" in done.err
    done = dayzero("doctor", smollm2, "--kernels", "torch", "--precision", "int8")
    assert done.code == 2
    assert "error: precision int8 needs native kernels" in done.err
    assert "torch was asked for" in done.err
    done = dayzero("doctor", smollm2, "--kernels", "abacus")
    assert "hint: known: auto, native, torch\n" in done.err


def test_doctor_weighs_the_model_in_the_asked_dtype(dayzero: Dayzero, tiny_folder: Path) -> None:
    done = dayzero("doctor", tiny_folder, "--dtype", "float32")
    assert done.code == 0
    assert "as float32" in done.out
    assert "packs bfloat16 only" in done.out


def test_an_architecture_that_is_not_known_is_refused_with_those_that_are(
    dayzero: Dayzero, unknown_family: Path
) -> None:
    done = dayzero("doctor", unknown_family)
    assert done.code == 3
    assert "error: architecture not supported: perceptron\nhint: known: gemma3, llama, qwen2, qwen3\n" in done.err


def test_a_file_that_is_no_model_is_refused(dayzero: Dayzero, tmp_path: Path) -> None:
    (tmp_path / "noise.gguf").write_bytes(bytes(range(100)))
    done = dayzero("doctor", tmp_path / "noise.gguf")
    assert done.code == 3
    assert "not a GGUF file" in done.err


def test_what_is_known_of_the_machine_is_shown_although_the_model_is_not_there(dayzero: Dayzero) -> None:
    done = dayzero("doctor", "./nowhere")
    assert done.code == 2
    assert "processor" in done.out
