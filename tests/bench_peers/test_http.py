"""A server as a peer: dayzero's own around a model without weights, through the process that asks it."""

import sys
from pathlib import Path

import pytest

from bench.peers.process import PeerFailed, PeerProcess

BENCH = Path(__file__).parents[2] / "bench"
OPTIONS = {
    "command": [sys.executable, str(BENCH / "fake_server.py"), "--port", "{port}"],
    "environment": {},
    "ready": "/ready",
}


def test_a_server_gives_every_prompt_its_tokens_also_after_it_was_stopped(tmp_path: Path) -> None:
    with PeerProcess([sys.executable, str(BENCH / "peers" / "peer_http.py")], {}, tmp_path / "log") as peer:
        peer.load(Path("fake"), 1, OPTIONS)
        assert peer.generate([[1, 2, 3], [4, 5], [6]], 20) > 0  # it checks their number
        peer.suspend()
        peer.resume()
        assert peer.generate([[7]], 2) > 0


def test_a_server_that_ends_at_once_is_told_with_its_status(tmp_path: Path) -> None:
    with PeerProcess([sys.executable, str(BENCH / "peers" / "peer_http.py")], {}, tmp_path / "log") as peer:
        failing = {**OPTIONS, "command": [sys.executable, "-c", "raise SystemExit(7)"]}
        with pytest.raises(PeerFailed, match="ended with status 7"):
            peer.load(Path("fake"), 1, failing)
