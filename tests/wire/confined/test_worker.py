import io
import resource
import subprocess
import sys

from dayzero.wire.confined.worker import ANSWER, JOB, serve_one

ALARM_S = 60.0


def frame(job: bytes) -> bytes:
    return JOB.pack(len(job), ALARM_S) + job


def answers(data: bytes) -> list[bytes]:
    stream, found = io.BytesIO(data), []
    while header := stream.read(ANSWER.size):
        found.append(stream.read(ANSWER.unpack(header)[0]))
    return found


def test_jobs_are_answered_in_order_until_they_end():
    jobs, out = io.BytesIO(frame(b"a") + frame(b"") + frame(b"bc")), io.BytesIO()
    while serve_one(bytes.upper, jobs, out):
        pass
    assert answers(out.getvalue()) == [b"A", b"", b"BC"]


def test_a_confined_process_cannot_write_files_or_take_memory(tmp_path):
    code = (
        "import dayzero.wire.confined.worker as worker, resource, sys\n"
        "worker.confine()\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_AS)[0] > 0)\n"
        "try: bytearray(2**30)\n"
        "except MemoryError: print('no memory')\n"
        "try:\n"
        "    with open(sys.argv[1], 'w', buffering=1) as file: file.write('x\\n')\n"
        "except OSError: print('no file')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "file")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    assert done.stdout.splitlines() == ["(0, 0) True", "no memory", "no file"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 0  # ours is untouched
