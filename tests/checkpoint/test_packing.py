"""What a config says of packed weights, and tensors that belong together."""

from pathlib import Path

import pytest
import torch

from dayzero.checkpoint.packing import AWQ, GPTQ, GPTQ_V2, PACKINGS, assemble, read_packing
from dayzero.errors import CheckpointError, UnsupportedModel
from tests.quant.packing import CONFIGS, packed, stored

WHERE = Path("config.json")


def parts(packing: str, features: int = 16, inner: int = 64, group: int = 32) -> dict[str, torch.Tensor]:
    codes = torch.zeros(features, inner, dtype=torch.uint8)
    numbers = torch.ones(features, inner // group)
    return packed(packing, codes, numbers.to(torch.uint8), numbers.half())


@pytest.mark.parametrize(
    ("config", "packing"),
    [
        *((config, packing) for packing, config in CONFIGS.items()),
        ({"quant_method": "gptq", "bits": 4, "format": "gptq_v2"}, GPTQ_V2),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:lm_head": {}, "+:mlp": {"group_size": 64}}}, GPTQ),
        ({"quant_method": "awq", "bits": 4, "version": "GEMM"}, AWQ),
        ({}, None),
        (None, None),
    ],
)
def test_a_config_says_how_its_weights_are_packed(config, packing):
    assert read_packing({"quantization_config": config}, WHERE) == packing
    assert read_packing({"text_config": {"quantization_config": config}}, WHERE) == packing


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "bitsandbytes"}, "quantized weights in config.json: bitsandbytes"),
        ({"quant_method": "fp8"}, "fp8"),
        ("mystery", "mystery"),
        ({"bits": 4}, "None"),
        ({**CONFIGS[AWQ], "bits": 8}, r"bits is 8 \(known: 4\)"),
        ({**CONFIGS[AWQ], "zero_point": False}, "zero_point is False"),
        ({**CONFIGS[AWQ], "version": "gemv"}, "version is gemv"),
        ({**CONFIGS[GPTQ], "bits": 3}, "bits is 3"),
        ({**CONFIGS[GPTQ], "checkpoint_format": "marlin"}, "checkpoint_format is marlin"),
        ({**CONFIGS[GPTQ], "is_marlin_format": True}, "is_marlin_format is True"),
        ({**CONFIGS[GPTQ], "pack_dtype": "int16"}, "pack_dtype is int16"),
        ({**CONFIGS[GPTQ], "dynamic": {"mlp": {"bits": 8}}}, "bits is 8"),
        ({**CONFIGS[GPTQ], "dynamic": ["mlp"]}, "dynamic is"),
        ({**CONFIGS[GPTQ], "dynamic": {"mlp": 8}}, "dynamic is"),
    ],
)
def test_what_is_not_known_is_refused_by_name(config, message):
    with pytest.raises(UnsupportedModel, match=message):
        read_packing({"quantization_config": config}, WHERE)


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packed_weight_is_one_tensor_with_parts(packing):
    tensors = stored(parts(packing), "mlp.up_proj") | stored({"weight": torch.ones(64)}, "norm")
    assembled = assemble(tensors, packing, {})
    weight = assembled["mlp.up_proj.weight"]
    assert assembled.keys() == {"mlp.up_proj.weight", "norm.weight"}
    assert (weight.shape, weight.format) == ((16, 64), packing)
    assert weight.num_bytes == sum(len(tensor.data) for name, tensor in tensors.items() if name != "norm.weight")


def test_tensors_that_are_not_packed_stay_as_they_are():
    tensors = stored({"weight": torch.ones(64), "bias": torch.zeros(64)}, "norm")
    assert assemble(tensors, None, {}) == tensors
    assert assemble(tensors, AWQ, {}) == tensors


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("lost", ["qzeros", "scales"])
def test_a_part_that_is_missing_is_named(packing, lost):
    tensors = stored({name: part for name, part in parts(packing).items() if name != lost})
    with pytest.raises(CheckpointError, match=f"tensor missing: w.{lost}"):
        assemble(tensors, packing, {})


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("qweight", torch.zeros(64, 3, dtype=torch.int32)),
        ("qweight", torch.zeros(64, 2)),
        ("qzeros", torch.zeros(3, 2, dtype=torch.int32)),
        ("scales", torch.zeros(2, 16, dtype=torch.int32)),
        ("scales", torch.zeros(16)),
    ],
)
def test_a_part_that_is_misshapen_is_named(packing, name, part):
    with pytest.raises(CheckpointError, match=rf"tensor misshapen: w\.{name}"):
        assemble(stored({**parts(packing), name: part}), packing, {})


def test_a_group_index_of_another_length_is_refused():
    with pytest.raises(CheckpointError, match=r"w\.g_idx is \[63\]"):
        assemble(stored({**parts(GPTQ), "g_idx": torch.zeros(63, dtype=torch.int32)}), GPTQ, {})


@pytest.mark.parametrize("packing", PACKINGS)
def test_groups_that_no_activation_group_fits_are_refused(packing):
    with pytest.raises(UnsupportedModel, match=r"groups of w: 16 features, 4 groups of 64 weights"):
        assemble(stored(parts(packing, group=16)), packing, {})


def test_a_weight_that_is_there_twice_is_refused():
    with pytest.raises(CheckpointError, match=r"tensor occurs twice: w\.weight"):
        assemble(stored({**parts(AWQ), "weight": torch.ones(16, 64)}), AWQ, {})


def test_a_bias_of_zeros_is_left_out_where_the_model_has_none():
    tensors = stored({**parts(GPTQ), "bias": torch.zeros(16)}, "self_attn.q_proj")
    tensors |= stored({**parts(GPTQ), "bias": torch.zeros(16)}, "self_attn.o_proj")
    tensors |= stored({**parts(GPTQ), "bias": torch.ones(16)}, "mlp.up_proj")
    biases = {name for name in assemble(tensors, GPTQ, {"attention_bias": True}) if name.endswith("bias")}
    assert biases == {"self_attn.q_proj.bias", "mlp.up_proj.bias"}


def test_integers_that_no_config_explains_are_refused():
    with pytest.raises(UnsupportedModel, match=r"unknown format of tensor w\.qweight: I32"):
        assemble(stored({"qweight": parts(AWQ)["qweight"]}), None, {})
