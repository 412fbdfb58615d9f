"""A server of the embedded model whose engine waits as long as it is told between steps. For bench_waiting.py.

python bench/waiting_server.py SPIN_US PRECISION --port PORT
"""

import argparse
import asyncio
import sys

import uvloop
from stand import serve_engine

from dayzero.checkpoint.locate import locate
from dayzero.core.spec import EngineConfig
from dayzero.fleet.process import EngineProcess

ENGINE = """
import sys
from dayzero.engine import build, process
from dayzero.kernels.native.backend import NativeKernels

build.choose = lambda dtype, heads, block_size, num_threads, wish: NativeKernels(num_threads, spin_us=int(sys.argv[1]))
sys.exit(process.main(sys.argv[-2], int(sys.argv[-1]), import_torch=True))
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("spin_us", type=int)
    parser.add_argument("precision")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    model = str(locate(None, offline=True, progress=lambda *_: None))
    engine = EngineProcess(
        EngineConfig(model=model, precision=args.precision, kv_memory_bytes=2**28),
        command=(sys.executable, "-c", ENGINE, str(args.spin_us)),
    )
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve_engine(engine, "embedded", args.port))
