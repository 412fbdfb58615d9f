"""A process for work on what nobody has vetted: `python -m dayzero.text.confined`.

Reads jobs from stdin and answers each on stdout, in order, one at a time. Its memory is limited, it writes no files
and leaves no core dump. It ends with its parent (end of stdin), and if a job takes longer than the job says, by an
alarm: should the parent be gone, nothing spins on.
"""

import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from dayzero.errors import CheckpointError, DayzeroError, RequestError
from dayzero.text.jobs import LENGTH_BYTES, Answer, Job, Loaded, LoadTemplate, Refused, Rendered
from dayzero.text.template import ChatTemplate
from dayzero.text.veil import Veil

_MEMORY_BYTES = 512 * 1024 * 1024  # beyond what the process has mapped at its start


class Worker:
    """What the process knows between jobs: the template."""

    def __init__(self) -> None:
        self._template: ChatTemplate | None = None
        self._veil = Veil("")

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


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Until the jobs end."""
    worker = Worker()
    decoder = msgspec.msgpack.Decoder(Job)
    while len(header := jobs.read(LENGTH_BYTES)) == LENGTH_BYTES:
        job: Job = decoder.decode(jobs.read(int.from_bytes(header, "little")))
        signal.setitimer(signal.ITIMER_REAL, job.limit_s)
        answer = msgspec.msgpack.encode(worker.answer(job))
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(len(answer).to_bytes(LENGTH_BYTES, "little") + answer)
        answers.flush()


def confine() -> None:
    """Give up memory beyond a fixed amount, files and core dumps, for good."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        *_memory_limit(),
    ):
        resource.setrlimit(limit, (value, value))


def _memory_limit() -> list[tuple[int, int]]:
    """Beyond what is mapped now; none where the system does not say how much that is (macOS), only the time limit."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return []
    mapped_bytes = int(statm.read_text().split()[0]) * resource.getpagesize()
    return [(resource.RLIMIT_AS, mapped_bytes + _MEMORY_BYTES)]


if __name__ == "__main__":
    confine()
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the parent, which closes stdin
        signal.signal(number, signal.SIG_IGN)
    serve(sys.stdin.buffer, sys.stdout.buffer)
