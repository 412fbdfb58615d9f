"""Made-up vocabularies, and the slow and obvious BPE to compare with."""

import itertools
import unicodedata

import regex
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from dayzero.text.source import GgufVocabulary, TokenizerJson, TokenizerSource

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CALLS = ["<tool_call>", "</tool_call>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "1 2", "12 3", "Ċ Ċ", "Ã ©"]


def letters() -> list[str]:
    """GPT-2's letter for each byte, in the order of bytes."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(moved)) for byte in range(256)]


def byte_level(pre="qwen2", merges=MERGES, control=CHATML, user=CALLS, **fields) -> TokenizerSource:
    """256 bytes, what the merges make, then control and user-defined tokens."""
    tokens = [*letters(), *dict.fromkeys(merge.replace(" ", "") for merge in merges)]
    types = [1] * len(tokens) + [3] * len(control) + [4] * len(user)
    vocabulary = GgufVocabulary(
        model="gpt2", pre=pre, tokens=[*tokens, *control, *user], token_types=types, merges=merges
    )
    return wrap(vocabulary, **fields)


def sentencepiece(pieces: list[str], control=("<bos>", "<turn>"), user=(), **fields) -> TokenizerSource:
    """<unk>, control and user-defined tokens, 256 byte pieces, then pieces of falling score."""
    tokens = ["<unk>", *control, *user, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    types = [2, *[3] * len(control), *[4] * len(user), *[6] * 256, *[1] * len(pieces)]
    scores = [0.0] * (len(tokens) - len(pieces)) + [-float(rank) for rank in range(len(pieces))]
    prefix = fields.pop("add_space_prefix", False)
    vocabulary = GgufVocabulary(
        model="llama", pre="", tokens=tokens, token_types=types, scores=scores, add_space_prefix=prefix
    )
    return wrap(vocabulary, **fields)


BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece(words: list[str], added=(), more_special=()) -> TokenizerSource:
    """BERT's five special tokens, these words and pieces, and special tokens and words that were added later."""
    ids = {word: index for index, word in enumerate([*BERT_SPECIAL, *words])}
    raw = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer()
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece()
    raw.add_special_tokens(BERT_SPECIAL)
    raw.add_special_tokens(list(more_special))
    raw.add_tokens(list(added))
    raw.enable_truncation(8)
    raw.enable_padding(length=8)
    return wrap(TokenizerJson(json=raw.to_str()), add_bos=True, bos_token_id=2, after_text=(3,))


def wrap(vocabulary, *, chat_template=None, add_bos=False, bos_token_id=None, after_text=()) -> TokenizerSource:
    return TokenizerSource(
        vocabulary=vocabulary,
        chat_template=chat_template,
        add_bos=add_bos,
        bos_token_id=bos_token_id,
        after_text=after_text,
    )


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class ReferenceBpe:
    """Cut by the model's pattern, then merge the pair of lowest rank until none is left."""

    def __init__(self, source: TokenizerSource) -> None:
        self._pre = source.vocabulary.pre
        self._ids = {piece: index for index, piece in enumerate(source.vocabulary.tokens)}
        self._ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(source.vocabulary.merges)}

    def encode(self, text: str) -> list[int]:
        return [self._ids[part] for word in _words(text, self._pre) for part in self._parts(word)]

    def _parts(self, word: str) -> list[str]:
        alphabet = letters()
        parts = [alphabet[byte] for byte in word.encode()]
        if self._pre == "llama-bpe" and "".join(parts) in self._ids:
            return ["".join(parts)]
        never = len(self._ranks)
        while len(parts) > 1:
            rank, at = min((self._ranks.get(pair, never), i) for i, pair in enumerate(itertools.pairwise(parts)))
            if rank == never:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts


def _words(text: str, pre: str) -> list[str]:
    if pre == "smollm":  # every digit stands alone, then GPT-2's pattern on what lies between
        pieces = [piece for piece in regex.split(r"(\p{N})", text) if piece]
        return [word for piece in pieces for word in regex.findall(GPT2, piece)]
    if pre == "qwen2":
        return regex.findall(WORDS % "", unicodedata.normalize("NFC", text))
    return regex.findall(GPT2 if pre.startswith("gpt") else WORDS % "{1,3}", text)
