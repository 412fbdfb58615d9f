import pytest

from dayzero.errors import RequestError
from dayzero.gateway.service import ENCODE_ASIDE_FROM_CHARS, PARSE_ASIDE_FROM_BYTES, check_salt, derive_salt
from tests.gateway.stand import stand


def test_a_long_text_is_tokenized_like_a_short_one() -> None:
    text = "x" * (2 * ENCODE_ASIDE_FROM_CHARS)
    assert stand().post("/tokenize", {"prompt": text}).json()["count"] == len(text)


def test_a_long_body_is_parsed_like_a_short_one() -> None:
    this = stand()
    assert this.complete(padding="x" * PARSE_ASIDE_FROM_BYTES).headers["x-ignored-fields"] == "padding"
    assert this.complete(n="x" * PARSE_ASIDE_FROM_BYTES).json()["error"]["param"] == "n"


@pytest.mark.parametrize("salt", ["", "a b", "ä", "a\n", "x" * 129, "../x"])
def test_a_loose_salt_is_refused(salt: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_salt(salt)
    assert caught.value.param == "cache_salt"


def test_a_plain_salt_passes_and_none_is_empty() -> None:
    assert check_salt("Tenant_7-a") == "Tenant_7-a"
    assert check_salt(None) == ""


@pytest.mark.parametrize("name", ["gpt-9", "", 5, {"a": 1}, ["tiny"]])
def test_only_the_served_model_is_served(name: object) -> None:
    assert stand().complete(model=name).status_code in (400, 404)
    assert stand().complete(model="tiny").status_code == 200


def test_a_salt_depends_on_secret_tenant_and_client_and_confuses_none_of_them() -> None:
    salts = {
        derive_salt(b"x", "a", ""),
        derive_salt(b"x", "a", "b"),
        derive_salt(b"x", "ab", ""),
        derive_salt(b"x", "", "ab"),
        derive_salt(b"y", "a", ""),
    }
    assert len(salts) == 5
    assert derive_salt(b"x", "a", "b") == derive_salt(b"x", "a", "b")
