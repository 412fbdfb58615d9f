from pathlib import Path

import pytest

from dayzero.kernels.native.extension import best_instruction_set, lacking, module
from dayzero.kernels.ops import DECODER_OPS
from dayzero.quant.precision import PRECISIONS
from tests.cli.conftest import Dayzero, Done

pytestmark = pytest.mark.model

needs_native = pytest.mark.skipif(best_instruction_set()[0] is None, reason=best_instruction_set()[1])


def test_doctor_shows_the_machine_what_the_model_needs_and_why_each_kernel_serves(
    dayzero: Dayzero, smollm2: Path
) -> None:
    done = dayzero("doctor", smollm2, "--precision", "bf16")
    assert (done.code, done.err) == (0, "")
    rows = rows_of(done)
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert int(facts["cores"]) >= 1
    assert facts["memory free"].endswith("GiB")
    assert facts["family"] == "llama"
    assert facts["weights"] == "257 MiB"
    assert facts["KV"] == "22.5 KiB a token, in bf16"
    assert facts["context"] == "8192 tokens"
    assert "GiB" in facts["KV pool"]
    threes = {row[0]: row[1:] for row in rows if len(row) == 3}
    kernels = {op.name: threes[op.name] for op in DECODER_OPS}
    assert all(implementation and reason for implementation, reason in kernels.values())
    assert threes["bf16"] == ["257 MiB", "chosen: asked for"]


def test_doctor_says_in_a_line_that_native_kernels_are_not_built_or_what_each_of_them_lacks(dayzero: Dayzero) -> None:
    done = dayzero("doctor", "./nowhere")
    if module() is None:
        assert "native kernels are not built: install again where there is a C++ compiler" in done.out.splitlines()
    else:
        said = {row[0].removeprefix("native/"): row[1] for row in rows_of(done) if row[0].startswith("native/")}
        assert said == {name: f"refused: needs {why}" if why else "can run" for name, why in lacking().items()}


def test_doctor_says_which_precisions_can_be_had_and_why_not_the_others(dayzero: Dayzero, smollm2: Path) -> None:
    said = precisions(dayzero("doctor", smollm2, "--kernels", "torch"))
    assert said["bf16"] == ["257 MiB", "chosen: torch's kernels compute in nothing else"]
    for name in ("int8", "nvfp4", "as-stored"):
        assert said[name] == ["", f"refused: precision {name} needs native kernels: torch was asked for"]


@needs_native
def test_doctor_says_what_the_weights_take_in_each_precision(
    dayzero: Dayzero, smollm2: Path, tiny_folder: Path
) -> None:
    assert precisions(dayzero("doctor", smollm2)) == {
        "bf16": ["257 MiB", "--precision bf16"],
        "int8": ["136 MiB", "--precision int8"],
        "nvfp4": ["72 MiB", "--precision nvfp4"],
        "as-stored": ["92 MiB", "chosen: the checkpoint has codes of its own"],
    }
    said = precisions(dayzero("doctor", tiny_folder))
    assert said["bf16"][1] == "chosen: the checkpoint has no codes of its own"
    assert said["as-stored"][1].startswith("refused: precision as-stored: this checkpoint has no codes")


@needs_native
def test_doctor_says_what_kv_takes_in_int8(dayzero: Dayzero, smollm2: Path) -> None:
    facts = {row[0]: row[1] for row in rows_of(dayzero("doctor", smollm2, "--kv-dtype", "int8")) if len(row) == 2}
    assert facts["KV"] == "12.0 KiB a token, in int8"


def rows_of(done: Done) -> list[list[str]]:
    """The cells of every row of every table."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.out.splitlines() if "│" in line]


def precisions(done: Done) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in rows_of(done) if row[0] in PRECISIONS}


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
    assert "error: architecture not supported: perceptron\nhint: known: bert, gemma3, llama, qwen2, qwen3\n" in done.err


def test_a_file_that_is_no_model_is_refused(dayzero: Dayzero, tmp_path: Path) -> None:
    (tmp_path / "noise.gguf").write_bytes(bytes(range(100)))
    done = dayzero("doctor", tmp_path / "noise.gguf")
    assert done.code == 3
    assert "not a GGUF file" in done.err


def test_what_is_known_of_the_machine_is_shown_although_the_model_is_not_there(dayzero: Dayzero) -> None:
    done = dayzero("doctor", "./nowhere")
    assert done.code == 2
    assert "processor" in done.out
