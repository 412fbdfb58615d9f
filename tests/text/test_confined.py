import io
import resource
import subprocess
import sys

import msgspec

from dayzero.text.confined import Worker, serve
from dayzero.text.conversation import conversation
from dayzero.text.jobs import LENGTH_BYTES, Answer, Job, Loaded, LoadTemplate, Refused, Render, Rendered

LIMIT_S = 60.0
HELLO = Render(conversation([{"role": "user", "content": "hello"}]), LIMIT_S)


def load(source: str) -> LoadTemplate:
    return LoadTemplate(source, {"bos_token": "<bos>"}, "<>", LIMIT_S)


def frame(job: Job) -> bytes:
    message = msgspec.msgpack.encode(job)
    return len(message).to_bytes(LENGTH_BYTES, "little") + message


def answers(data: bytes) -> list[Answer]:
    stream, found = io.BytesIO(data), []
    while header := stream.read(LENGTH_BYTES):
        found.append(msgspec.msgpack.decode(stream.read(int.from_bytes(header, "little")), type=Answer))
    return found


def test_jobs_are_answered_in_order_until_they_end():
    out = io.BytesIO()
    serve(io.BytesIO(frame(load("{{ bos_token }}{{ messages[0].content }}")) + frame(HELLO) * 2), out)
    loaded, *rendered = answers(out.getvalue())
    assert loaded == Loaded()
    assert [answer.rendering.text for answer in rendered] == ["<bos>hello"] * 2


def test_a_refused_job_leaves_the_worker_as_it_was():
    worker = Worker()
    assert isinstance(worker.answer(load("{% if %}")), Refused)
    assert worker.answer(load("{{ raise_exception('no') if messages[0].role == 'tool' }}x")) == Loaded()
    bad = Render(conversation([{"role": "tool", "content": ""}]), LIMIT_S)
    assert worker.answer(bad) == Refused("no", None, "messages")
    assert isinstance(worker.answer(HELLO), Rendered)


def test_the_process_imports_neither_torch_nor_tokenizers():
    code = (
        "import sys, dayzero.text.confined; print([m for m in ('torch', 'tokenizers', 'asyncio') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_confined_process_cannot_write_files_or_take_memory(tmp_path):
    code = (
        "import dayzero.text.confined as c, resource, sys\n"
        "c.confine()\n"
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
