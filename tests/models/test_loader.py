import pytest
import torch

from dayzero.checkpoint.open import open_checkpoint
from dayzero.checkpoint.tensor import StoredTensor
from dayzero.errors import CheckpointError
from dayzero.kernels.native.backend import NativeKernels
from dayzero.kernels.native.extension import module
from dayzero.kernels.registry import select_reference
from dayzero.models.family import TensorSpec
from dayzero.models.loader import account, load
from dayzero.models.registry import family_of
from tests.golden.tiny import TINY, save

TABLE = {name: TensorSpec((2, 3)) for name in ("a", "b", "c", "d", "e")}
SHAPES = dict.fromkeys(TABLE, (2, 3))


def test_exactly_the_expected_tensors_pass():
    account(TABLE, SHAPES)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({name: shape for name, shape in SHAPES.items() if name != "b"}, "tensor missing: b\n"),
        ({"a": (2, 3)}, "tensor missing: b, c, d and 1 more"),
        (SHAPES | {"x": (1,)}, "tensor not expected: x\n"),
        (SHAPES | {"c": (3, 2)}, r"tensor misshapen: c is \[3, 2\] \(its config says \[2, 3\]\)"),
    ],
)
def test_a_tensor_that_is_missing_extra_or_misshapen_is_named(shapes, message):
    with pytest.raises(CheckpointError, match=message):
        account(TABLE, shapes)


@pytest.fixture(params=["reference", "native"])
def kernels(request):
    if request.param == "reference":
        return select_reference()
    if module() is None:
        pytest.skip("the native kernels are not built")
    return NativeKernels(2)


@pytest.mark.model
@pytest.mark.parametrize("name", ["llama", "llama untied, one KV head", "qwen2", "qwen3", "gemma3"])
def test_every_tensor_is_read_once_and_progress_says_so(name, kernels, tmp_path):
    save(TINY[name], tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    family = family_of(checkpoint.family)
    seen: list[tuple[int, int]] = []
    before = torch.get_num_threads()
    load(
        family,
        family.parse(checkpoint.config),
        checkpoint.tensors,
        torch.float32,
        kernels,
        lambda done, total: seen.append((done, total)),
    )
    total = len(checkpoint.tensors)
    assert seen == [(done, total) for done in range(1, total + 1)]
    assert torch.get_num_threads() == before


@pytest.mark.model
def test_who_is_told_of_progress_can_end_the_loading(kernels, tmp_path):
    save(TINY["llama"], tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    family = family_of(checkpoint.family)

    def stop(done, total):
        if done == total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(family, family.parse(checkpoint.config), checkpoint.tensors, torch.float32, kernels, stop)


@pytest.mark.model
def test_a_checkpoint_without_one_of_its_tensors_is_refused(tmp_path):
    save(TINY["qwen3"], tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    family = family_of(checkpoint.family)
    lost = "model.layers.1.self_attn.q_norm.weight"
    stored: dict[str, StoredTensor] = {name: t for name, t in checkpoint.tensors.items() if name != lost}
    with pytest.raises(CheckpointError, match=lost):
        load(family, family.parse(checkpoint.config), stored, torch.float32, select_reference())
