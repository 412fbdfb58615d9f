"""The declarations of ops."""

import inspect

from dayzero.kernels import reference
from dayzero.kernels.ops import OPS


def test_each_op_is_named_after_its_reference_and_occurs_once():
    assert [op.name for op in OPS] == [op.reference.__name__ for op in OPS]
    assert len({op.name for op in OPS}) == len(OPS)


def test_every_public_reference_is_an_op_or_a_part_of_one():
    own = reference.__name__
    functions = {f.__name__ for f in vars(reference).values() if inspect.isfunction(f) and f.__module__ == own}
    assert functions == {op.name for op in OPS} | {"prepare_linear", "rope", "write_kv", "attend_row"}


def test_every_op_states_its_error_for_both_dtypes():
    assert all(set(op.relative_error) == {"float32", "bfloat16"} for op in OPS)
