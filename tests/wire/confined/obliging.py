"""A confined process that does as it is told: run by its name, `obliging`."""

import os
import signal

from dayzero.wire.confined import worker

_loaded: list[bytes] = []


def answer(job: bytes) -> bytes:
    match job:
        case b"who":
            return str(os.getppid()).encode() + b" " + b"".join(_loaded)
        case b"child":
            return str(os.getpid()).encode()
        case b"hang":
            signal.pause()
        case b"memory":
            return bytes(2**32)
        case b"end":
            os._exit(0)
        case b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        case b"raise":
            raise ValueError
        case _:
            _loaded.append(job)
    return job


if __name__ == "__main__":
    worker.run(answer)
