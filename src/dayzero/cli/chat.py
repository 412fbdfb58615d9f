"""`dayzero chat`: a conversation in the terminal, in this process."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dayzero.cli.progress import Bars
from dayzero.cli.template import read_template
from dayzero.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from dayzero.llm import LLM, SamplingOptions

Message = dict[str, object]

HELP = "/new starts over, /quit or Ctrl-D leaves, Ctrl-C stops an answer"


def chat(
    model: Annotated[str | None, typer.Argument(help="folder, .gguf file or hub id; none: the embedded model")] = None,
    system: Annotated[str | None, typer.Option(help="a system message")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="of each answer")] = 1024,
    temperature: Annotated[float | None, typer.Option(min=0.0, max=2.0, help="0: greedy")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16, or float32: the golden mode")] = "bfloat16",
    precision: Annotated[str, typer.Option(help="bf16, int8, nvfp4, as-stored (the model's own codes), auto")] = "auto",
    kv_dtype: Annotated[str, typer.Option(help="of stored K and V: bf16, int8 (half the memory), auto")] = "auto",
    chat_template: Annotated[Path | None, typer.Option(help="a Jinja file instead of the model's own")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="never look at the hub")] = False,
) -> None:
    """Talk to a model."""
    from dayzero.llm import LLM, SamplingOptions  # torch: a second that --help should not take

    template = None if chat_template is None else read_template(chat_template)
    with Bars() as bars:
        llm = LLM(
            model,
            dtype=dtype,
            precision=precision,
            kv_dtype=kv_dtype,
            offline=offline,
            chat_template=template,
            progress=bars,
        )
    if llm.spec.is_encoder:
        raise ConfigError("this model makes embeddings, not text", hint="serve it, and use /v1/embeddings")
    options = SamplingOptions(max_tokens=max_tokens)
    if temperature is not None:
        options["temperature"] = temperature
    print(HELP)
    _converse(llm, [] if system is None else [{"role": "system", "content": system}], options)


def _converse(llm: "LLM", start: list[Message], options: "SamplingOptions") -> None:
    messages = [*start]
    for said in _lines():
        if said == "/new":
            messages = [*start]
            continue
        messages.append({"role": "user", "content": said})
        try:
            answer = _answer(llm, messages, options)
        except RequestError as error:  # the conversation has outgrown the context, say
            print(error)
            messages.pop()
        else:
            messages.append({"role": "assistant", "content": answer})


def _lines() -> Iterator[str]:
    """What is typed, blank lines apart, up to /quit or the end."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a letter in another encoding should not end a conversation
    while True:
        try:
            said = input("\n> ").strip()
        except EOFError:
            print()
            return
        if said == "/quit":
            return
        if said:
            yield said


def _answer(llm: "LLM", messages: list[Message], options: "SamplingOptions") -> str:
    """Print the answer as it comes; Ctrl-C leaves what there is."""
    parts: list[str] = []
    try:
        for delta in llm.stream(messages, **options):
            print(delta.text, end="", flush=True)
            parts.append(delta.text)
    except KeyboardInterrupt:
        pass
    print()
    return "".join(parts)
