"""The inside of confined processes: a root that has loaded what all jobs need, and children that do them.

Orders come to the root on stdin, which is a socket: to fork a child, and to kill one. With the first comes the channel
of a job that the root does itself, and loads by. Each child has a channel of its own, where it answers jobs in order,
one at a time. Memory is limited, nobody writes files or leaves a core dump. A job that takes longer than its alarm
says, or too much memory, brings down its child only. Children end with their channel, with the root, or by the alarm.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path

ORDER = struct.Struct("<cI")  # to the root: which, and the number of the child; FORK comes with the child's channel
FORK, KILL = b"f", b"k"
JOB = struct.Struct("<Id")  # before a job: its bytes, and seconds until the alarm
ANSWER = struct.Struct("<I")  # before an answer: its bytes
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_MEMORY_BYTES = 512 * 1024 * 1024  # beyond what the process has mapped at its start
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def run(answer: Callable[[bytes], bytes]) -> None:
    """What the root does, all its life."""
    confine()
    for number in (signal.SIGINT, signal.SIGTERM):  # of a terminal or a supervisor: the parent closes stdin
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=0)
    _, _, channel = receive(control)
    if channel is None:
        return
    with channel, channel.makefile("rwb") as stream:
        serve_one(answer, stream, stream)
    gc.freeze()  # children share these pages for as long as nobody writes to them
    children: dict[int, int] = {}  # their pids; those who end stay until they are killed, so no pid is another's
    while True:
        order, child, channel = receive(control)
        if channel is not None:
            with contextlib.suppress(OSError):  # no more processes: the channel closes, which says so
                children[child] = _forked(answer, control, channel)
            channel.close()
        elif order == KILL and child in children:
            _end(children.pop(child))
        elif order != KILL:
            break
    for pid in children.values():
        _end(pid)


def receive(control: socket.socket) -> tuple[bytes, int, socket.socket | None]:
    """The next order; none after the last."""
    message, descriptors, _, _ = socket.recv_fds(control, ORDER.size, 1)
    if len(message) < ORDER.size:
        return b"", 0, None
    order, child = ORDER.unpack(message)
    return order, child, socket.socket(fileno=descriptors[0]) if descriptors else None


def serve_one(answer: Callable[[bytes], bytes], jobs: BufferedIOBase, answers: BufferedIOBase) -> bool:
    """Answer the next job, if there is one."""
    header = jobs.read(JOB.size)
    if len(header) < JOB.size:
        return False
    num_bytes, alarm_s = JOB.unpack(header)
    job = jobs.read(num_bytes)
    signal.setitimer(signal.ITIMER_REAL, alarm_s)
    answered = answer(job)
    signal.setitimer(signal.ITIMER_REAL, 0)
    answers.write(ANSWER.pack(len(answered)) + answered)
    answers.flush()
    return True


def confine() -> None:
    """Give up memory beyond a fixed amount, files and core dumps, for good."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        *_memory_limit(),
    ):
        resource.setrlimit(limit, (value, value))


def _forked(answer: Callable[[bytes], bytes], control: socket.socket, channel: socket.socket) -> int:
    """The pid of a child that serves a channel."""
    pid = os.fork()
    if pid == 0:
        try:
            control.close()
            _end_with_parent()
            with channel, channel.makefile("rwb") as stream:
                while serve_one(answer, stream, stream):
                    pass
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


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
