"""`dayzero generate`: one completion, in this process."""

import sys
from typing import Annotated

import typer

from dayzero.cli.progress import Bars
from dayzero.errors import ConfigError


def generate(
    prompt: Annotated[str, typer.Argument(help="what to complete; - reads standard input")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="folder, .gguf file or hub id")] = None,
    max_tokens: Annotated[int, typer.Option(min=1)] = 128,
    temperature: Annotated[float | None, typer.Option(min=0.0, max=2.0, help="0: greedy")] = None,
    seed: Annotated[int | None, typer.Option(help="the same seed gives the same text")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16, or float32: the golden mode")] = "bfloat16",
    precision: Annotated[str, typer.Option(help="bf16, int8, nvfp4, as-stored (the model's own codes), auto")] = "auto",
    kv_dtype: Annotated[str, typer.Option(help="of stored K and V: bf16, int8 (half the memory), auto")] = "auto",
    chat: Annotated[bool, typer.Option("--chat", help="wrap the prompt in the model's chat template")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="never look at the hub")] = False,
) -> None:
    """Complete one prompt and stream it to the terminal."""
    from dayzero.llm import LLM, SamplingOptions  # torch: a second that --help should not take

    text = _read_stdin() if prompt == "-" else prompt
    if not text:
        raise ConfigError("empty prompt", hint="give a text, or - and something on standard input")
    with Bars() as bars:
        llm = LLM(model, dtype=dtype, precision=precision, kv_dtype=kv_dtype, offline=offline, progress=bars)
    options = SamplingOptions(max_tokens=max_tokens)
    if temperature is not None:
        options["temperature"] = temperature
    if seed is not None:
        options["seed"] = seed
    for delta in llm.stream([{"role": "user", "content": text}] if chat else text, **options):
        print(delta.text, end="", flush=True)
    print()


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise ConfigError("standard input is not text", hint="give it as UTF-8") from None
