"""The inside of a confined process: jobs come on stdin, and each is answered on stdout, in order, one at a time.

Its memory is limited, it writes no files and leaves no core dump. The first job, which loads what all need, it does
itself; the others are done by a child. A job that takes longer than its alarm says, or too much memory, brings down
that child only, and the next one starts from what is loaded. All end with the parent (end of stdin) or by the alarm.
"""

import ctypes
import gc
import mmap
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

JOB = struct.Struct("<If")  # before a job: its bytes, and seconds until the alarm
ANSWER = struct.Struct("<I")  # before an answer: its bytes; or alone, one of the two
TOO_LONG, BROUGHT_DOWN = 2**32 - 1, 2**32 - 2
END = signal.SIGUSR1  # from the parent alone: supervisors do not send it
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_MEMORY_BYTES = 512 * 1024 * 1024  # beyond what the process has mapped at its start
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_IDLE, _AT_WORK, _MID_MESSAGE = range(3)


def run(answer: Callable[[bytes], bytes]) -> None:
    """What the process does, all its life."""
    confine()
    for number in (signal.SIGINT, signal.SIGTERM):  # of a terminal or a supervisor: the parent closes stdin
        signal.signal(number, signal.SIG_IGN)
    jobs, answers, state = sys.stdin.buffer, sys.stdout.buffer, bytearray(1)
    serve_one(answer, jobs, answers, state)
    gc.freeze()  # children share these pages for as long as nobody writes to them
    serve_by_children(answer, jobs, answers)


def serve_by_children(answer: Callable[[bytes], bytes], jobs: BinaryIO, answers: BinaryIO) -> None:
    """Until the jobs end: by one child after the other, and where a job brings one down, that is its answer."""
    state = mmap.mmap(-1, 1)  # shared with the child
    child = 0

    def end(*_: object) -> None:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)  # or it would stay behind, if nobody adopts it
        os._exit(0)

    signal.signal(END, end)
    while True:
        child = os.fork()
        if child == 0:
            signal.signal(END, signal.SIG_DFL)
            _end_with_parent()
            try:
                while serve_one(answer, jobs, answers, state):
                    pass
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        child = 0
        if status == 0 or state[0] == _MID_MESSAGE:  # nobody knows how much of the message is out
            return
        if state[0] == _AT_WORK:
            is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
            answers.write(ANSWER.pack(TOO_LONG if is_late else BROUGHT_DOWN))
            answers.flush()
        state[0] = _IDLE


def serve_one(
    answer: Callable[[bytes], bytes], jobs: BinaryIO, answers: BinaryIO, state: "bytearray | mmap.mmap"
) -> bool:
    """Answer the next job, if there is one. `state` says in its first byte how far it is."""
    header = jobs.read(JOB.size)
    if len(header) < JOB.size:
        return False
    state[0] = _MID_MESSAGE
    num_bytes, alarm_s = JOB.unpack(header)
    job = jobs.read(num_bytes)
    state[0] = _AT_WORK
    signal.setitimer(signal.ITIMER_REAL, alarm_s)
    answered = answer(job)
    signal.setitimer(signal.ITIMER_REAL, 0)
    state[0] = _MID_MESSAGE
    answers.write(ANSWER.pack(len(answered)) + answered)
    answers.flush()
    state[0] = _IDLE
    return True


def confine() -> None:
    """Give up memory beyond a fixed amount, files and core dumps, for good."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        *_memory_limit(),
    ):
        resource.setrlimit(limit, (value, value))


def _end_with_parent() -> None:
    """Should it be killed. Elsewhere than on Linux a child finds out when its job is done."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _memory_limit() -> list[tuple[int, int]]:
    """Beyond what is mapped now; none where the system does not say how much that is (macOS), only the time limit."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return []
    mapped_bytes = int(statm.read_text().split()[0]) * resource.getpagesize()
    return [(resource.RLIMIT_AS, mapped_bytes + _MEMORY_BYTES)]
