"""A server of the embedded model whose engine waits as long as it is told between steps. For bench_waiting.py.

python bench/waiting_server.py SPIN_US PRECISION --port PORT
"""

import argparse
import asyncio
import sys

import uvloop

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint
from dayzero.core.spec import EngineConfig
from dayzero.fleet.process import EngineProcess, ProcessReplica
from dayzero.gateway.app import create_app
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.server import bind, serve
from dayzero.text.tokenizer import Tokenizer

ENGINE = """
import sys
from dayzero.engine import build, process
from dayzero.kernels.native.backend import NativeKernels

build.choose = lambda dtype, heads, block_size, num_threads, wish: NativeKernels(num_threads, spin_us=int(sys.argv[1]))
sys.exit(process.main(sys.argv[-2], int(sys.argv[-1]), import_torch=True))
"""


async def run(spin_us: int, precision: str, port: int) -> None:
    path = locate(None, offline=True, progress=lambda *_: None)
    engine = EngineProcess(
        EngineConfig(model=str(path), precision=precision, kv_memory_bytes=2**28),
        command=(sys.executable, "-c", ENGINE, str(spin_us)),
    )
    replica = await ProcessReplica.start(engine, on_loading=lambda _: None)
    tokenizer = Tokenizer.from_source(open_checkpoint(path).tokenizer)
    config = GatewayConfig(served_model_name="embedded", port=port)
    gateway = create_app(config, replica, tokenizer, renderer=None, defaults=GenerationDefaults())
    try:
        await serve(gateway, config, bind(config), on_started=lambda: None)
    finally:
        await replica.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("spin_us", type=int)
    parser.add_argument("precision")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(run(args.spin_us, args.precision, args.port))
