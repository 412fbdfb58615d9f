"""A whole folder of a tiny encoder, as sentence-transformers has it: weights, tokenizer, pooling and length."""

import json
from pathlib import Path

from dayzero.text.source import TokenizerJson
from tests.golden.tiny import ENCODERS, save
from tests.text.vocabularies import wordpiece

WORDS = ["hello", "world", "good", "morn", "##ing", "!", "[", "]"]
MAX_TOKENS = 64


def write(folder: Path) -> Path:
    """Pooled by its first token, which no default is."""
    save(ENCODERS["bert"], folder)
    vocabulary = wordpiece(WORDS).vocabulary
    assert isinstance(vocabulary, TokenizerJson)
    tokenizer = json.loads(vocabulary.json)
    tokenizer["post_processor"] = {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
    files = {
        "tokenizer.json": tokenizer,
        "modules.json": [
            {"type": "sentence_transformers.models.Transformer", "path": ""},
            {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        ],
        "1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        "sentence_bert_config.json": {"max_seq_length": MAX_TOKENS, "do_lower_case": False},
    }
    (folder / "1_Pooling").mkdir()
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder
