"""Grammars tried in a confined process: `python -m dayzero.grammar.confined`."""

import msgspec

from dayzero.errors import RequestError
from dayzero.grammar.checker import Checker
from dayzero.grammar.jobs import Answer, Convert, Converted, Fits, Job, Loaded, LoadTokenizer, Refused
from dayzero.wire.confined import worker


class Grammars:
    """What the process knows between jobs: the vocabulary."""

    def __init__(self) -> None:
        self._checker: Checker | None = None
        self._decoder = msgspec.msgpack.Decoder(Job)

    def __call__(self, job: bytes) -> bytes:
        return msgspec.msgpack.encode(self.answer(self._decoder.decode(job)))

    def answer(self, job: Job) -> Answer:
        if isinstance(job, LoadTokenizer):
            self._checker = Checker(job.tokenizer, job.vocab_size, job.eos_token_ids)
            return Loaded()
        assert self._checker is not None, "a grammar before a vocabulary"
        try:
            if isinstance(job, Convert):
                return Converted(self._checker.lark_of(job.grammar, ""))
            self._checker.check(job.grammar, "")
        except RequestError as error:
            return Refused(error.message)
        return Fits()


if __name__ == "__main__":
    worker.run(Grammars())
