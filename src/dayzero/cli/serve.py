"""`dayzero serve`: the composition root of a server.

The engine's process is spawned first and loads while this one imports its own libraries.
"""

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dayzero import log
from dayzero.checkpoint.locate import locate
from dayzero.cli.endpoint import endpoints_of
from dayzero.cli.progress import Bars
from dayzero.cli.template import read_template
from dayzero.core.spec import EngineConfig, EngineSpec
from dayzero.errors import ConfigError
from dayzero.fleet.process import EngineProcess, ProcessReplica
from dayzero.wire.messages import Loading

if TYPE_CHECKING:
    from dayzero.checkpoint.open import Checkpoint
    from dayzero.gateway.chat_encoder import ChatRenderer
    from dayzero.gateway.config import GatewayConfig
    from dayzero.grammar.format import Format
    from dayzero.text.rendering import ConfinedTemplate
    from dayzero.text.tokenizer import Tokenizer


def serve(
    model: Annotated[
        str | None, typer.Argument(help="folder, .gguf file or hub id; none: the embedded SmolLM2-135M-Instruct")
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    served_model_name: Annotated[str | None, typer.Option(help="what clients call it; default: its own name")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16, or float32: the golden mode")] = "bfloat16",
    precision: Annotated[str, typer.Option(help="bf16, int8, nvfp4, as-stored (the model's own codes), auto")] = "auto",
    kv_dtype: Annotated[str, typer.Option(help="of stored K and V: bf16, int8 (half the memory), auto")] = "auto",
    kernels: Annotated[str, typer.Option(help="auto, native or torch")] = "auto",
    max_context: Annotated[int | None, typer.Option(min=1, help="tokens; default: the model's")] = None,
    max_requests: Annotated[int, typer.Option(min=1, help="running at once; more wait")] = 64,
    max_step_tokens: Annotated[
        int, typer.Option(min=1, help="computed in one step; fewer: shorter gaps between tokens beside long prompts")
    ] = 256,
    kv_memory: Annotated[float | None, typer.Option(min=0.0, max=2.0**20, help="GiB; default: half the free")] = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            help="names, limits and KV memory apart: name=short,max_context=1024,...; repeatable, docs/api.md"
        ),
    ] = None,
    chat_template: Annotated[Path | None, typer.Option(help="a Jinja file instead of the model's own")] = None,
    tool_format: Annotated[
        str,
        typer.Option(help="how the model writes calls and reasoning: a format by its name, a TOML file, none, or auto"),
    ] = "auto",
    collapse_guard: Annotated[
        str, typer.Option(help="of a chat whose output repeats itself, unless it says: off, stop or retry")
    ] = "retry",
    api_key: Annotated[
        list[str] | None, typer.Option(envvar="DAYZERO_API_KEY", help="clients must send one; repeatable")
    ] = None,
    cors_origin: Annotated[list[str] | None, typer.Option(help="browsers' origins that may call; repeatable")] = None,
    store_responses: Annotated[
        bool, typer.Option("--store-responses", help="keep responses for an hour, in memory, each key's for itself")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="refuse unknown fields instead of listing them")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="never look at the hub")] = False,
) -> None:
    """Serve a model over the OpenAI API."""
    _configure_log()
    endpoints = endpoints_of(endpoint or ())
    if endpoints and served_model_name is not None:
        raise ConfigError("--served-model-name beside --endpoint", hint="give each endpoint its names: name=...")
    template = None if chat_template is None else read_template(chat_template)
    with Bars() as bars:
        path = locate(model, offline=offline, progress=bars)
    config = EngineConfig(
        model=str(path),
        dtype=dtype,
        precision=precision,
        kv_dtype=kv_dtype,
        kernels=kernels,
        max_context=max_context,
        max_requests=max_requests,
        max_step_tokens=max_step_tokens,
        kv_memory_bytes=None if kv_memory is None else int(kv_memory * 2**30),
        endpoints=endpoints,
    )
    engine = EngineProcess(config)
    try:
        from dayzero.checkpoint.open import open_checkpoint  # all of this while the engine imports torch
        from dayzero.gateway.config import GatewayConfig
        from dayzero.gateway.guard import mode_of
        from dayzero.gateway.server import bind
        from dayzero.grammar.formats.registry import chosen_format

        gateway_config = GatewayConfig(
            served_model_name=served_model_name or default_name(model, path),
            host=host,
            port=port,
            api_keys=tuple(api_key or ()),
            cors_origins=tuple(cors_origin or ()),
            strict=strict,
            store_responses=store_responses,
            collapse_guard=mode_of(collapse_guard),
            endpoints=endpoints,
        )
        listener = bind(gateway_config)
        checkpoint = open_checkpoint(path)
        source = template or checkpoint.tokenizer.chat_template
        written = chosen_format(tool_format, source or "")
        of_text = _flags_of_text(chat_template, tool_format, collapse_guard, store_responses=store_responses)
        _run(_serve(engine, checkpoint, source, written, gateway_config, listener, of_text=of_text))
    finally:
        engine.close()


def _flags_of_text(
    chat_template: Path | None, tool_format: str, collapse_guard: str, *, store_responses: bool
) -> list[str]:
    """Those that were given and that an encoder has no use of, as far as they are not what goes without saying."""
    flags = {
        "--chat-template": chat_template is not None,
        "--tool-format": tool_format != "auto",
        "--collapse-guard": collapse_guard != "retry",
        "--store-responses": store_responses,
    }
    return [flag for flag, is_given in flags.items() if is_given]


def _configure_log() -> None:
    try:
        log.configure()
    except ValueError:
        raise ConfigError("DAYZERO_LOG is not a level", hint="use debug, info, warning or error") from None


async def _serve(
    engine: EngineProcess,
    checkpoint: "Checkpoint",
    template: str | None,
    tool_format: "Format | None",
    config: "GatewayConfig",
    listener: socket.socket,
    *,
    of_text: Sequence[str],
) -> None:
    """of_text: flags that were given and that an encoder has no use of"""
    from dayzero.gateway.app import create_app
    from dayzero.gateway.server import serve as serve_http

    replica, tokenizer, renderer = await _start(engine, checkpoint, template)
    try:
        if replica.spec.is_encoder and of_text:
            raise ConfigError(f"{of_text[0]} beside an encoder, which makes no text", hint="leave it out")
        naming, fault = await _naming(renderer, tool_format)
        gateway = create_app(
            config, replica, tokenizer, renderer=naming, defaults=checkpoint.generation, tool_format=tool_format
        )
        port = listener.getsockname()[1]
        try:
            await serve_http(
                gateway,
                config,
                listener,
                on_started=lambda: announce(
                    replica.spec,
                    config.served_model_name,
                    url_of(config.host, port),
                    tools_line(tool_format, fault),
                    [endpoint.names for endpoint in config.endpoints],
                ),
            )
        finally:
            await gateway.close()
    finally:
        if renderer is not None:
            await renderer.close()
        await replica.close()


async def _start(
    engine: EngineProcess, checkpoint: "Checkpoint", template: str | None
) -> "tuple[ProcessReplica, Tokenizer, ConfinedTemplate | None]":
    """Wait for the engine, and make the text side meanwhile. Either's error ends both."""
    from dayzero.gateway.errors import root_cause
    from dayzero.text.rendering import ConfinedTemplate
    from dayzero.text.tokenizer import Tokenizer

    with Bars() as bars:

        def on_loading(loading: Loading) -> None:
            bars(loading.stage, loading.done, loading.total)

        renderer = None
        try:
            async with asyncio.TaskGroup() as starting:
                replica = starting.create_task(ProcessReplica.start(engine, on_loading=on_loading))
                tokenizer = await asyncio.to_thread(Tokenizer.from_source, checkpoint.tokenizer)
                if template is not None:
                    renderer = ConfinedTemplate(template, checkpoint.tokenizer.named_tokens, markup=tokenizer.markup)
                    await renderer.start()
        except BaseExceptionGroup as bundle:
            if renderer is not None:
                await renderer.close()
            raise root_cause(bundle) from None
    replica.result().provide_tokenizer(tokenizer.to_json)
    return replica.result(), tokenizer, renderer


def url_of(host: str, port: int) -> str:
    """The address as a client writes it; a colon in a host means IPv6."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _naming(
    renderer: "ConfinedTemplate | None", tool_format: "Format | None"
) -> "tuple[ChatRenderer | None, str | None]":
    """The template, naming calls as the model does; and how it writes them otherwise than the model would."""
    from dayzero.gateway.history import NamingRenderer, history_fault

    if renderer is None or tool_format is None:
        return renderer, None
    naming = NamingRenderer(renderer, tool_format.call_id)
    return naming, await history_fault(naming, tool_format)


def tools_line(tool_format: "Format | None", fault: str | None) -> str:
    """The format of calls, and what is wrong with the history of them."""
    if tool_format is None:
        return "no format known"
    return tool_format.name + ("" if fault is None else f"; the chat template is for another one: {fault}")


def announce(spec: EngineSpec, name: str, url: str, tools: str, names: Sequence[Sequence[str]] = ()) -> None:
    """What was decided, where it listens, and a line that works. `names`: of each endpoint that was asked for."""
    print(
        f"model      {name} ({spec.family}, {spec.dtype}, precision {spec.precision}, "
        f"{spec.weight_bytes / 2**20:.0f} MiB)"
    )
    print(f"context    {spec.max_context} tokens, {spec.max_requests} requests at once")
    print(_what_it_keeps(spec))
    for endpoint, known_as in zip(spec.endpoints, names, strict=True):
        print(
            f"endpoint   {', '.join(known_as)}: {endpoint.max_context} tokens, "
            f"{endpoint.max_requests} requests at once, "
            f"{'' if spec.is_encoder else f'{endpoint.kv_blocks} blocks, '}"
            f"{endpoint.max_step_tokens} tokens of a step beside others"
        )
    if not spec.is_encoder:
        print(f"tools      {tools}")
    print(f"step       {spec.max_step_tokens} tokens, {spec.threads} threads")
    print(f"version    policy {spec.policy_version}, numerics {spec.numerics_id}")
    for choice in spec.kernels:
        print(f"kernel     {choice.op:<16} {choice.implementation:<16} {choice.reason}")
    print(f"listening  {url}\n")
    path, body = "chat/completions", '{"messages": [{"role": "user", "content": "Hello!"}]}'
    if spec.is_encoder:
        path, body = "embeddings", '{"input": ["Hello!", "Good morning!"]}'
    print(f"curl {url}/v1/{path} -H 'content-type: application/json' -d '{body}'", flush=True)


def _what_it_keeps(spec: EngineSpec) -> str:
    """The line of the KV pool, or why there is none."""
    if spec.is_encoder:
        return f"encoder    makes embeddings ({spec.pooling}, {spec.embedding_size} numbers), not text; keeps no KV"
    return (
        f"KV pool    {spec.kv_blocks} blocks of {spec.block_size} tokens in {spec.kv_dtype}, "
        f"{spec.kv_bytes / 2**30:.2f} GiB {'taken' if spec.kv_is_committed else 'as it fills'}"
    )


def default_name(model: str | None, path: Path) -> str:
    """A hub id as it was given; else the name of the folder or file, without its format."""
    if model is not None and not Path(model).expanduser().exists():
        return model
    name = path.resolve().name
    return name.removesuffix(".gguf")


def _run(main: Coroutine[None, None, None]) -> None:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:  # not built for this platform
        asyncio.run(main)
    else:
        uvloop.run(main)
