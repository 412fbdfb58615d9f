"""A whole gateway whose model writes one output, a token at a time, each at its time. For bench_silence.py.

python bench/paced_server.py OUTPUT --pace-ms 10 --port PORT
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence

import uvloop
from outputs import outputs

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint
from dayzero.clock import SystemClock
from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.spec import EngineConfig, EngineSpec, FakeModel
from dayzero.engine.fake import build_fake_engine
from dayzero.gateway.app import create_app
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.server import bind, serve
from dayzero.text.conversation import Conversation, Rendering
from dayzero.text.template import ChatTemplate
from dayzero.text.tokenizer import Tokenizer
from dayzero.text.veil import Veil, alphabet_of
from dayzero.wire.messages import Load, Submit


class PacedReplica:
    """Answers every request with the same tokens, token i at i times the pace from its start."""

    def __init__(self, spec: EngineSpec, tokens: Sequence[int], pace_s: float) -> None:
        self.spec = spec
        self.is_alive = True
        self.load = Load(kv_blocks_total=spec.kv_blocks)
        self._tokens = tokens
        self._pace_s = pace_s

    async def generate(self, submit: Submit) -> AsyncIterator[TokenEvent]:
        loop = asyncio.get_running_loop()
        start_s, last = loop.time(), len(self._tokens) - 1
        for i, token in enumerate(self._tokens):
            await asyncio.sleep(start_s + i * self._pace_s - loop.time())
            yield TokenEvent(submit.request_id, [token], finish=FinishReason.LENGTH if i == last else None)

    async def abort(self, request_id: int) -> None:
        """Nothing goes on that nobody reads."""


class Renderer:
    """A template that is known to be harmless, in this process."""

    def __init__(self, template: str, tokenizer: Tokenizer) -> None:
        self._template = ChatTemplate(template, {})
        self._veil = Veil(alphabet_of(tokenizer.markup))

    async def render(self, chat: Conversation) -> Rendering:
        return self._template.render_veiled(chat, self._veil)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("output", choices=[output.name for output in outputs()])
    parser.add_argument("--pace-ms", type=float, default=10.0)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    output = next(output for output in outputs() if output.name == args.output)
    source = open_checkpoint(locate(None, offline=True, progress=lambda *_: None)).tokenizer
    tokenizer = Tokenizer.from_source(source)
    _, spec = build_fake_engine(EngineConfig(model="fake", fake=FakeModel(max_context=2**15)), SystemClock())
    replica = PacedReplica(spec, tokenizer.encode(output.text, special=False), args.pace_ms / 1000)
    config = GatewayConfig(served_model_name="paced", port=args.port)
    assert source.chat_template is not None
    gateway = create_app(
        config,
        replica,
        tokenizer,
        renderer=Renderer(source.chat_template, tokenizer),
        defaults=GenerationDefaults(),
        tool_format=output.format,
    )
    await serve(gateway, config, bind(config), on_started=lambda: None)


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(main())
