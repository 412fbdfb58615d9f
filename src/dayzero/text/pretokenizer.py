"""The pre-tokenizers that a GGUF file names in `tokenizer.ggml.pre`.

A pre-tokenizer decides where byte-level BPE may not merge. A wrong one looks fine and costs quality silently, so a
name that is not in the table is refused, and so is "default", which only says that whoever wrote the file did not know.

Sources: the patterns are those of the models' own tokenizer.json files.
"""

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

from dayzero.errors import UnsupportedModel

# Contractions, then words with one leading mark, digits ({digits} at a time), punctuation, line ends, other blanks.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """How text is cut before byte-level BPE.

    ignore_merges   a piece that is a token as a whole is that token, even if no merges lead to it
    """

    split: pre_tokenizers.PreTokenizer
    normalizer: normalizers.Normalizer | None = None
    ignore_merges: bool = False


def _gpt2() -> PreTokenizer:
    return PreTokenizer(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))


def _smollm() -> PreTokenizer:
    digits = pre_tokenizers.Digits(individual_digits=True)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return PreTokenizer(pre_tokenizers.Sequence([digits, gpt2]))


def _words(digits: str) -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(Regex(_WORDS.format(digits=digits)), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _qwen2() -> PreTokenizer:
    """Normalizes to NFC, as the model's own tokenizer does (llama.cpp does not): accented letters that a client sends
    decomposed become the tokens that the model was trained on, at the price that decode(encode(s)) is NFC of s."""
    return PreTokenizer(_words(""), normalizer=normalizers.NFC())


def _llama3() -> PreTokenizer:
    return PreTokenizer(_words("{1,3}"), ignore_merges=True)


_KNOWN = {"gpt-2": _gpt2, "gpt2": _gpt2, "llama-bpe": _llama3, "qwen2": _qwen2, "smollm": _smollm}


def pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name; raises UnsupportedModel, listing those that are known."""
    build = _KNOWN.get(name)
    if build is None:
        raise UnsupportedModel(
            f"unknown pre-tokenizer: {name or '(none)'}",
            hint=f"known: {', '.join(sorted(_KNOWN))}; a folder with a tokenizer.json needs no name",
        )
    return build()
