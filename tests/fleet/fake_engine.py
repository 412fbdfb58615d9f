"""A child process that speaks the engine's side of the wire. `EngineConfig.model` says how it behaves."""

import os
import sys

import msgspec

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.spec import EngineSpec
from dayzero.wire.channel import Channel
from dayzero.wire.messages import (
    PROTOCOL_VERSION,
    Abort,
    Fatal,
    Hello,
    Load,
    Loading,
    Ready,
    Shutdown,
    Start,
    StepReport,
    Submit,
)

SPEC = EngineSpec(
    model="fake",
    family="fake",
    dtype="float32",
    precision="none",
    vocab_size=1000,
    embedding_size=8,
    max_context=4096,
    eos_token_ids=(),
    weight_bytes=0,
    block_size=16,
    kv_blocks=64,
    kv_bytes=0,
    kv_dtype="none",
    max_requests=8,
    max_step_tokens=64,
    threads=1,
    prefix_cache=True,
    numerics_id="fake",
    policy_version="fake-1",
    kernels=(),
)


def run(endpoint: str) -> None:
    parent = os.getppid()
    channel = Channel(endpoint)
    if "--protocol-9" in sys.argv:
        channel.send(Hello(protocol=9))
    elif "--mute" not in sys.argv:
        channel.send(Hello(protocol=PROTOCOL_VERSION))
    start = None
    while start is None:
        if os.getppid() != parent:
            return
        start = channel.receive(0.05)
    assert isinstance(start, Start)
    behave(channel, start.config.model, parent)


def behave(channel: Channel, model: str, parent: int) -> None:
    if model == "dies":
        os._exit(7)
    if model.startswith("fatal"):
        channel.send(Fatal("cannot load: x", "do y", int(model[-1])))
        channel.close()
        os._exit(int(model[-1]))
    channel.send(Loading("weights", 1, 2))
    channel.send(Ready(SPEC))
    if model == "babbles":
        channel._socket.send(msgspec.msgpack.encode({"type": "gossip"}))
    serve(channel, model, parent)


def serve(channel: Channel, model: str, parent: int) -> None:
    """One token a step for every running request: 0, 1, 2, ...; it ends at max_tokens."""
    running: dict[int, tuple[Submit, int]] = {}
    steps = 0
    while os.getppid() == parent:
        message = channel.receive(0.001 if running else 0.05)
        messages = [] if message is None else [message, *channel.drain()]
        for message in messages:
            match message:
                case Submit():
                    running[message.request_id] = (message, 0)
                case Abort():
                    running.pop(message.request_id, None)
                case Shutdown():
                    if model != "stubborn":
                        channel.close()
                        return
        events = []
        for request_id, (submit, produced) in list(running.items()):
            finish = FinishReason.LENGTH if produced + 1 == submit.params.max_tokens else None
            events.append(TokenEvent(request_id, [produced], finish=finish))
            running[request_id] = (submit, produced + 1)
            if finish:
                del running[request_id]
        steps += 1
        if events or messages:
            channel.send(StepReport(events, Load(running=len(running), steps=steps)))


if __name__ == "__main__":
    run(sys.argv[-2])  # the last is the parent
