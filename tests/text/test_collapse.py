"""Loops are found, within two periods and 48 tokens, and nothing is found in what honestly repeats."""

import json
import random
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from dayzero.text.collapse import MIN_TOKENS, Collapse, CollapseDetector, _may_repeat, is_filler, periods
from dayzero.text.tokenizer import Tokenizer

PROSE = (
    "The harbour lay quiet when the first boats came back. Nobody had expected them before noon, and the women on the "
    "quay counted the masts twice before they believed it. Then somebody laughed, and the bells began.\n\n"
)
SENTENCE = " I am sorry, but I cannot help you with that request today."
BLOCK = "\n".join(f"    item_{n} = compute(value_{n * 37 % 91})" for n in range(92)) + "\n"
CODE_LINE = "        self.assertEqual(result, expected)\n"

LOOPS = {
    "word": " very",
    "fragment": "ing",
    "phrase": " and then we went to the market",
    "sentence": SENTENCE,
    "paragraph": PROSE,
    "block of 92 lines": BLOCK,
    "chinese phrase": "我们继续前进,然后",
}

HONEST = {
    "markdown table": "| a | b | c | d | e | f |\n" + "|---" * 6 + "|\n" + "| 1 | 0 | 0 | 0 | 0 | yes |\n" * 40,
    "wide rule": "Title\n" + "-" * 80 + "\n" + "=" * 80 + "\n",
    "long separators": "\n".join(f"# {'-' * 76}\n# part {n}\n# {'-' * 76}\nx{n} = {n}\n" for n in range(12)),
    "ascii art": "\n".join(" " * (20 - n) + "/" + "*" * 2 * n + "\\" for n in range(20)) + "\n" + "|    |\n" * 12,
    "box": "┌" + "─" * 60 + "┐\n" + ("│" + " " * 60 + "│\n") * 8 + "└" + "─" * 60 + "┘",
    "base64 of zeros": "data: " + "A" * 120 + "==\n",
    "hex dump": "".join(f"{n * 16:08x}  " + "00 " * 16 + " |................|\n" for n in range(12)),
    "json zeros": json.dumps({"counts": [0] * 60, "weights": [0.0] * 20}),
    "number column": "\n".join(["0.00"] * 40),
    "csv": "id,a,b,c\n" + "".join(f"{n},0,0,0\n" for n in range(60)),
    "lyrics": "".join(
        f"Verse {n}: {PROSE}Oh sing it loud, oh sing it low,\nand let the river go\n\n" for n in range(3)
    ),
    "laughter": "ha ha ha ha ha ha! Ha ha ha.",
    "question marks": "What" + "??" * 20 + " Really" + "!" * 30,
    "ellipses": ". . . . . . . . . . and so on" + "." * 60,
    "blank lines": "one" + "\n" * 40 + "two" + " " * 60 + "three",
    "repeated code": "```python\n" + CODE_LINE * 6 + "```\n",
    "drawn out": "noooooooooooooooooooooooooooo, aaaaaaaaaaaaaaaaargh 哈哈哈哈哈哈",
    "emoji": "Well done! 🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉",
    "numbered list": "".join(f"{n}. Check the seal of valve number {n} and note its state.\n" for n in range(40)),
    "prose": PROSE,
}


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, special=False)


def first_finding(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[Collapse | None, int]:
    """The finding, and how many tokens it took."""
    detector = CollapseDetector()
    for count, token in enumerate(ids, 1):
        found = detector.push(token, tokenizer.token_bytes(token))
        if found is not None:
            return found, count
    return None, len(ids)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("before", ["", HONEST["lyrics"]])
def test_a_loop_is_found_within_two_periods_and_48_tokens(smollm: Tokenizer, name: str, before: str) -> None:
    lead, copy = encode(smollm, before), encode(smollm, LOOPS[name])
    copies = 4 + 256 // len(copy)
    found, count = first_finding(smollm, lead + copy * copies)
    assert found is not None
    assert count <= len(lead) + len(copy) + 2 * len(copy) + 48  # a loop is one only from its second copy on
    assert found.tier == (0 if len(copy) == 1 else 1)
    assert len(lead) - 1 <= found.keep <= len(lead) + 1  # the last token before may end as the copies do


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_found_in_honest_output(smollm: Tokenizer, name: str) -> None:
    assert first_finding(smollm, encode(smollm, PROSE + HONEST[name] + "\n" + PROSE))[0] is None


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_found_by_another_vocabulary(coder: Tokenizer, name: str) -> None:
    assert first_finding(coder, encode(coder, PROSE + HONEST[name] + "\n" + PROSE))[0] is None


@pytest.mark.parametrize("fence", ["", "```\n"])
def test_nothing_is_found_in_the_sources_of_this_project(smollm: Tokenizer, fence: str) -> None:
    sources = Path(__file__).resolve().parents[2] / "src"
    for path in sorted(sources.rglob("*.py")):
        ids = encode(smollm, fence + path.read_text(encoding="utf-8") + fence)
        assert first_finding(smollm, ids)[0] is None, path


def test_a_fragment_needs_four_and_a_word_twelve() -> None:
    def needed(spelt: bytes) -> int:
        detector = CollapseDetector()
        return next(n for n in range(1, 100) if detector.push(7, spelt) is not None)

    assert needed(b"ing") == 4
    assert needed(b" very") == 12
    assert needed(b"--") == needed(b" ") == needed(b"AAAA") == 64


def test_a_run_is_doubted_from_its_second_token_until_it_breaks() -> None:
    detector = CollapseDetector()
    clean = []
    for token in (1, 2, 2, 2, 3):
        detector.push(token, b"ab")
        clean.append(detector.num_clean)
    assert clean == [1, 2, 2, 2, 5]


def test_after_a_run_it_goes_on_from_the_first_of_it() -> None:
    detector = CollapseDetector()
    assert [detector.push(token, b"ing") for token in (1, 2, 2, 2)] == [None] * 4
    found = detector.push(2, b"ing")
    assert found is not None
    assert (found.keep, found.bans, detector.num_clean) == (2, (2,), 2)
    detector.resume()
    assert [detector.push(2, b"ing") for _ in range(2)] == [None] * 2
    assert detector.push(2, b"ing") == found


def test_fences_in_a_run_that_was_dropped_were_never_there() -> None:
    detector = CollapseDetector()
    found = next(f for _ in range(99) if (f := detector.push(1, b"\n```x")) is not None)
    assert found.keep == 1
    detector.resume()
    detector.push(2, b"\n")
    copies = [(5 + n % 7, b" w%d" % (n % 7)) for n in range(400)]
    found, count = next((f, n) for n, one in enumerate(copies, 1) if (f := detector.push(*one)) is not None)
    assert found.tier == 1
    assert count >= 8 * 7  # within the fence that the first one opened


def test_after_copies_it_goes_on_from_all_of_them_and_waits_for_as_many_again() -> None:
    detector = CollapseDetector()
    ids = [n % 16 for n in range(400)]
    taken = iter(ids)
    found = next(f for token in taken if (f := detector.push(token, b" w%d" % token)) is not None)
    assert (found.tier, found.keep) == (1, 0)
    assert found.bans == tuple(dict.fromkeys((ids[detector.num_clean], 0)))
    resumed_at = detector.num_clean
    detector.resume()
    again = next(f for token in taken if (f := detector.push(token, b" w%d" % token)) is not None)
    assert again.keep >= resumed_at
    assert detector.num_clean - resumed_at >= 48


@pytest.mark.parametrize("period", [1, 7])
def test_a_bound_output_loops_only_after_64_copies(period: int) -> None:
    detector = CollapseDetector(is_bound=True)
    count = next(n for n in range(1, 1000) if detector.push(n % period, b"ing%d" % (n % period)) is not None)
    assert 64 * period <= count <= 64 * period + 8 + period
    assert detector.num_clean == count


def test_filler_is_never_held_back() -> None:
    detector = CollapseDetector()
    for n in range(1, 60):
        detector.push(1, b"--")
        assert detector.num_clean == n


def test_a_loop_of_fenced_lines_needs_eight_copies(smollm: Tokenizer) -> None:
    ids = encode(smollm, "```python\n" + CODE_LINE * 40)
    found, count = first_finding(smollm, ids)
    line = len(encode(smollm, CODE_LINE))
    assert found is not None
    assert 8 * line <= count <= 10 * line + 48


def test_after_the_fence_three_copies_are_enough(smollm: Tokenizer) -> None:
    found, _ = first_finding(smollm, encode(smollm, "```\nx = 1\n```\n" + SENTENCE * 5))
    assert found is not None


def test_a_table_without_end_is_found_too(smollm: Tokenizer) -> None:
    assert first_finding(smollm, encode(smollm, "| a | b |\n|---|---|\n" + "| x | y |\n" * 200))[0] is not None


def test_a_long_output_is_held_in_part_only_and_counted_whole() -> None:
    drawn = random.Random(0)
    detector = CollapseDetector()
    for _ in range(20_000):
        assert detector.push(drawn.randrange(50_000), b" word") is None
    found = next(f for n in range(400) if (f := detector.push(n % 16, b" w%d" % (n % 16))) is not None)
    assert found.keep == 20_000


def test_periods_are_the_shortest_of_each_prefix() -> None:
    drawn = random.Random(1)
    for _ in range(300):
        ids = [drawn.randrange(2) for _ in range(drawn.randrange(1, 12))]
        expected = [
            next(p for p in range(1, n + 1) if all(ids[i] == ids[i - p] for i in range(p, n)))
            for n in range(1, len(ids) + 1)
        ]
        assert periods(ids) == expected


def test_no_copies_escape_the_search_that_spares_the_rest() -> None:
    """Against the definition: for some n and p, the last n tokens repeat every p, at least 3 times."""
    drawn = random.Random(2)
    found = 0
    for _ in range(3000):
        period = drawn.randrange(2, 40)
        copy = [drawn.randrange(3) for _ in range(period)]
        ids = [drawn.randrange(3) for _ in range(drawn.randrange(60))] + copy * drawn.randrange(1, 6)
        ids += copy[: drawn.randrange(period)]
        if drawn.random() < 0.3:
            ids[drawn.randrange(len(ids))] = 3
        shortest = periods(ids[::-1])
        expected = any(n >= max(MIN_TOKENS, 3 * p) for n, p in enumerate(shortest, 1))
        found += expected
        assert _may_repeat(array("I", ids)) or not expected
    assert 1000 < found < 2500


def test_filler_is_no_text_with_letters() -> None:
    assert is_filler("| 0.0 |\n")
    assert is_filler("")
    assert not is_filler("a b")
