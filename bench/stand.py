"""The gateway around an engine, with the embedded model's tokenizer: what servers that are only measured share."""

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint
from dayzero.fleet.process import EngineProcess, ProcessReplica
from dayzero.gateway.app import create_app
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.server import bind, serve
from dayzero.text.tokenizer import Tokenizer


async def serve_engine(engine: EngineProcess, name: str, port: int) -> None:
    """Until a signal ends it; the engine ends with it."""
    replica = await ProcessReplica.start(engine, on_loading=lambda _: None)
    tokenizer = Tokenizer.from_source(open_checkpoint(locate(None, offline=True, progress=lambda *_: None)).tokenizer)
    config = GatewayConfig(served_model_name=name, port=port)
    gateway = create_app(config, replica, tokenizer, renderer=None, defaults=GenerationDefaults())
    try:
        await serve(gateway, config, bind(config), on_started=lambda: None)
    finally:
        await replica.close()
