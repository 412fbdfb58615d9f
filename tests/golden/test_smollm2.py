"""The embedded model in float32 against transformers: its logits, and greedy continuations of real prompts.

A greedy token must be transformers' likeliest too, in one forward pass over prompt and continuation; where the two
likeliest logits are closer than 1e-4, either is right, for float32 promises no more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import torch
from transformers import LlamaForCausalLM

from dayzero import LLM
from dayzero.workshop.bench.workloads.dataset import Question, read_rows
from tests.golden import smollm2 as oracle
from tests.golden.forward import Model

pytestmark = pytest.mark.model

ALLOWED = 2e-4  # of logits, relative
TIE = 1e-4  # between the two likeliest logits
NEW_TOKENS = 64


class Problem(msgspec.Struct):
    """A row of HumanEval."""

    prompt: str


def prompts() -> list[str]:
    """All 164 of HumanEval and the 80 first turns of MT-Bench."""
    code = [row.prompt for row in read_rows("humaneval.jsonl.gz", Problem)]
    return code + [row.turns[0] for row in read_rows("mtbench.jsonl.gz", Question)]


@pytest.fixture(scope="module")
def theirs(smollm2: Path) -> LlamaForCausalLM:
    return oracle.load(smollm2)


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> LLM:
    return LLM(str(smollm2), dtype="float32", max_context=2048, max_requests=16)


def test_logits_are_those_of_transformers(
    smollm2: Path, theirs: LlamaForCausalLM, llm: LLM, say: Callable[[str], None]
) -> None:
    model = Model(smollm2, torch.float32)
    worst = 0.0
    for prompt in prompts()[::61]:
        tokens = llm.tokenizer.encode_prompt(prompt)
        first = len(tokens) // 2
        ours = model.logits(tokens, [first, len(tokens) - first - 1, 1])
        with torch.inference_mode():
            expected = theirs(torch.tensor([tokens])).logits[0]
        worst = max(worst, float((ours - expected).abs().max() / expected.abs().max()))
    say(f"SmolLM2: logits within {worst:.1e} of transformers")
    assert worst <= ALLOWED


@dataclass(frozen=True)
class Verdict:
    """Of the tokens of one continuation."""

    likeliest: int
    ties: int
    wrong: tuple[int, ...]  # their places


def judge(theirs: LlamaForCausalLM, prompt: list[int], continuation: list[int]) -> Verdict:
    """One teacher-forced pass."""
    with torch.inference_mode():
        logits = theirs(torch.tensor([prompt + continuation])).logits[0, len(prompt) - 1 : -1]
    top = logits.topk(2, dim=-1)
    ours = torch.tensor(continuation)
    is_likeliest = top.indices[:, 0] == ours
    is_tie = ~is_likeliest & (top.indices[:, 1] == ours) & (top.values[:, 0] - top.values[:, 1] < TIE)
    wrong = (~is_likeliest & ~is_tie).nonzero().flatten().tolist()
    return Verdict(int(is_likeliest.sum()), int(is_tie.sum()), tuple(wrong))


def check_continuations(llm: LLM, theirs: LlamaForCausalLM, texts: list[str], say: Callable[[str], None]) -> None:
    ids = [llm.tokenizer.encode_prompt(text) for text in texts]
    results = llm.generate(prompt_token_ids=ids, max_tokens=NEW_TOKENS, temperature=0.0)
    assert all(len(r.token_ids) == NEW_TOKENS or r.token_ids[-1] in llm.spec.eos_token_ids for r in results)
    verdicts = [judge(theirs, prompt, r.token_ids) for prompt, r in zip(ids, results, strict=True)]
    likeliest, ties = sum(v.likeliest for v in verdicts), sum(v.ties for v in verdicts)
    say(f"SmolLM2: {len(texts)} greedy continuations, {likeliest} tokens are the likeliest of transformers, {ties} tie")
    assert [(i, v.wrong) for i, v in enumerate(verdicts) if v.wrong] == []


def test_greedy_continuations_are_those_of_transformers(
    llm: LLM, theirs: LlamaForCausalLM, say: Callable[[str], None]
) -> None:
    check_continuations(llm, theirs, prompts()[::16], say)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_greedy_continuations_are_those_of_transformers(
    llm: LLM, theirs: LlamaForCausalLM, say: Callable[[str], None]
) -> None:
    check_continuations(llm, theirs, prompts(), say)
