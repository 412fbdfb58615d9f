"""From a configuration to a running engine, and what its identity depends on."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from dayzero.clock import FakeClock
from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig, EngineSpec
from dayzero.engine.build import build_engine, plan_engine
from dayzero.engine.engine import Engine
from dayzero.errors import CheckpointError, ConfigError, UnsupportedModel
from dayzero.kernels.native import extension
from dayzero.kernels.native.extension import best_instruction_set
from dayzero.kernels.onednn import packing_works
from dayzero.wire.messages import Submit
from tests.golden.tiny import TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model

CONFIG = EngineConfig(model="", kv_memory_bytes=2**23, max_requests=4, threads=1)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """An engine sets the number of threads for its process: give the tests theirs back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "one"
    save(TINY["llama"], path)
    return path


def copy_of(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def built(folder: Path, **values: object) -> tuple[Engine, EngineSpec]:
    return build_engine(config(folder, **values), FakeClock(), lambda *_: None)


def config(folder: Path, **values: object) -> EngineConfig:
    fields = {name: getattr(CONFIG, name) for name in CONFIG.__struct_fields__}
    return EngineConfig(**{**fields, "model": str(folder), **values})


def identity(folder: Path, **values: object) -> tuple[str, str]:
    spec = built(folder, **values)[1]
    return spec.policy_version, spec.numerics_id


def answer(engine: Engine, spec: EngineSpec) -> list[object]:
    params = SamplingParams(max_tokens=12, seed=5, logprobs=2)
    engine.submit(Submit(request_id=1, prompt=[5, 6, 7], params=params, salt="", policy_version=spec.policy_version))
    events = []
    while report := engine.step():
        events.extend(report.events)
    assert events[-1].finish in (FinishReason.LENGTH, FinishReason.STOP)
    return events


def test_an_engine_is_built_that_answers_and_two_of_them_agree(folder: Path) -> None:
    first, second = built(folder), built(folder)
    assert first[1] == second[1]
    assert answer(*first) == answer(*second)


def test_identity_does_not_depend_on_where_the_model_lies_or_how_it_is_served(folder: Path, tmp_path: Path) -> None:
    here = identity(folder)
    assert identity(copy_of(folder, tmp_path / "copy")) == here
    assert identity(folder, max_requests=2, max_step_tokens=64, prefix_cache=False, block_size=32) == here


@pytest.mark.parametrize("change", [{"dtype": "float32"}, {"threads": 2}], ids=str)
def test_what_changes_the_bits_changes_numerics_and_with_them_the_version(
    folder: Path, change: dict[str, object]
) -> None:
    version, numerics = identity(folder)
    other_version, other_numerics = identity(folder, **change)
    assert other_numerics != numerics
    assert other_version != version


def test_other_weights_are_another_version_of_the_same_numerics(folder: Path, tmp_path: Path) -> None:
    """One step of training changes every tensor, though perhaps only a little."""
    other = copy_of(folder, tmp_path / "other")
    tensors = load_file(other / "model.safetensors")
    tensors["model.norm.weight"][0] += 2**-10
    save_file(tensors, other / "model.safetensors")
    (version, numerics), (other_version, other_numerics) = identity(folder), identity(other)
    assert other_version != version
    assert other_numerics == numerics


def test_numerics_name_the_chosen_kernels_and_the_probed_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine without oneDNN's packing, as on another build of torch, computes other bits."""
    if not packing_works():
        pytest.skip("this build of torch is that other one")
    packed = identity(folder, kernels="torch")[1]
    monkeypatch.setattr("dayzero.kernels.onednn.packing_works", lambda: False)
    assert identity(folder, kernels="torch")[1] != packed


def test_the_spec_says_what_was_decided(folder: Path, tmp_path: Path) -> None:
    other = copy_of(folder, tmp_path / "other")
    (other / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 9]}))
    _, spec = built(other, max_context=200, max_step_tokens=128)
    assert (spec.model, spec.family, spec.dtype) == (str(other), "llama", "bfloat16")
    assert (spec.vocab_size, spec.max_context) == (VOCAB_SIZE, 200)
    assert set(spec.eos_token_ids) == {2, 9}
    assert (spec.max_requests, spec.max_step_tokens, spec.threads, spec.prefix_cache) == (4, 128, 1, True)
    num_weights = sum(tensor.numel() for tensor in load_file(other / "model.safetensors").values())
    assert spec.weight_bytes == 2 * num_weights
    assert spec.kv_blocks == 4 * -(-200 // 16)
    assert spec.kv_bytes <= 2**23
    assert {choice.op for choice in spec.kernels} >= {"linear", "paged_attention"}


def test_what_is_planned_is_what_is_built(folder: Path) -> None:
    plan, (_, spec) = plan_engine(config(folder)), built(folder)
    assert plan.memory.max_context == spec.max_context == plan.shape.max_context
    assert plan.weight_bytes == spec.weight_bytes
    assert plan.kernels.choices == spec.kernels


def test_loading_is_reported_to_the_last_tensor(folder: Path) -> None:
    told = []
    build_engine(config(folder), FakeClock(), lambda *report: told.append(report))
    total = told[-1][2]
    assert told == [("weights", done, total) for done in range(1, total + 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "dtype not supported: float16\nhint: known: bfloat16, float32"),
        ({"block_size": 24}, "block size not supported: 24"),
        ({"block_size": 0}, "block size not supported: 0"),
        ({"max_context": 1025}, "1025.*1024"),
        ({"kv_memory_bytes": 2000, "max_context": 1024}, "KV memory too small.*1024"),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_refused(folder: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_engine(config(folder, **change))


NEEDS_NATIVE = "precision {} needs native kernels: {}\nhint: leave out --precision{}$"
KV_NEEDS_NATIVE = "KV dtype {} needs native kernels: {}\nhint: leave out --kv-dtype{}$"
IN_BFLOAT16 = "native kernels compute in bfloat16, not in float32"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernels": "abacus"}, "kernels not known: abacus\nhint: known: auto, native, torch$"),
        ({"precision": "fp3"}, "precision not supported: fp3\nhint: known: auto, bf16, "),
        ({"kernels": "native", "dtype": "float32"}, f"native kernels cannot serve this model here: {IN_BFLOAT16}"),
        (
            {"kernels": "native", "block_size": 8},
            "native kernels cannot serve this model here: .*8 is no multiple of 16",
        ),
        *(
            (
                {"precision": name, "kernels": "torch"},
                NEEDS_NATIVE.format(name, "torch was asked for", ", or --kernels torch"),
            )
            for name in ("int8", "nvfp4", "as-stored")
        ),
        *(
            ({"precision": name, "dtype": "float32"}, NEEDS_NATIVE.format(name, IN_BFLOAT16, ""))
            for name in ("bf16", "int8", "nvfp4", "as-stored")
        ),
        ({"kv_dtype": "fp8"}, "KV dtype not supported: fp8\nhint: known: auto, bf16, int8$"),
        (
            {"kv_dtype": "int8", "kernels": "torch"},
            KV_NEEDS_NATIVE.format("int8", "torch was asked for", ", or --kernels torch"),
        ),
        ({"kv_dtype": "int8", "dtype": "float32"}, KV_NEEDS_NATIVE.format("int8", IN_BFLOAT16, "")),
        ({"kv_dtype": "bf16", "dtype": "float32"}, KV_NEEDS_NATIVE.format("bf16", IN_BFLOAT16, "")),
    ],
    ids=str,
)
def test_kernels_precisions_and_kv_dtypes_that_cannot_be_had_are_refused_by_name_with_the_reason(
    folder: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_engine(config(folder, **change))


@pytest.mark.skipif(best_instruction_set()[0] is None, reason=best_instruction_set()[1])
def test_codes_as_they_are_stored_are_refused_where_there_are_none(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"precision as-stored: this checkpoint has no codes \(.*\)\nhint: leave out"):
        plan_engine(config(folder, precision="as-stored"))


def test_what_the_extension_lacks_is_the_reason_why_native_kernels_or_a_precision_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a processor that none of its code can run on."""
    monkeypatch.setattr(extension, "_MODULE", SimpleNamespace(missing=lambda name: f"what {name} has"))
    with pytest.raises(ConfigError, match=r"cannot serve this model here: .*native/avx512 needs what avx512 has"):
        plan_engine(config(folder, kernels="native"))
    with pytest.raises(ConfigError, match=r"precision nvfp4 needs native kernels: .*native/avx2 needs what avx2 has"):
        plan_engine(config(folder, precision="nvfp4"))
    assert plan_engine(config(folder)).precision == "bf16"


@pytest.mark.skipif(best_instruction_set()[0] is None, reason=best_instruction_set()[1])
def test_kv_in_int8_takes_less_memory_and_is_another_policy_so_that_no_cached_kv_is_shared(folder: Path) -> None:
    own, asked = built(folder)[1], built(folder, kv_dtype="bf16")[1]
    assert (own.kv_dtype, own.policy_version) == ("bf16", asked.policy_version)
    engine, spec = built(folder, kv_dtype="int8")
    assert spec.kv_dtype == "int8"
    assert spec.numerics_id != own.numerics_id
    assert spec.policy_version != own.policy_version
    head_dim = plan_engine(config(folder)).shape.heads.head_dim
    token_bytes = {s.kv_dtype: s.kv_bytes / (s.kv_blocks + 1) / s.block_size for s in (own, spec)}
    assert token_bytes["int8"] / token_bytes["bf16"] == (head_dim + 4) / (2 * head_dim)
    params = SamplingParams(max_tokens=4, seed=0)
    submit = Submit(request_id=1, prompt=[5] * 40, params=params, salt="", policy_version=spec.policy_version)
    engine.submit(submit)
    events = [event for _ in range(8) if engine.has_work for event in engine.step().events]
    assert (len(events), events[-1].finish) == (4, FinishReason.LENGTH)


def test_kv_is_in_the_dtype_of_the_model_if_nothing_is_said(folder: Path) -> None:
    assert plan_engine(config(folder, dtype="float32")).kv_dtype == "float32"
    assert plan_engine(config(folder, kernels="torch", kv_dtype="bf16")).kv_dtype == "bf16"


def test_an_architecture_that_is_not_known_is_refused_with_those_that_are(folder: Path, tmp_path: Path) -> None:
    other = copy_of(folder, tmp_path / "other")
    raw = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**raw, "model_type": "perceptron"}))
    with pytest.raises(UnsupportedModel, match="perceptron\nhint: known: bert, gemma3, llama, qwen2, qwen3"):
        plan_engine(config(other))


def test_a_checkpoint_that_is_not_whole_is_refused_with_the_tensor_it_lacks(folder: Path, tmp_path: Path) -> None:
    other = copy_of(folder, tmp_path / "other")
    tensors = load_file(other / "model.safetensors")
    del tensors["model.layers.1.mlp.down_proj.weight"]
    save_file(tensors, other / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.layers\.1\.mlp\.down_proj\.weight"):
        built(other)
