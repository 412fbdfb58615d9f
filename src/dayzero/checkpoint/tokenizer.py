"""The tokenizer files of a Hugging Face folder, as plain values. Does not know how a tokenizer works."""

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from dayzero.checkpoint.config import MAX_TOKEN_ID, token_ids
from dayzero.checkpoint.mapping import read_json_object, read_text
from dayzero.errors import CheckpointError, UnsupportedModel
from dayzero.text.source import TokenizerJson, TokenizerSource

_JSON = "tokenizer.json"
_CONFIG = "tokenizer_config.json"
_SPECIAL = "special_tokens_map.json"
_TEMPLATE = "chat_template.jinja"
_TEMPLATE_JSON = "chat_template.json"
_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


_SHORT_NUMBER = re.compile(r"[0-9]{1,9}")


class _AddedToken(msgspec.Struct):
    id: Annotated[int, msgspec.Meta(ge=0, lt=MAX_TOKEN_ID)]
    content: str


class _TokenizerFile(msgspec.Struct):
    """What we need of a tokenizer.json before `tokenizers` reads it; its vocabulary is skipped, not built."""

    added_tokens: list[_AddedToken] = []
    post_processor: Any = None


_Token = tuple[str, Annotated[int, msgspec.Meta(ge=0, lt=MAX_TOKEN_ID)]]


class _BertProcessing(msgspec.Struct):
    cls: _Token
    sep: _Token


class _Special(msgspec.Struct):
    id: str


class _Part(msgspec.Struct):
    """Of a template: a special token, or the text."""

    special: _Special | None = msgspec.field(default=None, name="SpecialToken")


class _Ids(msgspec.Struct):
    ids: list[Annotated[int, msgspec.Meta(ge=0, lt=MAX_TOKEN_ID)]] = []


class _TemplateProcessing(msgspec.Struct):
    single: Annotated[list[_Part], msgspec.Meta(min_length=1)]
    special_tokens: dict[str, _Ids] = {}


_NO_TOKEN = _Ids()


def read_tokenizer(folder: Path, config: dict[str, Any]) -> TokenizerSource:
    """config: the folder's config.json, for a BOS id that the tokenizer's own files do not name."""
    if not (folder / _JSON).is_file():
        raise CheckpointError(
            f"missing tokenizer in {folder}: no {_JSON}",
            hint=f"looked for {_JSON}, {_CONFIG}, {_SPECIAL}; a folder with only tokenizer.model or vocab.json and "
            "merges.txt gets one from transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
        )
    text = read_text(folder / _JSON)
    settings = _settings(folder)
    named = _named_tokens(settings)
    parsed = _parse(text, folder)
    before, after = _around(parsed.post_processor)
    first = before[0] if before else None
    bos_token = named.get("bos_token")
    bos = _id_of(bos_token, settings, parsed)
    if bos is None:
        bos = min(token_ids(config, "bos_token_id", folder / "config.json"), default=None)
    adds_bos = bos is not None and _adds_bos(settings, first and first[0], bos_token)
    is_around = bool(after) and bos_token is None  # as an encoder wants it, whatever a config says of BOS
    if first is not None and (bos is None or is_around):
        if len(before) > 1:
            raise UnsupportedModel(f"several tokens before a text: {', '.join(text for text, _ in before)}")
        bos, adds_bos = first[1], True
    return TokenizerSource(
        vocabulary=TokenizerJson(json=text),
        chat_template=_chat_template(folder, settings),
        add_bos=adds_bos,
        bos_token_id=bos,
        named_tokens=named,
        after_text=after,
    )


def read_eos_ids(folder: Path) -> frozenset[int]:
    """The id of the tokenizer's own `eos_token`, if the folder has a tokenizer and names one."""
    settings = _settings(folder)
    token = _named_tokens(settings).get("eos_token")
    if token is None:
        return frozenset()
    index = _id_of(token, settings, _TokenizerFile())
    if index is None and (folder / _JSON).is_file():
        index = _id_of(token, settings, _parse(read_text(folder / _JSON), folder))
    return frozenset() if index is None else frozenset({index})


def _settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in (_SPECIAL, _CONFIG):
        if (folder / name).is_file():
            settings |= read_json_object(folder / name)
    return settings


def _named_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """Plain strings; a token may also be an object with `content`."""
    named: dict[str, str] = {}
    for name in _NAMES:
        value = settings.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, str):
            named[name] = content
    return named


def _parse(text: str, folder: Path) -> _TokenizerFile:
    try:
        return msgspec.json.decode(text, type=_TokenizerFile)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CheckpointError(f"not a tokenizer: {folder / _JSON}") from error


def _id_of(token: str | None, settings: dict[str, Any], parsed: _TokenizerFile) -> int | None:
    if token is None:
        return None
    for added in parsed.added_tokens:
        if added.content == token:
            return added.id
    decoder = settings.get("added_tokens_decoder")
    for index, entry in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(entry, dict) and entry.get("content") == token and _SHORT_NUMBER.fullmatch(index):
            return int(index)
    return None


def _adds_bos(settings: dict[str, Any], first: str | None, bos: str | None) -> bool:
    """What the folder says, else whether the tokenizer's post-processor puts BOS first."""
    said = settings.get("add_bos_token")
    return said if isinstance(said, bool) else first is not None and first == bos


def _around(processor: object) -> tuple[list[_Token], tuple[int, ...]]:
    """The tokens that a post-processor puts before a text, and the ids behind it."""
    steps = [processor]
    if isinstance(processor, dict) and isinstance(processor.get("processors"), list):
        steps = processor["processors"]
    for step in steps:
        try:
            if isinstance(step, dict) and step.get("type") in ("BertProcessing", "RobertaProcessing"):
                found = msgspec.convert(step, _BertProcessing)
                return [found.cls], (found.sep[1],)
            if isinstance(step, dict) and step.get("single"):
                return _in_template(msgspec.convert(step, _TemplateProcessing))
        except msgspec.ValidationError:  # the library says what is wrong with it
            continue
    return [], ()


def _in_template(found: _TemplateProcessing) -> tuple[list[_Token], tuple[int, ...]]:
    texts = [place for place, part in enumerate(found.single) if part.special is None]
    text = texts[0] if texts else len(found.single)

    def tokens(parts: list[_Part]) -> list[_Token]:
        names = [part.special.id for part in parts if part.special is not None]
        return [(name, index) for name in names for index in found.special_tokens.get(name, _NO_TOKEN).ids]

    return tokens(found.single[:text]), tuple(index for _, index in tokens(found.single[text:]))


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    """A file of its own wins over tokenizer_config.json; of several named templates, `default`."""
    if (folder / _TEMPLATE).is_file():
        return read_text(folder / _TEMPLATE)
    template = settings.get("chat_template")
    if (folder / _TEMPLATE_JSON).is_file():
        template = read_json_object(folder / _TEMPLATE_JSON).get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if template is not None and not isinstance(template, str):
        raise CheckpointError(f"wrong type in {folder}: chat_template is not a string")
    return template
