"""From a checkpoint's vocabulary to the two `tokenizers.Tokenizer` objects and the classes of tokens.

`marked` parses every added token in a text; `plain` parses none that could steer the model. Two objects, because the
library's switch for this is mutable, shared, and misses user-defined tokens such as Qwen's `</tool_call>`. Both share
one model, so the second costs nothing.

    control        steers the model and is not text: skipped in output
    user-defined   byte-level vocabularies got theirs after training, as markup; SentencePiece trained with its own, as
                   text (runs of blanks, HTML tags), so there they are markup only if the chat template writes them
"""

import enum
import re
from dataclasses import dataclass

import msgspec
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from dayzero.errors import CheckpointError, UnsupportedModel
from dayzero.text.pretokenizer import pretokenizer
from dayzero.text.source import GgufVocabulary, TokenizerJson, TokenizerSource

UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6  # tokenizer.ggml.token_type

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BLANK = "▁"  # how SentencePiece writes a space
_WITHIN = "##"  # how WordPiece begins a piece within a word


class Spelling(enum.Enum):
    """How pieces are written."""

    BYTES = "ByteLevel"  # in GPT-2's alphabet of bytes
    BLANKS = "ByteFallback"  # SentencePiece, with byte pieces
    WORDS = "WordPiece"  # BERT: what goes on within a word has a prefix, and blanks are lost


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What `Tokenizer` is made of.

    markup           text of each token that content must never become, and its id
    literal          ids of added tokens: their bytes are their text
    unused           ids that fill the table up and stand for nothing
    """

    marked: Tokenizer
    plain: Tokenizer
    markup: dict[str, int]
    control: frozenset[int]
    literal: frozenset[int]
    unused: frozenset[int]
    spelling: Spelling


def build(source: TokenizerSource) -> Vocabulary:
    """Raises UnsupportedModel for a kind that is not known, CheckpointError for one that contradicts itself."""
    template = source.chat_template or ""
    if isinstance(source.vocabulary, TokenizerJson):
        return _from_json(source.vocabulary, template)
    return _from_gguf(source.vocabulary, template)


class _Added(msgspec.Struct):
    id: int
    content: str
    special: bool = False
    normalized: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False

    def token(self) -> AddedToken:
        return AddedToken(
            self.content,
            special=self.special,
            normalized=self.normalized,
            single_word=self.single_word,
            lstrip=self.lstrip,
            rstrip=self.rstrip,
        )


class _Json(msgspec.Struct):
    """The parts of a tokenizer.json that the library does not hand out."""

    added_tokens: list[_Added] = []
    decoder: msgspec.Raw = msgspec.Raw(b"null")


def _from_json(source: TokenizerJson, template: str) -> Vocabulary:
    try:
        marked = Tokenizer.from_str(source.json)
        parts = msgspec.json.decode(source.json, type=_Json)
    except Exception as error:
        raise CheckpointError(f"unreadable tokenizer.json: {error}", hint="download the model again") from error
    decoder = bytes(parts.decoder)
    spelling = next((one for one in Spelling if f'"{one.value}"'.encode() in decoder), None)
    if spelling is None:
        known = ", ".join(one.value for one in Spelling)
        raise UnsupportedModel("unknown kind of tokenizer.json", hint=f"known decoders: {known}")
    marked.no_truncation()
    marked.no_padding()
    added = parts.added_tokens
    unknown = _unknown_word(marked) if spelling is Spelling.WORDS else None
    return _assemble(
        marked,
        [a.token() for a in added],
        [a.id for a in added],
        template=template,
        spelling=spelling,
        unknown=unknown,
    )


def _unknown_word(tokenizer: Tokenizer) -> str:
    """What WordPiece makes of a word that it cannot spell."""
    model = tokenizer.model
    if not isinstance(model, models.WordPiece) or model.continuing_subword_prefix != _WITHIN:
        raise UnsupportedModel("unknown kind of WordPiece", hint=f"known: pieces within a word begin with {_WITHIN}")
    unknown: str = model.unk_token
    return unknown


def _from_gguf(source: GgufVocabulary, template: str) -> Vocabulary:
    count = len(source.tokens)
    if len(source.token_types) != count:
        raise CheckpointError(f"tokenizer: {len(source.token_types)} token types for {count} tokens")
    if source.model == "gpt2":
        marked = _byte_level(source)
    elif source.model == "llama":
        marked = _sentencepiece(source)
    else:
        raise UnsupportedModel(f"unknown tokenizer model: {source.model}", hint="known: gpt2, llama")
    spelling = Spelling.BYTES if source.model == "gpt2" else Spelling.BLANKS
    added, ids = [], []
    for index, kind in enumerate(source.token_types):
        if kind in (UNKNOWN, CONTROL, USER_DEFINED) and source.tokens[index]:
            # SentencePiece looks for its user-defined pieces after blanks were rewritten.
            normalized = kind == USER_DEFINED and spelling is Spelling.BLANKS
            added.append(AddedToken(source.tokens[index], special=kind != USER_DEFINED, normalized=normalized))
            ids.append(index)
    marked.add_tokens(added)
    unused = frozenset(index for index, kind in enumerate(source.token_types) if kind == UNUSED)
    return _assemble(marked, added, ids, template=template, spelling=spelling, unused=unused)


def _byte_level(source: GgufVocabulary) -> Tokenizer:
    pre = pretokenizer(source.pre)
    merges = [_pair(merge) for merge in source.merges]
    try:
        model = models.BPE(_ids(source), merges, ignore_merges=pre.ignore_merges)
    except Exception as error:
        raise CheckpointError(f"tokenizer: merges do not fit the vocabulary: {error}") from error
    tokenizer = Tokenizer(model)
    if pre.normalizer is not None:
        tokenizer.normalizer = pre.normalizer
    tokenizer.pre_tokenizer = pre.split
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pair(merge: str) -> tuple[str, str]:
    left, blank, right = merge.partition(" ")
    if not (left and blank and right):
        raise CheckpointError("tokenizer: a merge that is not two pieces", hint="download the model again")
    return left, right


def _ids(source: GgufVocabulary) -> dict[str, int]:
    ids = {piece: index for index, piece in enumerate(source.tokens)}
    if len(ids) != len(source.tokens):
        raise CheckpointError(f"tokenizer: {len(source.tokens) - len(ids)} tokens occur twice")
    return ids


def _sentencepiece(source: GgufVocabulary) -> Tokenizer:
    if len(source.scores) != len(source.tokens):
        raise CheckpointError(f"tokenizer: {len(source.scores)} scores for {len(source.tokens)} tokens")
    unknown = next((t for t, kind in zip(source.tokens, source.token_types, strict=True) if kind == UNKNOWN), None)
    model = models.BPE(_ids(source), _merges(source), unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    blanks: list[normalizers.Normalizer] = [normalizers.Replace(" ", _BLANK)]
    if source.add_space_prefix:
        blanks.insert(0, normalizers.Prepend(_BLANK))
    tokenizer.normalizer = normalizers.Sequence(blanks)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(_BLANK, " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _merges(source: GgufVocabulary) -> list[tuple[str, str]]:
    """Every way to join two pieces into a third, the best score first: SentencePiece's order as BPE merges.

    Only pieces of text take part, so that no merge ever spells a control token.
    """
    scores = {
        piece: score
        for piece, score, kind in zip(source.tokens, source.scores, source.token_types, strict=True)
        if kind in (1, USER_DEFINED)
    }
    return [
        (piece[:cut], piece[cut:])
        for piece in sorted(scores, key=scores.__getitem__, reverse=True)
        for cut in range(len(piece) - 1, 0, -1)
        if piece[:cut] in scores and piece[cut:] in scores
    ]


def _assemble(
    marked: Tokenizer,
    added: list[AddedToken],
    ids: list[int],
    *,
    template: str,
    spelling: Spelling,
    unused: frozenset[int] = frozenset(),
    unknown: str | None = None,
) -> Vocabulary:
    """unknown: an added token that stands for what cannot be spelt, so that text does become it"""
    markup: dict[str, int] = {}
    text_tokens: dict[str, int] = {}
    plain_tokens: list[AddedToken] = []
    num_pieces = marked.get_vocab_size(with_added_tokens=False)
    for index, token in sorted(zip(ids, added, strict=True), key=lambda pair: pair[0]):
        if marked.token_to_id(token.content) != index:
            raise CheckpointError(f"tokenizer: an added token has two ids: {index}", hint="download the model again")
        if token.content == unknown:
            continue
        if _is_markup(token, template, spelling):
            markup[token.content] = index
            if index >= num_pieces:  # the library counts on from those: without it, what follows had other ids
                plain_tokens.append(AddedToken(f"\ufffe{index}\uffff", normalized=False))
        else:
            text_tokens[token.content] = index
            plain_tokens.append(token)
    plain = Tokenizer(marked.model)
    if marked.normalizer is not None:
        plain.normalizer = marked.normalizer
    if marked.pre_tokenizer is not None:
        plain.pre_tokenizer = marked.pre_tokenizer
    plain.add_tokens(plain_tokens)
    if any(plain.token_to_id(content) != index for content, index in text_tokens.items()):
        raise CheckpointError("tokenizer: added tokens without ids of their own", hint="download the model again")
    return Vocabulary(
        marked=marked,
        plain=plain,
        markup=markup,
        control=frozenset(index for token, index in zip(added, ids, strict=True) if token.special),
        literal=frozenset(ids),
        unused=unused,
        spelling=spelling,
    )


def _is_markup(token: AddedToken, template: str, spelling: Spelling) -> bool:
    if token.special:
        return True
    if len(token.content) == 1:
        return False  # one character cannot be spelt in any other way
    if spelling is Spelling.WORDS:
        return False  # words that were added to an encoder's
    return spelling is Spelling.BYTES or (bool(token.content.strip(f"{_BLANK} \n\t\r")) and token.content in template)


def piece_bytes(piece: str, spelling: Spelling) -> bytes:
    """The bytes that an ordinary piece stands for: a word with the blank before it, since it usually has one."""
    if spelling is Spelling.WORDS:
        return (piece.removeprefix(_WITHIN) if piece.startswith(_WITHIN) else f" {piece}").encode()
    if spelling is Spelling.BYTES:
        try:
            return bytes(map(_BYTES.__getitem__, piece))
        except KeyError:
            return piece.encode()
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_BLANK, " ").encode()


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's letters for the 256 bytes: printable Latin-1 as itself, the rest moved above U+0100 in order."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


_BYTES = _byte_alphabet()
