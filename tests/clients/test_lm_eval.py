"""lm-evaluation-harness against a real server: log-likelihoods and generation on a few documents.

Runs in an environment of its own: `make clients`.
"""

import json
from pathlib import Path

import pytest

pytest.importorskip("lm_eval", reason="lm-evaluation-harness has an environment of its own: make clients")

from lm_eval import simple_evaluate
from lm_eval.api.task import ConfigurableTask

from dayzero import LLM

pytestmark = [pytest.mark.model, pytest.mark.filterwarnings("default")]

CHOICES = [
    {"question": "The capital of France is", "choices": [" Paris", " London", " a banana"], "answer": 0},
    {"question": "Two plus two is", "choices": [" a river", " four", " Germany"], "answer": 1},
    {"question": "The sky on a clear day is", "choices": [" wooden", " asleep", " blue"], "answer": 2},
]
GENERATION = [
    {"question": "The capital of France is", "answer": " Paris"},
    {"question": "1, 2, 3, 4,", "answer": " 5"},
]


def task(name: str, documents: list[dict[str, object]], folder: Path, **config: object) -> ConfigurableTask:
    data = folder / f"{name}.jsonl"
    data.write_text("\n".join(map(json.dumps, documents)))
    return ConfigurableTask(
        config={
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
            "test_split": "test",
            "doc_to_text": "question",
            **config,
        }
    )


def evaluate(served: str, tokenizer_folder: Path, *tasks: ConfigurableTask) -> dict[str, object]:
    found = simple_evaluate(
        model="local-completions",
        model_args={
            "model": "SmolLM2-135M-Instruct.Q4_1",
            "base_url": f"{served}/v1/completions",
            "tokenizer_backend": "huggingface",
            "tokenizer": str(tokenizer_folder),
            "num_concurrent": 4,
            "max_retries": 1,
        },
        tasks=list(tasks),
        log_samples=True,
        bootstrap_iters=0,
    )
    assert found is not None
    return found


def test_log_likelihoods_are_those_of_the_model(
    served: str, tokenizer_folder: Path, tmp_path: Path, smollm2: Path
) -> None:
    multiple_choice = task(
        "choices",
        CHOICES,
        tmp_path,
        output_type="multiple_choice",
        doc_to_choice="choices",
        doc_to_target="answer",
        target_delimiter="",
        metric_list=[{"metric": "acc"}],
    )
    found = evaluate(served, tokenizer_folder, multiple_choice)
    assert found["results"]["choices"]["acc,none"] == 1.0  # type: ignore[index]
    llm = LLM(str(smollm2), dtype="float32", max_context=256, max_requests=2)
    for sample in found["samples"]["choices"]:  # type: ignore[index]
        for choice, response in zip(sample["doc"]["choices"], sample["filtered_resps"], strict=True):
            context = llm.tokenizer.encode_prompt(sample["doc"]["question"])
            whole = llm.tokenizer.encode_prompt(sample["doc"]["question"] + choice)
            (result,) = llm.generate(prompt_token_ids=[whole], max_tokens=1, prompt_logprobs=0)
            assert result.prompt_logprobs is not None
            expected = sum(p.logprob for p in result.prompt_logprobs[len(context) :] if p is not None)
            assert float(response[0]) == pytest.approx(expected, abs=1e-3)


def test_generation_stops_where_the_task_says(served: str, tokenizer_folder: Path, tmp_path: Path) -> None:
    generation = task(
        "generation",
        GENERATION,
        tmp_path,
        output_type="generate_until",
        doc_to_target="answer",
        generation_kwargs={"until": [",", "."], "max_gen_toks": 8, "do_sample": False},
        metric_list=[{"metric": "exact_match"}],
    )
    found = evaluate(served, tokenizer_folder, generation)
    assert found["results"]["generation"]["exact_match,none"] == 1.0  # type: ignore[index]
