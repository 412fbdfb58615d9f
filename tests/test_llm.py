"""The in-process API on the embedded model."""

import contextlib
import json
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from dayzero import LLM
from dayzero.errors import CheckpointError, ConfigError, ContextTooLong, RequestError

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> LLM:
    return LLM(str(smollm2), max_context=512, max_requests=8)


def test_a_real_model_says_something_true(llm: LLM) -> None:
    (result,) = llm.generate("The capital of France is", max_tokens=3, temperature=0.0)
    assert result.text.startswith(" Paris")
    assert result.finish_reason == "length"
    assert len(result.token_ids) == 3


def test_text_and_token_ids_are_the_same_prompt(llm: LLM) -> None:
    text = "def fib(n):"
    ids = llm.tokenizer.encode_prompt(text)
    (by_text,) = llm.generate([text], max_tokens=8, temperature=0.0)
    (by_ids,) = llm.generate(prompt_token_ids=[ids], max_tokens=8, temperature=0.0)
    assert by_text.token_ids == by_ids.token_ids
    assert by_text.prompt_token_ids == ids
    assert by_text.text == llm.tokenizer.decode(by_text.token_ids)


def test_results_come_in_the_order_of_the_prompts_and_their_choices(llm: LLM) -> None:
    results = llm.generate(["One", "Two"], n=2, max_tokens=6, seed=5, temperature=1.0)
    assert [result.choice for result in results] == [0, 1, 0, 1]
    assert results[0].prompt_token_ids == results[1].prompt_token_ids != results[2].prompt_token_ids
    assert results[0].token_ids != results[1].token_ids


def test_a_seed_gives_the_same_text_alone_and_in_company(llm: LLM) -> None:
    alone = llm.generate("Once upon a time", max_tokens=12, seed=7, temperature=1.0)
    together = llm.generate(["Once upon a time", "Never", "In a hole"], max_tokens=12, seed=7, temperature=1.0)
    assert together[0].token_ids == alone[0].token_ids


def test_a_conversation_is_answered_until_the_model_ends_it(llm: LLM) -> None:
    (result,) = llm.chat(
        [{"role": "user", "content": "What is the capital of Germany? Answer briefly."}], max_tokens=40, temperature=0.0
    )
    assert "Berlin" in result.text
    assert result.finish_reason == "stop"
    assert result.token_ids[-1] in llm.spec.eos_token_ids
    assert "<|im_end|>" not in result.text


def test_a_stream_is_the_result_in_pieces(llm: LLM) -> None:
    deltas = list(llm.stream("The capital of France is", max_tokens=8, temperature=0.0))
    (whole,) = llm.generate("The capital of France is", max_tokens=8, temperature=0.0)
    assert "".join(delta.text for delta in deltas) == whole.text
    assert len(deltas) > 1
    assert [delta.finish for delta in deltas if delta.finish] == ["length"]


def test_streams_that_are_read_alternately_do_not_disturb_each_other(llm: LLM) -> None:
    prompts = ("The capital of France is", "def fib(n):")
    streams = [llm.stream(prompt, max_tokens=6, temperature=0.0) for prompt in prompts]
    texts = ["", ""]
    for pair in zip(*streams, strict=True):
        texts = [text + delta.text for text, delta in zip(texts, pair, strict=True)]
    assert texts == [result.text for result in llm.generate(list(prompts), max_tokens=6, temperature=0.0)]


def test_leaving_a_stream_frees_what_it_held(llm: LLM) -> None:
    stream = llm.stream("Once upon a time", max_tokens=400, temperature=0.0)
    next(stream)
    stream.close()
    llm.generate("x", max_tokens=1)
    assert not llm._engine.has_work
    assert llm._engine._endpoints.load().kv_blocks_used == 0


def test_an_interrupt_wherever_it_comes_leaves_nothing_in_the_engine(llm: LLM) -> None:
    def answer() -> str:
        return "".join(delta.text for delta in llm.stream("One, two,", max_tokens=3, temperature=0.0))

    expected = answer()
    num_calls = calls_until_interrupted(answer, at=0)
    num_interrupted = 0
    for at in range(1, num_calls, num_calls // 60):
        with contextlib.suppress(KeyboardInterrupt):
            calls_until_interrupted(answer, at=at)
            num_interrupted -= 1
        num_interrupted += 1
        assert not llm._engine._endpoints.has_work, at
        assert llm._engine._endpoints.load().kv_blocks_used == 0, at
    assert num_interrupted > 50
    assert answer() == expected


def calls_until_interrupted(work: Callable[[], object], *, at: int) -> int:
    """Press Ctrl-C at the given call of a Python function, if there are so many; returns how many there were."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"
        if calls == at:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, before)
    return calls


def test_an_interrupt_in_another_thread_than_the_first_is_none_of_its_business(llm: LLM) -> None:
    with ThreadPoolExecutor(1) as threads:
        (result,) = threads.submit(llm.generate, "The capital of France is", max_tokens=1, temperature=0.0).result()
    assert result.text == " Paris"


def test_a_stop_string_ends_the_text_and_the_tokens_with_it(llm: LLM) -> None:
    (result,) = llm.generate("The capital of France is", max_tokens=20, temperature=0.0, stop=["."])
    assert result.text == " Paris"
    assert result.finish_reason == "stop"
    assert llm.tokenizer.decode(result.token_ids) == " Paris."


def test_log_probabilities_belong_to_their_tokens(llm: LLM) -> None:
    (result,) = llm.generate("The capital of France is", max_tokens=4, temperature=0.0, logprobs=2, prompt_logprobs=1)
    assert result.logprobs is not None
    assert [logprob.token for logprob in result.logprobs] == result.token_ids
    assert all(logprob.top[0][0] == logprob.token and logprob.rank == 1 for logprob in result.logprobs)
    assert result.prompt_logprobs is not None
    assert result.prompt_logprobs[0] is None
    assert [p.token for p in result.prompt_logprobs[1:] if p] == result.prompt_token_ids[1:]


def test_what_cannot_be_asked_is_refused_by_name(llm: LLM) -> None:
    with pytest.raises(RequestError, match="either prompts or prompt_token_ids"):
        llm.generate()
    with pytest.raises(RequestError, match="temperature"):
        llm.generate("x", temperature=-1.0)
    with pytest.raises(ContextTooLong, match="512"):
        llm.generate(prompt_token_ids=[[1] * 513])
    with pytest.raises(RequestError, match="vocabulary"):
        llm.generate(prompt_token_ids=[[10**6]], max_tokens=1)
    with pytest.raises(RequestError, match="empty"):
        llm.generate(prompt_token_ids=[[]], max_tokens=1)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": "2"}, "n"),
        ({"max_tokens": 5.5}, "max_tokens"),
        ({"stop": 5}, "stop"),
        ({"seed": 2**64}, "seed"),
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"stream": True}, "stream"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_an_option_of_a_wrong_kind_is_refused_by_name(llm: LLM, options: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        llm.generate("x", **options)
    assert caught.value.param == param


@pytest.mark.parametrize("prompts", [5, [[["a"]]], [b"ab"], [5.5], [None], "", [[]], [[5.5]]])
def test_what_is_no_prompt_is_refused(llm: LLM, prompts: Any) -> None:
    with pytest.raises(RequestError):
        llm.generate(prompts, max_tokens=1)
    with pytest.raises(RequestError):
        llm.chat(["hi"])  # type: ignore[list-item]
    assert llm.generate("x", max_tokens=1)[0].finish_reason == "length"


def test_one_prompt_may_be_given_as_token_ids_of_any_kind(llm: LLM) -> None:
    (plain,) = llm.generate([504, 3575], max_tokens=2, temperature=0.0)
    (array,) = llm.generate(prompt_token_ids=[np.array([504, 3575])], max_tokens=2, temperature=0.0)
    assert plain == array
    assert {type(token) for token in array.prompt_token_ids} == {int}


def test_no_number_of_prompts_is_too_many(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayzero.llm.MAX_SUBMITTED", 3)
    results = llm.generate([f"{number}" for number in range(10)], max_tokens=2, temperature=0.0)
    assert [result.text for result in results] == [
        llm.generate(f"{number}", max_tokens=2, temperature=0.0)[0].text for number in range(10)
    ]
    with pytest.raises(ContextTooLong):
        llm.generate(prompt_token_ids=[[5]] * 10 + [[5] * 513])
    assert llm.generate("x", max_tokens=1)[0].finish_reason == "length"


def test_a_model_that_is_not_there_says_what_to_name() -> None:
    with pytest.raises(ConfigError, match="no such model"):
        LLM("./nowhere")
    with pytest.raises((ConfigError, CheckpointError), match="nobody/nothing"):
        LLM("nobody/nothing", offline=True)


def test_what_is_wanted_binds_every_output(llm: LLM) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {**schema, "additionalProperties": False}}}
    ask = [{"role": "user", "content": "Where is the Eiffel Tower?"}]
    (result,) = llm.chat(ask, response_format=wanted, max_tokens=40, temperature=0.0)
    assert "Paris" in json.loads(result.text)["city"]
    chosen = llm.generate(["Rain is", "Fire is"], structured_outputs={"choice": ["wet", "hot"]}, n=2, seed=1)
    assert {result.text for result in chosen} <= {"wet", "hot"}
    assert {result.finish_reason for result in chosen} == {"stop"}
    bound = {"structured_outputs": {"grammar": 'root ::= "x" [0-9]\n'}}
    told = "".join(delta.text for delta in llm.stream("A", **bound))  # type: ignore[arg-type]
    assert told[0] == "x"
    assert told[1].isdigit()


def test_what_cannot_bind_is_refused(llm: LLM) -> None:
    with pytest.raises(RequestError, match="uniqueItems"):
        llm.generate("A", structured_outputs={"json": {"type": "array", "uniqueItems": True}})
    with pytest.raises(RequestError, match="min_tokens"):
        llm.generate("A", structured_outputs={"regex": "a+"}, min_tokens=4, max_tokens=8)
