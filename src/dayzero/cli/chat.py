"""`dayzero chat`: a conversation in the terminal, in this process."""

from pathlib import Path
from typing import Annotated

import typer

from dayzero.cli.progress import Bars
from dayzero.errors import ConfigError, RequestError

HELP = "/new starts over, /quit or Ctrl-D leaves, Ctrl-C stops an answer"


def chat(
    model: Annotated[str | None, typer.Argument(help="folder, .gguf file or hub id; none: the embedded model")] = None,
    system: Annotated[str | None, typer.Option(help="a system message")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="of each answer")] = 1024,
    temperature: Annotated[float | None, typer.Option(min=0.0, max=2.0, help="0: greedy")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16, or float32: the golden mode")] = "bfloat16",
    chat_template: Annotated[Path | None, typer.Option(help="a Jinja file instead of the model's own")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="never look at the hub")] = False,
) -> None:
    """Talk to a model."""
    from dayzero.llm import LLM, SamplingOptions  # torch: a second that --help should not take

    template = None if chat_template is None else _read(chat_template)
    with Bars() as bars:
        llm = LLM(model, dtype=dtype, offline=offline, chat_template=template, progress=bars)
    options = SamplingOptions(max_tokens=max_tokens)
    if temperature is not None:
        options["temperature"] = temperature
    start: list[dict[str, object]] = [] if system is None else [{"role": "system", "content": system}]
    messages: list[dict[str, object]] = [*start]
    print(HELP)
    while True:
        try:
            said = input("\n> ").strip()
        except EOFError:
            print()
            return
        if said == "/quit":
            return
        if said == "/new":
            messages = [*start]
            continue
        if not said:
            continue
        messages.append({"role": "user", "content": said})
        answer: list[str] = []
        try:
            for delta in llm.stream(messages, **options):
                print(delta.text, end="", flush=True)
                answer.append(delta.text)
        except KeyboardInterrupt:
            pass
        except RequestError as error:  # the conversation has outgrown the context, say
            print(error)
            messages.pop()
            continue
        print()
        messages.append({"role": "assistant", "content": "".join(answer)})


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat template not readable: {path}", hint=type(error).__name__) from None
