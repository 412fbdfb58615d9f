"""Encoders against transformers: hidden states of tiny seeded checkpoints, and embeddings of a real one if it is here.

all-MiniLM-L6-v2 is looked for in ~/.cache/dayzero-models/minilm, a folder as the hub has it.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as RawTokenizer
from torch import Tensor
from transformers import AutoModel

from dayzero import LLM
from dayzero.checkpoint.open import open_checkpoint
from dayzero.kernels.registry import select, select_reference
from dayzero.models.loader import load
from dayzero.models.registry import family_of
from dayzero.models.step import Step
from dayzero.workshop.bench.workloads.dataset import Question, read_rows
from tests.golden import encoder
from tests.golden.test_logits import ALLOWED, relative_error
from tests.golden.tiny import ENCODERS, VOCAB_SIZE, save

pytestmark = pytest.mark.model

DRAW = random.Random(3)
TEXTS = [DRAW.choices(range(VOCAB_SIZE), k=length) for length in (1, 160, 7, 33)]
MINILM = Path.home() / ".cache/dayzero-models/minilm"
every_encoder = pytest.mark.parametrize("name", ENCODERS)


class NoKV:
    """What an encoder may ask of a KV store."""

    def layer(self, index: int) -> Tensor:
        raise AssertionError(f"an encoder reads the KV of layer {index}")


def hidden(path: Path, dtype: torch.dtype, texts: Sequence[list[int]], *, is_reference: bool = False) -> list[Tensor]:
    """Hidden states of all texts, which are one step."""
    checkpoint = open_checkpoint(path)
    family = family_of(checkpoint.family)
    shape = family.parse(checkpoint.config)
    kernels = select_reference() if is_reference else select(dtype, shape.heads)
    weights = load(family, shape, checkpoint.tensors, dtype, kernels)
    lengths = [len(text) for text in texts]
    step = Step(
        tokens=torch.tensor([token for text in texts for token in text]),
        positions=torch.tensor([position for length in lengths for position in range(length)]),
        slots=(),
        plans=(),
        sample_at=torch.arange(sum(lengths)),
        query_starts=[0, *itertools.accumulate(lengths)],
    )
    with torch.inference_mode():
        return list(family.forward(weights, step, NoKV(), kernels).rows.float().split(lengths))


def theirs(model: torch.nn.Module, tokens: list[int]) -> Tensor:
    with torch.inference_mode():
        states: Tensor = model(torch.tensor([tokens])).last_hidden_state[0]
    return states


@every_encoder
@pytest.mark.parametrize("is_reference", [False, True], ids=["torch", "reference"])
def test_hidden_states_of_a_tiny_encoder_are_those_of_transformers(name, is_reference, tmp_path, say):
    model = save(ENCODERS[name], tmp_path)
    found = hidden(tmp_path, torch.float32, TEXTS, is_reference=is_reference)
    errors = [relative_error(ours, theirs(model, text)) for ours, text in zip(found, TEXTS, strict=True)]
    say(f"{name}: hidden states within {max(errors):.1e} of transformers")
    assert max(errors) <= ALLOWED


@every_encoder
def test_bfloat16_hidden_states_stay_near_those_of_float32(name, tmp_path):
    model = save(ENCODERS[name], tmp_path)
    for ours, text in zip(hidden(tmp_path, torch.bfloat16, TEXTS), TEXTS, strict=True):
        assert relative_error(ours, theirs(model, text)) <= 0.1


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_vectors_of_a_tiny_encoder_point_where_those_of_transformers_do(pooling, tmp_path):
    llm = LLM(str(encoder.write(tmp_path)), dtype="float32")
    model = AutoModel.from_pretrained(tmp_path, dtype=torch.float32).eval()
    texts = [text[: encoder.MAX_TOKENS] for text in TEXTS]
    for ours, text in zip(llm.embed(prompt_token_ids=texts, pooling=pooling), texts, strict=True):
        states = theirs(model, text)
        expected = {"cls": states[0], "mean": states.mean(0), "last": states[-1]}[pooling]
        assert torch.cosine_similarity(torch.tensor(ours), expected, dim=0) >= 0.9999


@pytest.fixture(scope="module")
def minilm() -> Path:
    if not MINILM.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {MINILM}")
    return next(path.parent for path in sorted(MINILM.rglob("modules.json")))


def texts() -> list[str]:
    """The first turns of MT-Bench, and texts that tokenizers differ over."""
    odd = [
        "",
        "[CLS] [SEP] [UNK]",
        "Übergröße naïve café",
        "東京 は 大きい",
        "a" * 300,
        "\u0000\u200b zero",
        "🙂 #hash ##ing",
    ]
    return [row.turns[0] for row in read_rows("mtbench.jsonl.gz", Question)] + odd


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_embeddings_of_minilm_point_where_those_of_transformers_do(
    minilm: Path, dtype: str, say: Callable[[str], None]
) -> None:
    llm = LLM(str(minilm), dtype=dtype)
    library = RawTokenizer.from_file(str(minilm / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    model = AutoModel.from_pretrained(minilm, dtype=torch.float32).eval()
    short = [text for text in texts() if len(library.encode(text).ids) <= llm.spec.max_context]
    found = torch.tensor(llm.embed(short))
    worst = 1.0
    for ours, text in zip(found, short, strict=True):
        expected = theirs(model, llm.tokenizer.encode_text(text)).mean(0)
        worst = min(worst, float(torch.cosine_similarity(ours, expected, dim=0)))
    say(f"all-MiniLM-L6-v2 in {dtype}: cosines of {len(short)} embeddings at least {worst:.6f}")
    assert worst >= 0.9999


def test_the_tokens_of_minilm_are_those_of_its_own_tokenizer(minilm: Path) -> None:
    tokenizer = LLM(str(minilm)).tokenizer
    library = RawTokenizer.from_file(str(minilm / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    for text in texts():
        if "[" not in text:
            assert tokenizer.encode_text(text) == library.encode(text).ids, text
