"""A whole server around a model without weights: what everything but the model costs. For bench_serve.py.

python bench/fake_server.py --port PORT
"""

import argparse
import asyncio

import uvloop
from stand import serve_engine

from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.fleet.process import EngineProcess

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    engine = EngineProcess(EngineConfig(model="fake", fake=FakeModel(), max_requests=64, max_step_tokens=2048))
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(serve_engine(engine, "fake", args.port))
