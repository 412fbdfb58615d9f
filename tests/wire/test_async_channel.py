import asyncio
from pathlib import Path

import pytest

from dayzero.core.events import TokenEvent
from dayzero.errors import ConfigError
from dayzero.wire.async_channel import READ_BATCH_MESSAGES, AsyncChannel
from dayzero.wire.channel import Channel, ChannelClosed
from dayzero.wire.messages import Abort, FromEngine, Hello, Load, StepReport


class Pair:
    """Both ends, and what the gateway's end was told."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        endpoint = f"ipc://{folder}/engine"
        self.gateway = AsyncChannel(endpoint)
        self.engine = Channel(endpoint)
        self.received: list[FromEngine] = []
        self.broken: list[ChannelClosed] = []

    def start(self) -> None:
        self._changed = asyncio.Event()
        self.gateway.start(self._on_message, self._on_broken)

    def _on_message(self, message: FromEngine) -> None:
        self.received.append(message)
        self._changed.set()

    def _on_broken(self, error: ChannelClosed) -> None:
        self.broken.append(error)
        self._changed.set()

    async def until(self, count: int) -> list[FromEngine]:
        async with asyncio.timeout(10):
            while len(self.received) < count and not self.broken:
                self._changed.clear()
                await self._changed.wait()
        return self.received

    def close(self) -> None:
        self.engine.close()
        self.gateway.close()


def test_messages_from_before_start_are_delivered(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair = Pair(tmp_path)
        pair.engine.send(Hello(protocol=1))
        pair.start()
        assert await pair.until(1) == [Hello(protocol=1)]
        pair.close()

    asyncio.run(scenario())


def test_a_burst_longer_than_a_read_batch_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair = Pair(tmp_path)
        pair.start()
        count = 5 * READ_BATCH_MESSAGES
        reports = [StepReport([TokenEvent(i, [i])], Load(steps=i)) for i in range(count)]
        for report in reports:
            pair.engine.send(report)
        assert await pair.until(count) == reports
        pair.close()

    asyncio.run(scenario())


def test_sends_do_not_swallow_the_wake_up_of_an_arrival(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair = Pair(tmp_path)
        pair.start()
        for i in range(200):
            pair.engine.send(Hello(protocol=i))
            await pair.until(i + 1)
            pair.gateway.send(Abort(i))
            pair.gateway.send(Abort(i))
        assert len(pair.received) == 200
        pair.close()

    asyncio.run(scenario())


def test_what_is_not_a_message_breaks_the_channel_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        pair = Pair(tmp_path)
        pair.start()
        pair.engine._socket.send(b"\xc1")
        pair.engine._socket.send(b"\xc1")
        await pair.until(1)
        assert pair.received == []
        assert len(pair.broken) == 1
        with pytest.raises(ChannelClosed):
            pair.gateway.send(Abort(1))
        pair.close()

    asyncio.run(scenario())


def test_a_message_that_nobody_takes_is_not_queued(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    channel = AsyncChannel(f"ipc://{tmp_path}/engine")
    assert not channel.send(Abort(1))
    channel.close()
    with pytest.raises(ChannelClosed):
        channel.send(Abort(1))


def test_a_socket_that_the_system_does_not_give_is_a_config_error_that_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "engine").mkdir()
    with pytest.raises(ConfigError, match=r"no socket at .*\nhint: set TMPDIR"):
        AsyncChannel(f"ipc://{tmp_path}/engine")


def test_a_socket_in_an_open_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(ConfigError, match="open to others"):
        AsyncChannel(f"ipc://{tmp_path}/engine")


def test_a_socket_path_that_the_system_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too long"):
        AsyncChannel(f"ipc://{tmp_path}/{'x' * 200}")
