import pytest

from dayzero.checkpoint.gguf_names import ARCHITECTURES
from dayzero.errors import UnsupportedModel
from dayzero.models.registry import FAMILIES, family_of


def test_a_family_is_found_by_its_model_type():
    assert {name: family_of(name).name for name in FAMILIES} == {name: name for name in FAMILIES}


def test_an_unknown_architecture_is_refused_with_those_known():
    with pytest.raises(
        UnsupportedModel, match=r"architecture not supported: mamba\nhint: known: bert, gemma3, llama, qwen2"
    ):
        family_of("mamba")


def test_every_decoder_can_come_from_a_gguf_file():
    assert set(ARCHITECTURES) == {name for name, family in FAMILIES.items() if not family.is_encoder}
