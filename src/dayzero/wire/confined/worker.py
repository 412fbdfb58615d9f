"""The inside of a confined process: jobs come on stdin, and each is answered on stdout, in order, one at a time.

Its memory is limited, it writes no files and leaves no core dump. It ends with its parent (end of stdin), and if a job
takes longer than its alarm says, by that: should the parent be gone, nothing spins on.
"""

import resource
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

JOB = struct.Struct("<If")  # before a job: its bytes, and seconds until the alarm
ANSWER = struct.Struct("<I")  # before an answer: its bytes
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_MEMORY_BYTES = 512 * 1024 * 1024  # beyond what the process has mapped at its start


def run(answer: Callable[[bytes], bytes]) -> None:
    """What the process does, all its life."""
    confine()
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the parent, which closes stdin
        signal.signal(number, signal.SIG_IGN)
    serve(answer, sys.stdin.buffer, sys.stdout.buffer)


def serve(answer: Callable[[bytes], bytes], jobs: BinaryIO, answers: BinaryIO) -> None:
    """Until the jobs end."""
    while len(header := jobs.read(JOB.size)) == JOB.size:
        num_bytes, alarm_s = JOB.unpack(header)
        job = jobs.read(num_bytes)
        signal.setitimer(signal.ITIMER_REAL, alarm_s)
        answered = answer(job)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(ANSWER.pack(len(answered)) + answered)
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
