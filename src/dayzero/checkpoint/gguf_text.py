"""The tokenizer of a GGUF file, as plain values.

Knows which keys there are, not what a pre-tokenizer does: an unknown one is refused by `text`, which has to build it.
"""

from dayzero.checkpoint.gguf import GgufArray, GgufFile
from dayzero.errors import CheckpointError
from dayzero.text.source import GgufVocabulary, TokenizerSource

# Control tokens that end a text or a turn. Files rarely list them all; whatever generates one of these has finished.
_END_TOKENS = frozenset({b"<|im_end|>", b"<|eot_id|>", b"<end_of_turn>", b"<|endoftext|>"})
_CONTROL = 3

# Pre-tokenizers whose models start every text with BOS when the file does not say so.
_BOS_BY_DEFAULT = frozenset({"llama-bpe", "llama3", "llama-v3"})

_NAMED = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}


def read_tokenizer(file: GgufFile) -> TokenizerSource:
    """Decode the vocabulary: 0.05 s for 49,152 tokens."""
    if "tokenizer.ggml.tokens" not in file.values:
        raise CheckpointError(
            f"missing tokenizer in {file.path}: no key tokenizer.ggml.tokens",
            hint="convert the model again with its vocabulary",
        )
    vocabulary = _vocabulary(file)
    bos = _token_id(file, "bos", len(vocabulary.tokens))
    by_default = vocabulary.model == "llama" or vocabulary.pre in _BOS_BY_DEFAULT
    template = file.text("tokenizer.chat_template") if "tokenizer.chat_template" in file.values else None
    named = {f"{name}_token": _token_id(file, key, len(vocabulary.tokens)) for key, name in _NAMED.items()}
    return TokenizerSource(
        vocabulary=vocabulary,
        chat_template=template,
        add_bos=bos is not None and file.flag("tokenizer.ggml.add_bos_token", default=by_default),
        bos_token_id=bos,
        named_tokens={name: vocabulary.tokens[index] for name, index in named.items() if index is not None},
    )


def read_end_ids(file: GgufFile) -> tuple[int, ...]:
    """Every id that ends a generation, without decoding the vocabulary."""
    tokens = file.values.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, GgufArray):
        return ()
    ids = {_token_id(file, name, tokens.count) for name in ("eos", "eot", "eom")} - {None}
    types = file.numbers("tokenizer.ggml.token_type", int) if "tokenizer.ggml.token_type" in file.values else []
    for index in file.find_strings("tokenizer.ggml.tokens", _END_TOKENS):
        if index < len(types) and types[index] == _CONTROL:
            ids.add(index)
    return tuple(sorted(index for index in ids if index is not None))


def _vocabulary(file: GgufFile) -> GgufVocabulary:
    tokens = file.strings("tokenizer.ggml.tokens")
    types_key = "tokenizer.ggml.token_type"
    types = [int(kind) for kind in file.numbers(types_key, int)] if types_key in file.values else [1] * len(tokens)
    scores: list[float] = []
    if "tokenizer.ggml.scores" in file.values:
        scores = [float(score) for score in file.numbers("tokenizer.ggml.scores", float)]
    if len(types) != len(tokens) or len(scores) not in (0, len(tokens)):
        raise CheckpointError(
            f"vocabulary of {file.path}: {len(tokens)} tokens, {len(types)} types, {len(scores)} scores"
        )
    return GgufVocabulary(
        model=file.text("tokenizer.ggml.model"),
        pre=file.text("tokenizer.ggml.pre", ""),
        tokens=tokens,
        token_types=types,
        merges=file.strings("tokenizer.ggml.merges") if "tokenizer.ggml.merges" in file.values else [],
        scores=scores,
        add_space_prefix=file.flag(
            "tokenizer.ggml.add_space_prefix", default=file.text("tokenizer.ggml.model") == "llama"
        ),
    )


def _token_id(file: GgufFile, name: str, num_tokens: int) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    if key not in file.values:
        return None
    index = file.integer(key)
    if not 0 <= index < num_tokens:
        raise CheckpointError(f"token id of {file.path}: {key} is {index} of {num_tokens} tokens")
    return index
