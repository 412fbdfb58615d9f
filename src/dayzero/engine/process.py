"""The engine behind a channel: `python -m dayzero.engine.process [--import-torch] ENDPOINT PARENT_PID`.

One thread: take what has arrived, step, say what came of it. ZeroMQ's own thread moves the bytes. The process dies
loudly: an error outside a request is reported as Fatal and ends it, and it does not outlive its parent.
"""

import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
from pathlib import Path

# Spin briefly, then sleep: two compute threads keep their speed, and the gateway on the same cores gets its share.
# Read by libgomp when torch is loaded. Measured: docs/decisions/0003-threads.md
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

from dayzero import log
from dayzero.clock import SystemClock
from dayzero.core.spec import EngineConfig, EngineSpec
from dayzero.engine.engine import Engine
from dayzero.errors import DayzeroError
from dayzero.wire.channel import Channel, ChannelClosed
from dayzero.wire.messages import (
    PROTOCOL_VERSION,
    Abort,
    Fatal,
    Hello,
    Loading,
    Ready,
    Shutdown,
    Start,
    Submit,
    ToEngine,
    Tokenizer,
)

logger = logging.getLogger("dayzero.engine")

IDLE_POLL_S = 0.5  # how often an idle engine looks whether its parent lives


class ParentDied(Exception):
    """Nobody is left to serve."""


def main(endpoint: str, parent: int, *, import_torch: bool) -> int:
    """Serve one gateway, the process `parent`, until it says so or dies; returns the exit code.

    import_torch   at once, which takes a second: the gateway is still importing its own libraries, and will name a
                   model that needs it
    """
    gc.disable()  # starting makes many objects and no cycles; a third of the time goes to looking for them
    for number in (signal.SIGINT, signal.SIGTERM):  # they may reach every process: the gateway decides what they mean
        signal.signal(number, signal.SIG_IGN)
    log.configure()
    with Channel(endpoint) as channel:
        try:
            channel.send(Hello(PROTOCOL_VERSION))
            if import_torch:
                channel.send(Loading("torch", 0, 0))
                importlib.import_module("dayzero.engine.build")
            config = _wait_for_start(channel, parent)
            if config is None:
                return 0
            engine, spec = _build(config, channel, parent)
            gc.freeze()
            gc.enable()
            channel.send(Ready(spec))
            _serve(engine, channel, parent)
        except ParentDied:
            _tidy(endpoint)
            return 1
        except ChannelClosed:
            return 1
        except DayzeroError as error:
            channel.send(Fatal(error.message, error.hint, error.exit_code))
            return error.exit_code
        except Exception as error:
            logger.error("engine failed", exc_info=True)
            channel.send(Fatal(f"engine failed: {type(error).__name__}", "see the engine's log", 1))
            return 1
        finally:
            gc.unfreeze()  # or the interpreter would leave it all behind, of which the native module warns
    return 0


def _wait_for_start(channel: Channel, parent: int) -> EngineConfig | None:
    while True:
        message = channel.receive(IDLE_POLL_S)
        if isinstance(message, Start):
            return message.config
        if isinstance(message, Shutdown):
            return None
        _check_parent(parent)


def _build(config: EngineConfig, channel: Channel, parent: int) -> tuple[Engine, EngineSpec]:
    clock = SystemClock()
    if config.fake is not None:
        from dayzero.engine.fake import build_fake_engine

        return build_fake_engine(config, clock)
    from dayzero.engine.build import build_engine  # imports torch, which a fake does not need

    def progress(stage: str, done: int, total: int) -> None:
        _check_parent(parent)
        if done % 16 == 0 or done == total:
            channel.send(Loading(stage, done, total))

    return build_engine(config, clock, progress)


def _serve(engine: Engine, channel: Channel, parent: int) -> None:
    """The loop."""
    while True:
        if not engine.has_work:
            message = channel.receive(IDLE_POLL_S)
            if message is not None and not _take(engine, message):
                return
        for message in channel.drain():
            if not _take(engine, message):
                return
        report = engine.step()
        if report is not None:
            channel.send(report)
        _check_parent(parent)


def _take(engine: Engine, message: ToEngine) -> bool:
    """Hand one message to the engine; False: shut down."""
    match message:
        case Submit():
            engine.submit(message)
        case Tokenizer(json):
            engine.learn(json)
        case Abort(request_id, num_kept):
            engine.abort(request_id, num_kept)
        case Shutdown():
            return False
        case Start():
            logger.warning("started twice")
    return True


def _check_parent(parent: int) -> None:
    if os.getppid() != parent:
        raise ParentDied


def _tidy(endpoint: str) -> None:
    """Remove the socket and its folder, which a gateway that died before it heard of us has left."""
    path = Path(endpoint.removeprefix("ipc://"))
    with contextlib.suppress(OSError):  # it had removed them
        path.unlink()
        path.parent.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[-2], int(sys.argv[-1]), import_torch="--import-torch" in sys.argv))
