import subprocess
import sys

import msgspec

from dayzero.text.confined import Templates
from dayzero.text.conversation import conversation
from dayzero.text.jobs import Answer, Loaded, LoadTemplate, Refused, Render, Rendered

HELLO = Render(conversation([{"role": "user", "content": "hello"}]))


def load(source: str) -> LoadTemplate:
    return LoadTemplate(source, {"bos_token": "<bos>"}, "<>")


def test_jobs_and_answers_cross_as_bytes():
    templates = Templates()
    assert msgspec.msgpack.decode(templates(msgspec.msgpack.encode(load("{{ bos_token }}x"))), type=Answer) == Loaded()
    rendered = msgspec.msgpack.decode(templates(msgspec.msgpack.encode(HELLO)), type=Answer)
    assert rendered.rendering.text == "<bos>x"


def test_a_refused_job_leaves_the_process_as_it_was():
    templates = Templates()
    assert isinstance(templates.answer(load("{% if %}")), Refused)
    assert templates.answer(load("{{ raise_exception('no') if messages[0].role == 'tool' }}x")) == Loaded()
    bad = Render(conversation([{"role": "tool", "content": ""}]))
    assert templates.answer(bad) == Refused("no", None, "messages")
    assert isinstance(templates.answer(HELLO), Rendered)


def test_the_process_imports_neither_torch_nor_tokenizers():
    code = (
        "import sys, dayzero.text.confined; print([m for m in ('torch', 'tokenizers', 'asyncio') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
