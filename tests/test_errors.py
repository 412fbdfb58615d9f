import inspect

import pytest

from dayzero import errors
from dayzero.errors import ContextTooLong, DayzeroError, RequestError

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DayzeroError)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_names_every_error(kind: type[DayzeroError]) -> None:
    assert errors.__doc__ is not None
    assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_only_a_clients_fault_is_a_client_status(kind: type[DayzeroError]) -> None:
    if issubclass(kind, RequestError):
        assert 400 <= kind.status < 500
    elif issubclass(kind, errors.QueueFull):
        assert kind.status == 429
    else:
        assert kind.status >= 500


def test_a_context_that_is_too_long_is_told_with_both_numbers() -> None:
    error = ContextTooLong(prompt_tokens=9041, max_tokens=16, limit=8192)
    assert "9041" in str(error)
    assert "8192" in str(error)
    assert "hint:" in str(error)
