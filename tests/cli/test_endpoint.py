import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.cli.endpoint import EXAMPLE, endpoint_of, endpoints_of
from dayzero.core.spec import EndpointConfig
from dayzero.errors import ConfigError


def test_an_endpoint_is_read_with_all_that_it_may_say():
    text = (
        "name=short,name=org/chat:v1,max_context=1024,max_requests=8,max_step_tokens=64,max_in_flight=32,kv_memory=0.5"
    )
    assert endpoint_of(text) == EndpointConfig(
        names=("short", "org/chat:v1"),
        max_context=1024,
        max_requests=8,
        max_step_tokens=64,
        max_in_flight=32,
        kv_memory_bytes=2**29,
    )


def test_an_endpoint_needs_no_more_than_a_name():
    assert endpoint_of("name=short") == EndpointConfig(names=("short",))


def test_the_example_of_refusals_is_one_that_works():
    assert endpoint_of(EXAMPLE).names == ("short",)


def test_endpoints_come_in_the_order_in_which_they_are_given():
    assert [one.names for one in endpoints_of(["name=a", "name=b,name=c"])] == [("a",), ("b", "c")]
    assert endpoints_of([]) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a key with a value: ''"),
        ("short", "not a key with a value: 'short'"),
        ("name=", "not a key with a value: 'name='"),
        ("name=a,", "not a key with a value: ''"),
        ("max_context=1024", "no name"),
        ("name=a,context=3", "unknown key: 'context'"),
        ("name=a,max_context=1,max_context=2", "max_context twice"),
        ("name=a,max_context=0", "max_context is not a whole number from 1"),
        ("name=a,max_context=-5", "max_context is not a whole number from 1"),
        ("name=a,max_requests=1e3", "max_requests is not a whole number from 1"),
        ("name=a,max_requests=²", "max_requests is not a whole number from 1"),
        ("name=a,max_step_tokens=99999999999999999999", "max_step_tokens is not a whole number from 1"),
        ("name=a,kv_memory=0", "kv_memory is not a number of GiB above 0"),
        ("name=a,kv_memory=nan", "kv_memory is not a number of GiB above 0"),
        ("name=a,kv_memory=inf", "kv_memory is not a number of GiB above 0"),
        ("name=a,kv_memory=lots", "kv_memory is not a number of GiB above 0"),
    ],
)
def test_a_word_that_is_wrong_is_quoted_and_an_example_given(text, message):
    with pytest.raises(ConfigError) as refused:
        endpoint_of(text)
    assert message in refused.value.message
    assert refused.value.hint == f"for example: --endpoint {EXAMPLE}"


@pytest.mark.parametrize("texts", [["name=a", "name=a"], ["name=a,name=a"], ["name=a,name=b", "name=c,name=b"]])
def test_one_name_leads_to_one_endpoint(texts):
    with pytest.raises(ConfigError, match="two endpoints, or one twice, by the name"):
        endpoints_of(texts)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        found = endpoint_of(text)
    except ConfigError:
        return
    assert found.names
