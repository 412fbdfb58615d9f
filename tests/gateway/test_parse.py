import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.errors import RequestError
from dayzero.gateway.errors import BodyTooSlow, ClientGone, UnsupportedParameter
from dayzero.gateway.parse import FieldRules, parse_object, read_body, to_struct


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    count: int | None = None
    ratio: float | None = None
    flag: bool | None = None
    bias: dict[int, float] | None = None
    items: list[dict[str, str]] | None = None


RULES = FieldRules(neutral={"suffix": ("",), "tools": ([],)}, harmless=frozenset({"user"}))


def parse(body: bytes, *, strict: bool = False) -> tuple[Sample, list[str]]:
    return to_struct(parse_object(body, max_depth=8, max_containers=20), Sample, RULES, strict=strict)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'{"ratio": NaN, "name": "x"}',
        b'{"ratio": Infinity, "name": "x"}',
        b'{"ratio": 1e309, "name": "x"}',
        b"\xef\xbb\xbf{}",
        b"[]",
        b'"text"',
        b"null",
        b"3",
        b"[" * 100_000,
        b'{"name": ' + b"[" * 9 + b"]" * 9 + b"}",
        b'{"count": 123456789012345678901234567890, "name": "x"}',
        b'{"name": "x", "items": [' + b"[]," * 20 + b"[]]}",
        b'{"name": "\\\\", "items": [' + b"{}," * 20 + b"{}]}",
    ],
)
def test_what_is_no_json_object_is_the_clients_fault(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse(body)
    assert caught.value.status == 400


def test_brackets_in_a_text_are_no_containers() -> None:
    text = '[{\\"' * 30
    assert parse(b'{"name": "%s"}' % text.encode())[0].name == '[{"' * 30


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "name"),
        (b'{"name": 3}', "name"),
        (b'{"name": "x", "count": true}', "count"),
        (b'{"name": "x", "count": "1"}', "count"),
        (b'{"name": "x", "count": 1.5}', "count"),
        (b'{"name": "x", "ratio": false}', "ratio"),
        (b'{"name": "x", "flag": 1}', "flag"),
        (b'{"name": "x", "bias": {"a": 1}}', "bias"),
        (b'{"name": "x", "bias": {"1": "a"}}', "bias"),
        (b'{"name": "x", "items": [{"a": "b"}, {"a": 1}]}', "items[1]"),
    ],
)
def test_a_wrong_type_names_its_field(body: bytes, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(body)
    assert caught.value.param == param


def test_null_is_the_same_as_absent() -> None:
    everything = b'{"name": "x", "count": null, "tools": null, "suffix": null, "other": null}'
    assert parse(everything) == parse(b'{"name": "x"}')


def test_fields_without_effect_are_named() -> None:
    _, ignored = parse(b'{"name": "x", "user": "me", "colour": 1, "bad name": 2}')
    assert ignored == ["user", "colour", "?"]


def test_a_list_of_names_that_was_cut_says_so() -> None:
    fields = [f"f{number}" for number in range(21)]
    for count in (20, 21):
        body = {"name": "x", **dict.fromkeys(fields[:count], 1)}
        _, ignored = parse(msgspec.json.encode(body))
        assert ignored == [*fields[:20], *["..."][: count - 20]]


def test_a_field_behind_many_without_effect_is_still_refused() -> None:
    body = msgspec.json.encode({"name": "x", **{f"f{number}": 1 for number in range(30)}, "suffix": "y"})
    with pytest.raises(UnsupportedParameter):
        parse(body)


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    size: int | None = None
    inner: "Inner | None" = None


class Note(msgspec.Struct, frozen=True, kw_only=True, tag="note"):
    text: Any = None


class Call(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    notes: str | list[Note] | None = None


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    one: str | Inner | None = None
    many: list[Inner] | None = None
    shaped: list[dict[str, Any]] | None = None
    free: dict[str, Any] | None = None
    blocks: str | list[Any] | None = None


NESTED = FieldRules(
    neutral={"many[].colour": ("none",)},
    harmless=frozenset({"shaped[].label"}),
    instead={"many[].colour": "paint it"},
    shapes={"shaped": list[Inner]},
    inside={"blocks": str | list[Note | Call]},
    open=frozenset({"one"}),
)


BLOCKS = ["blocks[0].text", "blocks[0].notes[0].a"]


def nested(body: Any, *, strict: bool = False) -> list[str]:
    return to_struct(body, Outer, NESTED, strict=strict)[1]


@pytest.mark.parametrize(
    ("body", "ignored"),
    [
        ({"one": {"a": 1, "inner": {"size": 3, "b": 2}}}, ["one.inner.b"]),
        ({"one": "a", "free": {"a": 1}}, []),
        ({"many": [{}, {"a": None, "b": 1, "x y": 2}]}, ["many[1].b", "many[1].?"]),
        ({"many": [{"colour": "none"}]}, []),
        (
            {"shaped": [{"size": 1, "label": "x"}, {"inner": {"size": 2, "a": 3}}]},
            ["shaped[0].label", "shaped[1].inner.a"],
        ),
        ({"blocks": [{"type": "call", "text": 1, "notes": [{"type": "note", "a": 1}]}]}, BLOCKS),
        (
            {"blocks": [{"text": 1, "notes": 2}, 3, [{"a": 1}], {"type": None, "a": 1}]},
            ["blocks[0].notes", "blocks[3].a"],
        ),
        ({"blocks": [{"type": "other", "a": 1}, {"type": ["note"], "a": 1}]}, []),
        ({"blocks": [{}, {"a": 1}, {"a": 2, "b": 3}]}, ["blocks[1].a", "blocks[2].b"]),
    ],
)
def test_fields_within_fields_are_treated_as_those_at_the_top(body: dict[str, Any], ignored: list[str]) -> None:
    assert nested(body) == ignored


def test_strict_mode_knows_fields_within_fields() -> None:
    assert nested({"shaped": [{"label": "x"}]}, strict=True) == ["shaped[0].label"]
    with pytest.raises(RequestError, match="unknown field") as caught:
        nested({"many": [{}, {"a": 1}]}, strict=True)
    assert caught.value.param == "many[1].a"


def test_what_is_refused_says_what_to_do_instead() -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        nested({"many": [{"colour": "red"}]})
    assert (caught.value.param, caught.value.hint) == ("many[0].colour", "paint it")


def test_rules_are_joined_by_what_each_says() -> None:
    joined = RULES | NESTED
    assert joined.neutral == {"suffix": ("",), "tools": ([],), "many[].colour": ("none",)}
    assert joined.harmless == {"user", "shaped[].label"}
    assert (joined.instead, joined.shapes, joined.inside) == (NESTED.instead, NESTED.shapes, NESTED.inside)
    assert joined.open == NESTED.open


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"shaped": [{}, {"size": "x"}]}, "shaped[1].size"),
        ({"shaped": {}}, "shaped"),
        ({"one": {"inner": {"size": 1.5}}}, "one.inner.size"),
    ],
)
def test_a_wrong_type_within_a_field_names_its_place(body: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        nested(body)
    assert caught.value.param == param


def test_fields_without_effect_are_refused_in_strict_mode() -> None:
    with pytest.raises(RequestError, match="unknown field: colour") as caught:
        parse(b'{"name": "x", "colour": 1}', strict=True)
    assert caught.value.param == "colour"


@pytest.mark.parametrize("body", [b'{"name": "x", "tools": [1]}', b'{"name": "x", "suffix": "y"}'])
def test_a_field_that_asks_for_what_we_lack_is_refused(body: bytes) -> None:
    with pytest.raises(UnsupportedParameter):
        parse(body)


def test_a_field_that_asks_for_nothing_is_accepted() -> None:
    assert parse(b'{"name": "x", "tools": [], "suffix": ""}')[1] == []


def test_integer_keys_are_read_from_strings() -> None:
    assert parse(b'{"name": "x", "bias": {"5": 1}}')[0].bias == {5: 1.0}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@settings(derandomize=True, max_examples=100)
@given(st.dictionaries(st.sampled_from(["name", "count", "ratio", "flag", "bias", "items", "tools"]) | st.text(), JSON))
def test_any_object_is_parsed_or_refused(fields: dict[str, Any]) -> None:
    with contextlib.suppress(RequestError):
        assert isinstance(parse(msgspec.json.encode(fields))[0], Sample)


@settings(derandomize=True, max_examples=300)
@given(st.binary())
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    with pytest.raises(RequestError):
        parse(body)


def receiver(*messages: dict[str, Any]) -> Any:
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    return receive


def test_a_body_is_read_in_parts() -> None:
    parts = [{"type": "http.request", "body": part, "more_body": part != b"c"} for part in (b"a", b"b", b"c")]
    assert asyncio.run(read_body(receiver(*parts), within_s=60)) == b"abc"


def test_a_body_that_stops_coming_is_given_up() -> None:
    with pytest.raises(BodyTooSlow):
        asyncio.run(read_body(receiver({"type": "http.request", "body": b"a", "more_body": True}), within_s=0.01))


def test_a_client_that_leaves_while_sending_is_gone() -> None:
    with pytest.raises(ClientGone):
        asyncio.run(read_body(receiver({"type": "http.disconnect"}), within_s=60))
