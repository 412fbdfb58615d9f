import asyncio

import pytest

from dayzero.errors import ConfigError
from dayzero.workshop.bench.target import Target, base_url, choose_writer, discover, open_http
from dayzero.workshop.bench.workloads.writer import TokenIdWriter, WordWriter
from tests.gateway.stand import run_live, stand
from tests.workshop.bench.scripted_server import Refusal, ScriptedServer

COUNTED = Refusal(200, {"choices": [], "usage": {"prompt_tokens": 200}})
NO_IDS = Refusal(400, {"error": {"message": "text only"}})


def discovered(model=None, **server):
    async def go():
        async with ScriptedServer(COUNTED, **server) as scripted, open_http(None) as http:
            return await discover(http, scripted.url, model)

    return asyncio.run(go())


def chosen_writer(*servers, text_only=False):
    async def go():
        async with open_http(None) as http:
            for server in servers:
                await server.__aenter__()
            targets = [Target(server.url, "m", None) for server in servers]
            try:
                return await choose_writer(http, targets, text_only=text_only)
            finally:
                for server in servers:
                    await server.__aexit__()

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://host:80/v1", "http://host:80"),
        ("https://host/api/v1/", "https://host/api"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)
def test_a_url_is_taken_with_or_without_scheme_and_v1(url, base):
    assert base_url(url) == base


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http://host:99999", "http://host?x=1", "http://[::1"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(ConfigError, match="not a URL"):
        base_url(url)


def test_the_first_served_model_is_the_default():
    assert discovered(models={"data": [{"id": "a"}, {"id": "b"}]}).model == "a"
    assert discovered("b", models={"data": [{"id": "a"}, {"id": "b"}]}).model == "b"


def test_a_model_that_is_not_served_is_refused_with_those_that_are():
    with pytest.raises(ConfigError, match=r"does not serve the model: x\nhint: served: m"):
        discovered("x")


def test_dayzero_is_known_by_what_it_says_of_itself_and_others_are_not_taken_for_it():
    async def at(address):
        async with open_http(None) as http:
            return await discover(http, "http://{}:{}".format(*address), None)

    with run_live(stand()) as address:
        assert asyncio.run(at(address)).is_dayzero
    other = discovered(version={"version": "0.9"})
    assert (other.version, other.is_dayzero) == ("0.9", False)
    assert (discovered().version, discovered().is_dayzero) == (None, False)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"data": []}, "serves no model"),
        ({"models": "?"}, "not an OpenAI-compatible API"),
        (Refusal(401, {"error": {"message": "no"}}), "refuses the key"),
        (Refusal(500, {"error": {"message": "boom"}}), "http 500: boom"),
        (Refusal(404, "?"), "http 404: no message"),
    ],
)
def test_a_server_that_cannot_be_tested_is_told_apart(models, message):
    with pytest.raises(ConfigError, match=message):
        discovered(models=models)


def test_a_server_that_is_down_is_named():
    async def go():
        async with ScriptedServer(COUNTED) as server:
            url = server.url
        async with open_http(None) as http:
            await discover(http, url, None)

    with pytest.raises(ConfigError, match="cannot reach"):
        asyncio.run(go())


def test_token_ids_are_used_where_the_server_tells_and_takes_them():
    writer = chosen_writer(ScriptedServer(COUNTED, tokenize={"tokens": [*range(100, 150), 100]}))
    assert isinstance(writer, TokenIdWriter)
    assert writer.ids == tuple(range(100, 150))


def test_words_are_used_where_token_ids_are_refused_or_not_told_or_not_wanted():
    told = {"tokens": list(range(100))}
    for writer in (
        chosen_writer(ScriptedServer(NO_IDS, COUNTED, tokenize=told)),
        chosen_writer(ScriptedServer(COUNTED)),
        chosen_writer(ScriptedServer(COUNTED, tokenize=told), text_only=True),
    ):
        assert isinstance(writer, WordWriter)


def test_servers_of_different_tokenizers_get_words():
    one = ScriptedServer(COUNTED, tokenize={"tokens": list(range(100))})
    other = ScriptedServer(COUNTED, tokenize={"tokens": list(range(50))})
    assert isinstance(chosen_writer(one, other), WordWriter)


def test_words_are_as_long_as_the_server_counts_them():
    writer = chosen_writer(ScriptedServer(Refusal(200, {"usage": {"prompt_tokens": 10**6}})))
    assert float(writer.description.split("(")[1].split()[0]) > 1000
