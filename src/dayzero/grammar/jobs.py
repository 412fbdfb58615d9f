"""Messages to and from a process that tries grammars: closed unions, msgpack on the pipe."""

import msgspec


class LoadTokenizer(msgspec.Struct, frozen=True, tag="load_tokenizer"):
    """The vocabulary of all later jobs, as `matcher.TokenTable` takes it."""

    tokenizer: str
    vocab_size: int
    eos_token_ids: tuple[int, ...]


class Try(msgspec.Struct, frozen=True, tag="try"):
    """Compile a grammar, and make its first mask."""

    grammar: str


class Convert(msgspec.Struct, frozen=True, tag="convert"):
    """Write a grammar of any notation in Lark's."""

    grammar: str


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The vocabulary is there."""


class Fits(msgspec.Struct, frozen=True, tag="fits"):
    """The grammar compiles, and a first token may follow."""


class Converted(msgspec.Struct, frozen=True, tag="converted"):
    lark: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Why not, in a line that names what in the grammar is at fault."""

    reason: str


Job = LoadTokenizer | Try | Convert
Answer = Loaded | Fits | Converted | Refused
