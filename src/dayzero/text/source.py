"""What a checkpoint says about its tokenizer: plain values, so that a reader of files need not know tokenizers."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerJson:
    """A Hugging Face tokenizer.json."""

    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufVocabulary:
    """The `tokenizer.ggml.*` keys of a GGUF file.

    model         "gpt2" (byte-level BPE with merges) or "llama" (SentencePiece: scores instead of merges)
    pre           which pre-tokenizer; "" for SentencePiece
    token_types   1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
    """

    model: str
    pre: str
    tokens: list[str]
    token_types: list[int]
    merges: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    add_space_prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSource:
    """Everything the text side needs of a checkpoint.

    vocabulary       how text becomes tokens
    chat_template    Jinja source, or None: the model has no chat form
    add_bos          whether a raw prompt starts with `bos_token_id`; a rendered chat never gets a second one
    after_text       ids that the tokenizer itself puts behind a text: BERT's separator
    named_tokens     `bos_token`, `eos_token`, ... as templates see them
    """

    vocabulary: TokenizerJson | GgufVocabulary
    chat_template: str | None
    add_bos: bool
    bos_token_id: int | None
    named_tokens: dict[str, str] = field(default_factory=dict)
    after_text: tuple[int, ...] = ()
