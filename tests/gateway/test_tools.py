import pytest

from dayzero.errors import RequestError
from dayzero.gateway.config import Limits
from dayzero.gateway.tools import ToolUse, tool_use

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def function(name: str = "weather", **fields: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **fields}}


def use_of(*tools: dict[str, object], choice: object = None, parallel: bool | None = None) -> ToolUse:
    return tool_use(list(tools), choice, parallel, Limits())  # type: ignore[arg-type]


def test_without_tools_nothing_may_be_called() -> None:
    assert use_of() == ToolUse(mode="none")
    assert use_of(choice="auto") == ToolUse(mode="none")


def test_by_default_the_model_decides() -> None:
    use = use_of(function("a"), function("b"))
    assert (use.mode, [tool.name for tool in use.tools], use.parallel) == ("auto", ["a", "b"], True)


@pytest.mark.parametrize("choice", ["required", "any"])
def test_a_call_can_be_required(choice: str) -> None:
    use = use_of(function("a"), function("b"), choice=choice)
    assert use.must_call
    assert len(use.tools) == 2


def test_a_named_tool_is_the_only_one_and_is_called_once() -> None:
    use = use_of(function("a"), function("b"), choice={"type": "function", "function": {"name": "b"}}, parallel=True)
    assert (use.mode, [tool.name for tool in use.tools], use.parallel) == ("named", ["b"], False)


def test_a_choice_can_be_limited_to_some_tools() -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "b"}}]}
    use = use_of(function("a"), function("b"), choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert (use.mode, [tool.name for tool in use.tools]) == ("required", ["b"])


def test_a_tool_without_parameters_takes_any_object() -> None:
    tool = {"type": "function", "function": {"name": "now", "parameters": None}}
    assert use_of(tool).tools[0].parameters == {"type": "object"}


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "web_search"}, "tools[0].type"),
        ({"type": "function"}, "tools[0].function"),
        (function(""), "tools[0].function.name"),
        (function("a b"), "tools[0].function.name"),
        (function("a" * 65), "tools[0].function.name"),
        (function(strict="yes"), "tools[0].function.strict"),
        (function(description=5), "tools[0].function.description"),
        (function(parameters=[]), "tools[0].function.parameters"),
        (function(parameters={"enum": ["x" * 70_000]}), "tools[0].function.parameters"),
    ],
)
def test_a_malformed_tool_is_refused_by_its_place(tool: dict[str, object], param: str) -> None:
    with pytest.raises(RequestError) as raised:
        use_of(tool)
    assert raised.value.param == param


@pytest.mark.parametrize(
    "choice",
    [
        "sometimes",
        {"type": "function"},
        {"type": "function", "function": {"name": "other"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function"}]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "never", "tools": []}},
    ],
)
def test_a_malformed_choice_is_refused(choice: object) -> None:
    with pytest.raises(RequestError) as raised:
        use_of(function(), choice=choice)
    assert (raised.value.param or "").startswith("tool_choice")


def test_a_call_cannot_be_required_without_tools() -> None:
    with pytest.raises(RequestError, match="without tools"):
        use_of(choice="required")


def test_names_must_differ_and_tools_are_counted() -> None:
    with pytest.raises(RequestError, match="one name"):
        use_of(function("a"), function("a"))
    with pytest.raises(RequestError, match="too many tools"):
        use_of(*(function(f"f{number}") for number in range(129)))
