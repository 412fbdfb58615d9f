"""Outputs that repeat themselves, over the API: a stream says what a plain answer says, and nothing is taken back."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, says, sse, stand

WORDS = ("ing", " very", "<think>", "</think>")
ING, VERY, THINK, THOUGHT = range(259, 263)
SENTENCE = list(b"and so we went home. ")
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
LOST = {"tier": 0, "attempts": 2, "discarded_tokens": 9}

Tokens = Sequence[int]


def tries(*attempts: Tokens, per_event: int = 1) -> Callable[[Submit], list[TokenEvent]]:
    """A script: what each attempt adds to what is committed. One that loops goes on until it is aborted."""

    def script(submit: Submit) -> list[TokenEvent]:
        tokens = attempts[submit.attempt]
        loops = len(tokens) > 40 or list(tokens[-4:]) == [tokens[-1]] * 4
        return says(tokens, None if loops else FinishReason.STOP, per_event=per_event)(submit)

    return script


def served(*attempts: Tokens, per_event: int = 1, **options: Any) -> Stand:
    return stand(tries(*attempts, per_event=per_event), words=WORDS, **options)


def assembled(events: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The choices that the chunks of a stream come to."""
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        for chunk in event["choices"]:
            choice = choices.setdefault(chunk["index"], {"content": "", "reasoning": "", "calls": [], "logprobs": []})
            delta = chunk["delta"]
            choice["content"] += delta.get("content") or ""
            choice["reasoning"] += delta.get("reasoning", "")
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    choice["calls"].append(["", call["function"]["name"]])
                choice["calls"][call["index"]][0] += call["function"]["arguments"]
            choice["logprobs"] += (chunk["logprobs"] or {}).get("content", ())
            for name in ("finish_reason", "stop_reason", "x_collapse"):
                if chunk.get(name) is not None:
                    choice[name] = chunk[name]
    return choices


def plain(body: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The choices of a plain answer in the same form."""
    choices = {}
    for choice in body["choices"]:
        message = choice["message"]
        calls = [[call["function"]["arguments"], call["function"]["name"]] for call in message.get("tool_calls", ())]
        choices[choice["index"]] = {
            "content": message["content"] or "",
            "reasoning": message.get("reasoning", ""),
            "calls": calls,
            "logprobs": (choice["logprobs"] or {}).get("content", []),
            **{name: choice[name] for name in ("finish_reason", "stop_reason", "x_collapse") if name in choice},
        }
    return choices


CALL = list(b'<tool_call>\n{"name": "weather", "arguments": {"city": "K')
CASES: dict[str, tuple[tuple[Tokens, ...], dict[str, Any], dict[str, Any]]] = {
    "a run that a retry leaves": (
        ([*b"He is s", *[ING] * 9], list(b" well.")),
        {},
        {
            "content": "He is sing well.",
            "finish_reason": "stop",
            "x_collapse": {**LOST, "attempts": 1, "discarded_tokens": 3},
        },
    ),
    "a run that no retry leaves": (
        ([65, *[ING] * 9], [66, *[ING] * 9], [67, *[ING] * 9]),
        {},
        {
            "content": "AingBingCing",
            "finish_reason": "length",
            "stop_reason": "repetition_detected",
            "x_collapse": LOST,
        },
    ),
    "reasoning": (
        ([THINK, *b"hm s", *[ING] * 9], list(b"Yes.")),
        {},
        {"reasoning": "hm sing", "content": "Yes.", "finish_reason": "stop"},
    ),
    "a stop string within the run": (
        ([65, *[ING] * 9], [66]),
        {"stop": "inging"},
        {"content": "A", "finish_reason": "stop"},
    ),
    "a stop string after the retry": (
        ([65, *[ING] * 9], list(b" b. STOP")),
        {"stop": "STOP"},
        {"content": "Aing b. ", "finish_reason": "stop"},
    ),
    "log-probs": (
        ([65, *[ING] * 9], [66]),
        {"logprobs": True, "top_logprobs": 1},
        {"content": "AingB", "finish_reason": "stop"},
    ),
    "several choices": (([65, *[VERY] * 20], [66]), {"n": 3}, {"content": "A veryB", "finish_reason": "stop"}),
    "a call that a retry completes": (
        ([*CALL, *[ING] * 9], list(b'"}}\n</tool_call>')),
        {"tools": [WEATHER]},
        {"calls": [['{"city": "King"}', "weather"]], "finish_reason": "tool_calls"},
    ),
    "a call that no retry completes": (
        ([*CALL, *[ING] * 9], [66, *[ING] * 9], [67, *[ING] * 9]),
        {"tools": [WEATHER]},
        {"calls": [['{"city": "KingBingCing', "weather"]], "finish_reason": "length"},
    ),
    "mode stop": (
        ([65, *[ING] * 9],),
        {"collapse_guard": "stop"},
        {"content": "Aing", "finish_reason": "length", "stop_reason": "repetition_detected"},
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("per_event", [1, 3, 1000])
def test_a_stream_and_a_plain_answer_come_to_the_same(name: str, per_event: int) -> None:
    attempts, fields, expected = CASES[name]

    def made() -> Stand:
        return served(*attempts, per_event=per_event, tool_format=FORMATS["hermes"])

    whole = plain(made().chat(**fields).json())
    assert assembled(sse(made().chat(stream=True, **fields))) == whole
    assert len(whole) == fields.get("n", 1)
    for choice in whole.values():
        assert {key: choice[key] for key in expected} == expected


def test_copies_that_are_out_stay_and_the_answer_goes_on_behind_them() -> None:
    for stream in (False, True):
        this = served(SENTENCE * 9, list(b"The end."))
        reply = this.chat(stream=stream)
        (choice,) = (assembled(sse(reply)) if stream else plain(reply.json())).values()
        committed = bytes(this.replica.submits[1].committed).decode()
        assert choice["content"] == committed + "The end."
        assert committed.startswith("and so we went home. " * 3)
        assert choice["x_collapse"] == {"tier": 1, "attempts": 1, "discarded_tokens": 0}


def test_an_attempt_resumes_from_exactly_what_the_client_has() -> None:
    this = served([65, *[ING] * 9], [66, *SENTENCE * 9], [67])
    choice = this.chat(return_token_ids=True).json()["choices"][0]
    first, second, third = this.replica.submits
    assert first.committed == []
    assert choice["token_ids"][: len(second.committed)] == second.committed
    assert choice["token_ids"][: len(third.committed)] == third.committed
    assert len({submit.request_id for submit in this.replica.submits}) == 3
    kept = [this.replica.kept.get(submit.request_id) for submit in (first, second)]
    assert kept == [len(second.committed), len(third.committed)]
    assert this.replica.running == {}


def test_usage_counts_what_the_answer_is_made_of() -> None:
    usage = served([65, *[ING] * 9], [66]).chat().json()["usage"]
    assert usage["completion_tokens"] == len([65, ING, 66, "end of sequence"])
    assert usage["prompt_tokens_details"] == {"cached_tokens": 3}


def test_the_end_of_reasoning_that_was_forced_is_output() -> None:
    this = served([THINK, *b"hm s", *[ING] * 9], list(b"Yes."), tool_format=FORMATS["hermes"])
    body = this.chat(return_token_ids=True).json()
    assert body["choices"][0]["token_ids"] == [THINK, *b"hm s", ING, THOUGHT, *b"Yes.", 256]
    assert body["usage"]["completion_tokens"] == 12
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == len("hm s") + 2


def test_an_end_of_reasoning_that_is_forced_reaches_no_other_choice() -> None:
    def script(submit: Submit) -> list[TokenEvent]:
        if submit.choice == 1:
            return tries([THINK, *b"hm s", *[ING] * 9], list(b"Yes."))(submit)
        return says([THINK, *b"hm, no loop", THOUGHT, *b"No."])(submit)

    this = stand(script, words=WORDS, tool_format=FORMATS["hermes"])
    told = [choice["token_ids"] for choice in this.chat(n=3, return_token_ids=True).json()["choices"]]
    assert told[1] == [THINK, *b"hm s", ING, THOUGHT, *b"Yes.", 256]
    assert told[0] == told[2] == [THINK, *b"hm, no loop", THOUGHT, *b"No.", 256]


def test_harmonys_reasoning_is_ended_by_the_header_of_an_answer() -> None:
    thought = b"<|channel|>analysis<|message|>hm s"
    this = served([*thought, *[ING] * 9], list(b"Yes.<|return|>"), tool_format=FORMATS["harmony"])
    (choice,) = plain(this.chat().json()).values()
    assert (choice["reasoning"], choice["content"]) == ("hm sing", "Yes.")


@pytest.mark.parametrize(
    ("fields", "config", "is_guarded"),
    [
        ({}, {}, True),
        ({"collapse_guard": "off"}, {}, False),
        ({"ignore_eos": True}, {}, False),
        ({"ignore_eos": True, "collapse_guard": "retry"}, {}, True),
        ({}, {"collapse_guard": "off"}, False),
        ({"collapse_guard": "retry"}, {"collapse_guard": "off"}, True),
    ],
)
def test_chats_are_guarded_unless_somebody_says_otherwise(
    fields: dict[str, Any], config: dict[str, Any], is_guarded: bool
) -> None:
    this = stand(says([ING] * 9, FinishReason.LENGTH), words=WORDS, **config)
    content = this.chat(**fields).json()["choices"][0]["message"]["content"]
    assert content == ("ing" if is_guarded else "ing" * 9)
    assert len(this.replica.submits) == (3 if is_guarded else 1)


def test_completions_are_guarded_if_they_ask_for_it() -> None:
    for fields, text in (({}, "ing" * 9), ({"collapse_guard": "stop"}, "ing")):
        for stream in (False, True):
            reply = stand(says([ING] * 9, FinishReason.LENGTH), words=WORDS).complete(stream=stream, **fields)
            choices = [event["choices"][0] for event in sse(reply)] if stream else reply.json()["choices"]
            assert "".join(choice["text"] for choice in choices) == text
            assert choices[-1]["finish_reason"] == "length"
            assert choices[-1].get("stop_reason") == ("repetition_detected" if fields else None)
            assert ("x_collapse" in choices[-1]) == bool(fields)


def test_a_mode_that_is_none_is_refused_by_name() -> None:
    reply = stand().chat(collapse_guard="on")
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "collapse_guard"


def test_collapses_are_counted_by_replica_and_tier() -> None:
    this = served([65, *[ING] * 9], [66, *SENTENCE * 9], [67])
    this.chat()
    text = this.request("GET", "/metrics").text
    for line in (
        'dayzero_guarded_attempts_total{replica="0"} 3.0',
        'dayzero_collapses_total{replica="0",tier="0"} 1.0',
        'dayzero_collapses_total{replica="0",tier="1"} 1.0',
        'dayzero_collapse_recoveries_total{replica="0"} 1.0',
        'dayzero_collapse_discarded_tokens_total{replica="0"} 3.0',
    ):
        assert line in text, line


def test_the_text_of_a_loop_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    served([65, *[ING] * 9], [66, *[ING] * 9], [67, *[ING] * 9]).chat()
    assert "ing" * 3 not in json.dumps([record.__dict__ for record in caplog.records], default=str)


@pytest.mark.parametrize("max_tokens", [50, 5000])
def test_messages_and_responses_say_it_beside_why_they_ended(max_tokens: int) -> None:
    loops = [[65, *[ING] * 9], [66, *[ING] * 9], [67, *[ING] * 9]]
    asked = [{"role": "user", "content": "hi"}]
    message = served(*loops).post("/v1/messages", {"messages": asked, "max_tokens": max_tokens}).json()
    assert (message["stop_reason"], message["x_collapse"]) == ("max_tokens", LOST)
    response = served(*loops).post("/v1/responses", {"input": "hi", "max_output_tokens": 50}).json()
    assert (response["status"], response["x_collapse"]) == ("incomplete", LOST)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
