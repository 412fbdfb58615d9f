"""A whole server around a model without weights: what everything but the model costs. For bench_serve.py.

python bench/fake_server.py --port PORT
"""

import argparse
import asyncio

import uvloop

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.fleet.process import EngineProcess, ProcessReplica
from dayzero.gateway.app import create_app
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.server import bind, serve
from dayzero.text.tokenizer import Tokenizer


async def run(port: int) -> None:
    engine = EngineProcess(EngineConfig(model="fake", fake=FakeModel(), max_requests=64, max_step_tokens=2048))
    replica = await ProcessReplica.start(engine, on_loading=lambda _: None)
    tokenizer = Tokenizer.from_source(open_checkpoint(locate(None, offline=True, progress=lambda *_: None)).tokenizer)
    config = GatewayConfig(served_model_name="fake", port=port)
    gateway = create_app(config, replica, tokenizer, renderer=None, defaults=GenerationDefaults())
    try:
        await serve(gateway, config, bind(config), on_started=lambda: None)
    finally:
        await replica.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--port", type=int, required=True)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(run(parser.parse_args().port))
