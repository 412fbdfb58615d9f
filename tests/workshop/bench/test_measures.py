import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.workshop.bench import measures
from dayzero.workshop.bench.measures import LATENCIES, RATES, Distribution, FailureCount, formula, measure
from dayzero.workshop.bench.timeline import Failure, Status, Timeline, Usage


def timeline(**fields):
    return Timeline(**({"session": 0, "turn": 0, "due_s": 0.0, "sent_s": 0.0, "ended_s": 1.0} | fields))


# Sent at 10, outputs at 11.0, 11.5, 13.0 of 1, 3 and 1 tokens, finish reason at 13.0.
FIVE_TOKENS = timeline(
    due_s=9.0, sent_s=10.0, ended_s=13.0, outputs_s=(11.0, 11.5, 13.0), usage=Usage(20, 5, cached_tokens=16)
)


def test_latencies_of_a_hand_made_request():
    assert measures.ttft(FIVE_TOKENS) == [1.0]
    assert measures.chunk_gap(FIVE_TOKENS) == [0.5, 1.5]
    assert measures.itl(FIVE_TOKENS) == [0.5, 1.5, 0.0, 0.0]
    assert measures.tpot(FIVE_TOKENS) == [0.5]
    assert measures.e2e(FIVE_TOKENS) == [3.0]
    assert measures.send_lag(FIVE_TOKENS) == [1.0]


@settings(derandomize=True, max_examples=200)
@given(times=st.lists(st.floats(1, 100), min_size=1, max_size=20), hidden=st.integers(0, 20))
def test_inter_token_latencies_are_one_fewer_than_tokens_and_sum_to_first_to_last(times, hidden):
    outputs_s = tuple(sorted(times))
    request = timeline(outputs_s=outputs_s, ended_s=outputs_s[-1], usage=Usage(1, len(times) + hidden, None))
    gaps = measures.itl(request)
    assert len(gaps) == request.output_tokens - 1
    assert sum(gaps) == pytest.approx(outputs_s[-1] - outputs_s[0])
    if len(gaps) > 0:
        assert measures.tpot(request)[0] == pytest.approx(sum(gaps) / len(gaps))


def test_a_request_of_one_token_has_no_tpot_and_no_gap():
    request = timeline(outputs_s=(0.5,), usage=Usage(1, 1, None))
    assert measures.tpot(request) == measures.itl(request) == measures.chunk_gap(request) == []


def test_a_request_whose_tokens_showed_no_text_has_only_an_end():
    request = timeline(usage=Usage(1, 4, None))
    assert measures.ttft(request) == measures.itl(request) == measures.tpot(request) == []
    assert measures.e2e(request) == [1.0]


def test_more_chunks_than_tokens_add_no_zeros():
    assert measures.itl(timeline(outputs_s=(0.1, 0.2, 0.4), usage=Usage(1, 2, None))) == pytest.approx([0.1, 0.2])


def test_a_report_of_three_requests_by_hand():
    incomplete = timeline(sent_s=12.0, ended_s=20.0, outputs_s=(14.0, 15.0), status=Status.INCOMPLETE)
    failed = timeline(sent_s=12.0, ended_s=14.0, status=Status.FAILED, failure=Failure("http 500", "boom"))
    report = measure([FIVE_TOKENS, incomplete, failed], {})
    assert report.duration_s == 10.0
    assert report.num_by_status == {Status.SUCCESSFUL: 1, Status.FAILED: 1, Status.INCOMPLETE: 1}
    assert report.rates == {
        "output_tokens_per_s": 0.7,
        "prompt_tokens_per_s": 2.0,
        "requests_per_s": 0.1,
        "mean_concurrency": pytest.approx((3 + 8 + 2) / 10),
    }
    assert report.latencies["itl_s"].count == 4
    assert report.latencies["ttft_s"].mean == 1.0
    assert (report.prompt_tokens, report.output_tokens, report.cached_token_ratio) == (20, 5, 0.8)
    assert report.failures == (FailureCount("http 500", 1, ("boom",)),)
    assert report.goodput_per_s is None


def test_nothing_sent_is_no_report():
    assert measure([], {}) is None


def test_the_cached_share_counts_only_requests_that_tell_it():
    told, silent = timeline(usage=Usage(10, 1, 5)), timeline(usage=Usage(90, 1, None))
    assert measures.cached_token_ratio([told, silent]) == 0.5
    assert measures.cached_token_ratio([silent]) is None


@pytest.mark.parametrize(
    ("limits_s", "good"),
    [
        ({"ttft_s": 1.0}, True),
        ({"ttft_s": 0.99}, False),
        ({"ttft_s": 1.0, "tpot_s": 0.49}, False),
        ({"ttft_s": 1.0, "tpot_s": 0.5, "e2e_s": 3.0}, True),
        ({"itl_s": 1.4}, False),
        ({"itl_s": 1.5}, True),
    ],
)
def test_a_good_request_meets_every_limit(limits_s, good):
    assert measures.is_good(FIVE_TOKENS, limits_s) is good
    assert measure([FIVE_TOKENS], limits_s).goodput_per_s == (pytest.approx(1 / 3) if good else 0.0)


def test_a_failed_request_is_never_good():
    failed = timeline(outputs_s=(0.1,), status=Status.FAILED, failure=Failure("timeout", ""))
    assert measures.goodput_per_s([failed], 1.0, {"ttft_s": 9.0}) == 0.0


def test_failures_are_counted_by_kind_with_their_first_distinct_messages():
    def failed(kind, message):
        return timeline(status=Status.FAILED, failure=Failure(kind, message))

    wordy = [failed("http 400", word) for word in ("a", "a", "", "b", "c", "d")]
    report = measure([failed("timeout", "t"), *wordy], {})
    assert report.failures == (FailureCount("http 400", 6, ("a", "b", "c")), FailureCount("timeout", 1, ("t",)))


def test_percentiles_interpolate_between_sorted_values():
    distribution = Distribution.of([float(n) for n in range(101)][::-1])
    assert distribution.percentiles == (50.0, 90.0, 95.0, 99.0)
    assert (distribution.count, distribution.mean, distribution.min, distribution.max) == (101, 50.0, 0.0, 100.0)
    assert Distribution.of([0.0, 1.0]).percentile(50) == 0.5
    assert Distribution.of([]) is None


@pytest.mark.parametrize("of", [*LATENCIES.values(), *RATES.values(), measures.cached_token_ratio])
def test_every_measure_prints_a_formula_on_one_line(of):
    assert ":" in formula(of)
    assert "\n" not in formula(of)
