"""Random requests, and random ways to serve them: sizes, endpoints, company, arrival, preemption, resuming, aborts."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.wire.messages import Submit
from tests.equivalence.loaded import POLICY_VERSION, Answer, Loaded, Sizes, Traffic


@dataclass(frozen=True)
class Known:
    """A request, and its answer alone."""

    submit: Submit
    answer: Answer


def known_requests(
    loaded: Loaded, stems: Sequence[Sequence[int]], *, count: int, max_prompt: int, max_tokens: int, seed: int = 0
) -> list[Known]:
    """Requests that begin alike in part; some are choices of one API request: all but their noise is equal."""
    draw = random.Random(seed)
    result: list[Known] = []
    while len(result) < count:
        stem = draw.choice(stems)
        prompt = list(stem[: draw.choice([1, 20, max_prompt // 4, max_prompt // 2, max_prompt])])
        prompt += [draw.randrange(loaded.shape.vocab_size) for _ in range(draw.choice([0, 1, 7]))]
        params = _params(draw, loaded.shape.vocab_size, max_tokens)
        for choice in range(draw.choice([1, 1, 3])):
            submit = Submit(
                request_id=0, prompt=prompt, params=params, salt="", policy_version=POLICY_VERSION, choice=choice
            )
            result.append(Known(submit, loaded.alone(submit)))
    return result


def _params(draw: random.Random, vocab_size: int, max_tokens: int) -> SamplingParams:
    options: dict[str, Any] = {"max_tokens": draw.randint(1, max_tokens), "seed": draw.randrange(2**64)}
    options["logprobs"] = draw.choice([None, 0, 3])
    if draw.random() < 0.2:
        options["prompt_logprobs"] = draw.choice([0, 2])
    if draw.random() < 0.4:
        return SamplingParams(**options, temperature=0.0)
    options["temperature"] = draw.choice([0.5, 0.8, 1.0, 1.5])
    options |= draw.choice([{}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.05}, {"top_k": 40, "top_p": 0.8}])
    options |= draw.choice(
        [{}, {"presence_penalty": 1.0, "frequency_penalty": 0.5}, {"repetition_penalty": 1.3}, {"logit_bias": {5: 9.0}}]
    )
    stops = tuple(draw.randrange(vocab_size) for _ in range(vocab_size // 20 if vocab_size < 1000 else 0))
    options |= draw.choice([{}, {"ignore_eos": True}, {"min_tokens": options["max_tokens"]}, {"stop_token_ids": stops}])
    if draw.random() < 0.3:
        options["banned_tokens"] = tuple(draw.randrange(vocab_size) for _ in range(vocab_size // 4))
        options["banned_until"] = draw.randint(1, max_tokens)
    return SamplingParams(**options)


def random_sizes(draw: random.Random, loaded: Loaded, longest: int) -> Sizes:
    """Half of the engines have hardly more blocks than the longest request needs."""
    block_size = draw.choice(loaded.block_sizes)
    is_tight = draw.random() < 0.5
    num_blocks = []
    for group in loaded.groups:
        need = -(-longest // block_size)
        if group.window is not None:
            need = min(need, -(-group.window // block_size) + 1)
        num_blocks.append(1 + need + (draw.randint(0, 2) if is_tight else 5 * need))
    max_requests = draw.choice([1, 3, 8])
    return Sizes(
        num_blocks=tuple(num_blocks),
        block_size=block_size,
        prefix_cache=draw.random() < 0.7,
        max_step_tokens=draw.choice([8, 17, 64, 129, 512]),
        max_requests=max_requests,
    )


def serve(loaded: Loaded, kinds: Sequence[Sequence[Known]], *, seed: int, most: int = 10) -> Counter[str]:
    """Serve requests of one kind or of all in some way, and compare each answer with that alone.

    Returns what happened on the way.
    """
    draw = random.Random(seed)
    kind = draw.choice([*kinds, [one for kind in kinds for one in kind]])
    chosen = [draw.choice(kind) for _ in range(draw.randint(2, most))]
    longest = max(len(one.submit.prompt) + one.submit.params.max_tokens for one in chosen)
    sizes = random_sizes(draw, loaded, longest)
    endpoints = draw.choice([("",), ("",), ("short", "long")])
    traffic = Traffic(loaded.engine(sizes, endpoints))
    expected: dict[int, Answer] = {}
    waiting = sorted(((draw.choice([0, 0, 3, 9, 20]), i, one) for i, one in enumerate(chosen)), key=lambda w: w[:2])
    aborts = {draw.randrange(len(chosen)): draw.randint(1, 12)} if draw.random() < 0.5 else {}
    happened: Counter[str] = Counter()
    step = 0
    while waiting or traffic.engine.has_work:
        while waiting and waiting[0][0] <= step:
            _, request_id, one = waiting.pop(0)
            committed = draw.randrange(len(one.answer.tokens)) if draw.random() < 0.3 else 0
            priority, endpoint = draw.choice([0, 0, 1, 2]), draw.choice(endpoints)
            traffic.submit(_submit(one, request_id, committed, priority=priority, endpoint=endpoint))
            expected[request_id] = one.answer.after(committed)
            happened["resumed"] += committed > 0
            happened["at one endpoint of two"] += len(endpoints) > 1
        for request_id in [i for i, at in aborts.items() if at == step and i in expected]:
            traffic.engine.abort(request_id)
        traffic.step()
        step += 1
    for request_id, answer in traffic.answers().items():
        where = f"seed {seed}, request {request_id}, {sizes}"
        if answer.finish is FinishReason.ABORT:
            happened["aborted"] += 1
            assert answer.tokens == expected[request_id].tokens[: len(answer.tokens)], where
        else:
            assert answer == expected[request_id], where
    return happened + Counter(
        requests=len(chosen), preempted=traffic.load.preemptions, hit=traffic.load.prefix_hit_tokens, steps=step
    )


def _submit(one: Known, request_id: int, committed: int, *, priority: int, endpoint: str) -> Submit:
    return Submit(
        request_id=request_id,
        prompt=one.submit.prompt,
        params=one.submit.params,
        salt="tenant",
        policy_version=POLICY_VERSION,
        committed=list(one.answer.tokens[:committed]),
        choice=one.submit.choice,
        priority=priority,
        endpoint=endpoint,
    )
