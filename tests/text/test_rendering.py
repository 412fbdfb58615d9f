import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dayzero.errors import CheckpointError, RequestError
from dayzero.text.conversation import conversation
from dayzero.text.rendering import ConfinedTemplate
from dayzero.text.template import ChatTemplate
from dayzero.text.veil import Veil, alphabet_of
from tests.text.templates import CALLS, CHAT, NAMED, QWEN, TOOL

MARKUP = {"<|im_end|>": 2, "<tool_call>": 3}
needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found through /proc")

HELLO = conversation([{"role": "user", "content": "hello"}])

# Does what the first word of the first message says.
HOSTILE = """{%- set word = messages[0].content -%}
{%- if word == 'loop' %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}{% endif -%}
{%- if word == 'double' %}{% set n = namespace(x='aaaaaaaa') %}
{%- for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}{% endif -%}
{%- if word == 'pad' %}{{ 'a'.ljust(10**10) }}{% endif -%}
{%- if word == 'times' %}{{ 'a' * 10**9 }}{% endif -%}
{%- if word == 'escape' %}{{ ().__class__.__mro__ }}{% endif -%}
{{ word }}"""


def run(use: Callable[[ConfinedTemplate], Awaitable[None]], source: str = HOSTILE, **options) -> None:
    async def main() -> None:
        template = ConfinedTemplate(source, NAMED, markup=MARKUP, **options)
        try:
            await template.start()
            await use(template)
        finally:
            await template.close()

    asyncio.run(main())


def test_both_renderings_are_those_of_the_template_itself():
    veil = Veil(alphabet_of(MARKUP))
    here = ChatTemplate(QWEN, NAMED)

    async def use(template: ConfinedTemplate) -> None:
        for messages, options in ((CHAT, {}), (CALLS, {"tools": [TOOL], "variables": {"enable_thinking": False}})):
            there = await template.render(conversation(messages, **options))
            assert there == here.render_veiled(conversation(messages, **options), veil)

    run(use, QWEN)


@pytest.mark.parametrize("word", ["double", "pad", "times", "escape"])
def test_a_hostile_template_is_a_refused_request_and_the_next_one_is_served(word):
    async def use(template: ConfinedTemplate) -> None:
        with pytest.raises(RequestError, match="chat template"):
            await template.render(conversation([{"role": "user", "content": word}]))
        assert (await template.render(HELLO)).text == "hello"

    run(use)


def test_a_template_that_loops_is_stopped_and_replaced_while_others_are_served():
    async def use(template: ConfinedTemplate) -> None:
        looping = asyncio.create_task(template.render(conversation([{"role": "user", "content": "loop"}])))
        assert (await template.render(HELLO)).text == "hello"
        with pytest.raises(RequestError, match=r"took longer than 0\.5 s"):
            await looping
        assert [r.text for r in await asyncio.gather(*[template.render(HELLO) for _ in range(5)])] == ["hello"] * 5

    run(use, limit_s=0.5)


@needs_proc
def test_a_process_that_dies_at_work_costs_one_request():
    async def use(template: ConfinedTemplate) -> None:
        job = asyncio.create_task(template.render(conversation([{"role": "user", "content": "loop"}])))
        await asyncio.sleep(0)  # the job is under way
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(RequestError, match="crashed"):
            await job
        assert (await template.render(HELLO)).text == "hello"

    run(use, processes=1, limit_s=30.0)


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def test_a_cancelled_rendering_leaves_no_process_behind():
    async def use(template: ConfinedTemplate) -> None:
        job = asyncio.create_task(template.render(conversation([{"role": "user", "content": "loop"}])))
        await asyncio.sleep(0)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert (await template.render(HELLO)).text == "hello"

    run(use, processes=1, limit_s=30.0)


@needs_proc
def test_a_process_that_dies_while_it_is_idle_costs_nothing():
    async def use(template: ConfinedTemplate) -> None:
        for pid in children():
            os.kill(pid, signal.SIGKILL)
            while is_running(pid):  # without a turn of the loop, which would be told
                pass
        assert (await template.render(HELLO)).text == "hello"

    run(use)


@needs_proc
def test_a_signal_for_every_process_leaves_the_end_to_the_parent():
    async def use(template: ConfinedTemplate) -> None:
        (before,) = children()
        os.kill(before, signal.SIGTERM)
        assert (await template.render(HELLO)).text == "hello"
        assert children() == [before]

    run(use)


def test_a_burst_waits_its_turn():
    async def use(template: ConfinedTemplate) -> None:
        results = await asyncio.gather(*[template.render(HELLO) for _ in range(400)])
        assert {result.text for result in results} == {"hello"}

    run(use)


def test_a_template_that_does_not_compile_is_refused_at_the_start():
    async def use(template: ConfinedTemplate) -> None:
        raise AssertionError(template)

    with pytest.raises(CheckpointError, match="does not parse"):
        run(use, "{% if %}")


@pytest.mark.parametrize("content", ["\ud800", {"nested": 2**70}])
def test_what_cannot_cross_to_the_process_is_a_refused_request(content):
    async def use(template: ConfinedTemplate) -> None:
        with pytest.raises(RequestError):
            await template.render(conversation([{"role": "user", "content": "x", "name": content}]))
        assert (await template.render(HELLO)).text == "hello"

    run(use)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@needs_proc
def test_secrets_of_our_environment_do_not_reach_the_process(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")

    async def use(template: ConfinedTemplate) -> None:
        assert (await template.render(HELLO)).text == "hello"
        assert children()
        assert not any(b"secret" in environment(pid) for pid in children())

    run(use)
