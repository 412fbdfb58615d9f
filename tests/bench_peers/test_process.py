"""A peer as a process: what is said to it comes back, and its failures are told apart from its answers."""

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.family import state
from bench.peers.process import PeerFailed, PeerProcess

# A whole peer: prints as engines do, fails on request, and ends on request.
PEER = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from protocol import serve

class Echo:
    has_prefix_cache = True

    def load(self, model, threads, options):
        print("loading", model)
        return f"{model} {threads} {options['kind']}"

    def generate(self, prompts, output_tokens):
        if output_tokens == 11:
            # A session of its own, as servers give their engines.
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            open(sys.argv[2], "w").write(str(child.pid))
        if output_tokens == 13:
            raise MemoryError("too much")
        if output_tokens == 99:
            os._exit(3)
        return output_tokens * len(prompts) - (output_tokens == 7)

serve(Echo())
"""


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[PeerProcess]:
    folder = Path(__file__).parents[2] / "bench" / "peers"
    with PeerProcess([sys.executable, "-c", PEER, str(folder), str(tmp_path / "pid")], {}, tmp_path / "log") as process:
        yield process


def test_what_an_engine_prints_goes_to_the_log_and_not_among_the_replies(peer: PeerProcess, tmp_path: Path) -> None:
    peer.load(Path("m"), 2, {"kind": "k"})
    assert (peer.version, peer.has_prefix_cache) == ("m 2 k", True)
    assert peer.generate([[1], [2]], 4) >= 0
    peer.close()
    assert (tmp_path / "log").read_text() == "loading m\n"


def test_an_error_is_raised_with_its_reason_and_the_peer_lives_on(peer: PeerProcess) -> None:
    with pytest.raises(PeerFailed, match="MemoryError: too much"):
        peer.generate([[1]], 13)
    assert peer.generate([[1]], 1) >= 0


def test_a_peer_that_stops_early_is_not_believed(peer: PeerProcess) -> None:
    with pytest.raises(PeerFailed, match="6 tokens for 1 prompts"):
        peer.generate([[1]], 7)


def test_a_peer_that_ends_is_told_with_its_status_and_can_still_be_closed(peer: PeerProcess) -> None:
    with pytest.raises(PeerFailed, match="ended with status 3"):
        peer.generate([[1]], 99)
    with pytest.raises(PeerFailed, match="ended with status 3"):
        peer.generate([[1]], 1)


def test_a_suspended_peer_answers_once_it_is_resumed_and_closes_even_while_suspended(peer: PeerProcess) -> None:
    peer.suspend()
    peer.resume()
    assert peer.generate([[1]], 1) >= 0
    peer.suspend()


def test_what_a_peer_has_started_is_stopped_with_it_and_ends_with_it(peer: PeerProcess, tmp_path: Path) -> None:
    peer.generate([[1]], 11)
    child = int((tmp_path / "pid").read_text())
    peer.suspend()
    assert state(child) == "T"
    peer.resume()
    assert peer.generate([[1]], 1) >= 0
    handle = os.pidfd_open(child)
    peer.close()
    assert select.select([handle], [], [], 60)[0], "it lives on"
    os.close(handle)
