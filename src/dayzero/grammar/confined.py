"""Grammars tried in a confined process: `python -m dayzero.grammar.confined`."""

import msgspec
from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark

from dayzero.grammar.jobs import Answer, Convert, Converted, Fits, Job, Loaded, LoadTokenizer, Refused
from dayzero.grammar.matcher import TokenTable
from dayzero.wire.confined import worker


class Grammars:
    """What the process knows between jobs: the vocabulary."""

    def __init__(self) -> None:
        self._table: TokenTable | None = None
        self._decoder = msgspec.msgpack.Decoder(Job)

    def __call__(self, job: bytes) -> bytes:
        return msgspec.msgpack.encode(self.answer(self._decoder.decode(job)))

    def answer(self, job: Job) -> Answer:
        if isinstance(job, LoadTokenizer):
            self._table = TokenTable(job.tokenizer, job.vocab_size, job.eos_token_ids)
            return Loaded()
        if isinstance(job, Convert):
            return _converted(job.grammar)
        assert self._table is not None, "a grammar before a vocabulary"
        reason = self._table.fault(job.grammar)
        return Fits() if reason is None else Refused(reason)


def _converted(grammar: str) -> Answer:
    try:
        return Converted(any_to_lark(grammar))
    except (GbnfToLarkError, ValueError, RecursionError, LookupError) as error:
        return Refused(f"the grammar does not parse: {str(error)[:200]}")


if __name__ == "__main__":
    worker.run(Grammars())
