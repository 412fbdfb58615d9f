"""What servers like this one got wrong between the parser and the client, by the numbers of docs/bugs.md."""

import json
from typing import Any

import pytest

from dayzero.core.events import FinishReason
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.stand import Stand, says, sse, stand
from tests.gateway.views.test_chat_calls import CALL, WEATHER, assembled, hermes, message_of

NAMED = {"type": "function", "function": {"name": "weather"}}


def answered(this: Stand, is_stream: bool, **fields: Any) -> tuple[dict[str, Any], str]:
    """The message, however it was sent, and why it ended."""
    response = this.chat(stream=is_stream, **fields)
    return assembled(sse(response)) if is_stream else message_of(response.json())


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("choice", "finish"), [("auto", "tool_calls"), ("required", "tool_calls"), (NAMED, "stop"), ("none", "stop")]
)
def test_an_answer_ends_for_the_reason_that_its_choice_of_tools_gives(
    choice: Any, finish: str, is_stream: bool
) -> None:
    """B41: a reason of another choice, or an error, in streams alone."""
    message, said = answered(hermes(CALL), is_stream, tools=[WEATHER], tool_choice=choice)
    assert said == finish
    assert ("tool_calls" in message) == (choice != "none")


@pytest.mark.parametrize("is_stream", [False, True])
def test_no_answer_ends_with_calls_that_it_does_not_have(is_stream: bool) -> None:
    """B39: `tool_calls` as the reason, and an empty list, where no format was known."""
    response = stand(says(CALL)).chat(tools=[WEATHER], tool_choice="required", stream=is_stream)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "tools")
    message, finish = answered(hermes("no call"), is_stream, tools=[WEATHER], tool_choice="required")
    assert finish == "stop"
    assert "tool_calls" not in message


@pytest.mark.parametrize("is_stream", [False, True])
def test_wherever_the_limit_cuts_a_call_the_reason_is_the_limit(is_stream: bool) -> None:
    """B40: a call that was cut came as one to make. B44: a stream and a plain answer differed there."""
    for size in range(1, len(CALL.encode())):
        this = stand(says(CALL.encode()[:size], FinishReason.LENGTH), tool_format=FORMATS["hermes"])
        message, finish = answered(this, is_stream, tools=[WEATHER])
        assert finish == "length"
        for call in message.get("tool_calls", ()):
            assert '{"city": "Köln 🌧"}'.startswith(call["function"]["arguments"].rstrip("\ufffd"))


@pytest.mark.parametrize("is_stream", [False, True])
def test_what_a_stop_string_held_back_goes_through_the_parser(is_stream: bool) -> None:
    """B46: at the end of a stream it went around the parser, so that the rest of a marker was content."""
    message, finish = answered(hermes(f"Well. {CALL}"), is_stream, tools=[WEATHER], stop=["l>\n\n", "all>x"])
    assert finish == "tool_calls"
    assert message["content"] == "Well. "
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Köln 🌧"}


def test_the_last_of_many_tools_is_counted_by_its_place_in_the_answer() -> None:
    """B11: the index of a call was that of its tool, and clients joined what had one index."""
    others = [{"type": "function", "function": {"name": f"tool{n}"}} for n in range(23)]
    message, finish = answered(hermes(f"{CALL}\n{CALL}\n{CALL}"), True, tools=[*others, WEATHER])
    assert finish == "tool_calls"
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["weather"] * 3
    assert len({call["id"] for call in message["tool_calls"]}) == 3


@pytest.mark.parametrize("is_stream", [False, True])
def test_tokens_of_half_a_character_have_bytes_of_their_own(is_stream: bool) -> None:
    """B48: the bytes were those of U+FFFD, and the alternatives were joined to one another."""
    response = stand(says("🙂")).chat(logprobs=True, top_logprobs=5, stream=is_stream)
    choices = [choice for body in (sse(response) if is_stream else [response.json()]) for choice in body["choices"]]
    entries = [entry for choice in choices for entry in (choice["logprobs"] or {"content": []})["content"]]
    assert [entry["bytes"] for entry in entries] == [[byte] for byte in "🙂".encode()]
    assert all(
        len(entry["top_logprobs"]) == 5 and all(top["bytes"] for top in entry["top_logprobs"]) for entry in entries
    )


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_prompt_is_echoed_with_its_scores(is_stream: bool) -> None:
    """B49: an error in a stream, strings of half tokens, and a list of nothing for the first token."""
    response = stand(says("é!", FinishReason.LENGTH)).complete([104, 105], echo=True, logprobs=1, stream=is_stream)
    choices = [choice for body in (sse(response) if is_stream else [response.json()]) for choice in body["choices"]]
    assert "".join(choice["text"] for choice in choices) == "hié!"
    scores = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    assert [token for part in scores for token in part["tokens"]] == ["h", "i", "bytes:\\xc3", "bytes:\\xa9", "!"]
    assert [score for part in scores for score in part["token_logprobs"]] == [None, *[-0.5] * 4]
    assert [offset for part in scores for offset in part["text_offset"]] == [0, 1, 2, 2, 3]


@pytest.mark.parametrize("route", ["chat", "complete"])
def test_a_prompt_that_is_too_long_is_an_error_of_its_own_in_a_stream_too(route: str) -> None:
    """B57: a stream began with status 200 and an event of another shape, without the code."""
    this = stand()
    response = getattr(this, route)("x" * 600, stream=True)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == "context_length_exceeded"
    assert this.replica.submits == []
