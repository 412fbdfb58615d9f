"""Chat templates at work in a confined process: `python -m dayzero.text.confined`."""

import msgspec

from dayzero.errors import CheckpointError, DayzeroError, RequestError
from dayzero.text.jobs import Answer, Job, Loaded, LoadTemplate, Refused, Rendered
from dayzero.text.template import ChatTemplate
from dayzero.text.veil import Veil
from dayzero.wire.confined import worker


class Templates:
    """What the process knows between jobs: the template."""

    def __init__(self) -> None:
        self._template: ChatTemplate | None = None
        self._veil = Veil("")
        self._decoder = msgspec.msgpack.Decoder(Job)

    def __call__(self, job: bytes) -> bytes:
        return msgspec.msgpack.encode(self.answer(self._decoder.decode(job)))

    def answer(self, job: Job) -> Answer:
        try:
            if isinstance(job, LoadTemplate):
                self._template = ChatTemplate(job.source, job.named_tokens)
                self._veil = Veil(job.alphabet)
                return Loaded()
            assert self._template is not None, "rendering before a template"
            return Rendered(self._template.render_veiled(job.conversation, self._veil))
        except (CheckpointError, RequestError) as error:
            return _refused(error)


def _refused(error: DayzeroError) -> Refused:
    return Refused(error.message, error.hint, error.param if isinstance(error, RequestError) else None)


if __name__ == "__main__":
    worker.run(Templates())
