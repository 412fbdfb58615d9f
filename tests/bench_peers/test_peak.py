"""What products cost in operations, by hand and by the checkpoint's tensors."""

from pathlib import Path

from bench.peers.peak import CONCURRENT, PREFILL, weights, work


def test_a_prompt_asks_its_last_row_only_for_a_token() -> None:
    tokens, ops = work(layers=1000, head=10)[PREFILL]
    assert tokens == 1024
    assert ops == 2 * (1024 * 1000 + 10)


def test_the_last_output_of_a_request_is_never_read() -> None:
    """128 in and 128 out: 255 rows of the layers, and a row of the head for each output."""
    tokens, ops = work(layers=1000, head=10)[CONCURRENT]
    assert tokens == 32 * 128
    assert ops == 32 * 2 * (255 * 1000 + 128 * 10)


def test_weights_of_a_checkpoint_are_counted_by_its_shapes_and_a_tied_head_is_its_embedding(smollm2: Path) -> None:
    """30 layers of 576 in 9 and 3 heads of 64, and 1,536; a vocabulary of 49,152."""
    layers, head = weights(smollm2)
    assert layers == 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
    assert head == 49152 * 576
