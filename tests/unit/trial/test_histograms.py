"""Histograms: quantiles never flatter, and merging forgets nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.agent.messages import Histogram
from iolab.trial.histograms import even_quantile, last_of, merged, quantile, summary

NOTHING = Histogram(count=0, sum=0, min=None, max=None, above=0, buckets=())


@given(st.lists(st.integers(0, 2**36), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_quantile_is_never_below_the_truth_and_at_most_1_in_128_above(
    values: list[int], share: float
) -> None:
    """Against the sorted values themselves, in the buckets of the contract."""
    found = histogram(values)
    truth = sorted(values)[max(1, -int(-share * len(values) // 1)) - 1]
    assert truth <= (quantile(found, share) or 0) <= truth * (1 + 1 / 128) + 1


@given(st.lists(st.integers(0, 2**36), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_an_even_quantile_is_within_1_in_128_of_the_truth_and_of_what_was_seen(
    values: list[int], share: float
) -> None:
    """On both sides; the largest value is exact."""
    found = histogram(values)
    truth = sorted(values)[max(1, -int(-share * len(values) // 1)) - 1]
    shown = even_quantile(found, share)
    assert shown is not None
    assert abs(shown - truth) <= truth / 128 + 1
    assert min(values) <= shown <= max(values)
    assert even_quantile(found, 1.0) == max(values)


@pytest.mark.parametrize("delay_ns", [1_000_000, 2_041_000, 50_000_000, 199_260_000])
@pytest.mark.parametrize("late", [0, 20])
def test_on_a_constant_path_the_median_is_not_above_the_mean_by_a_bucket(delay_ns: int, late: int) -> None:
    """Times scatter by 2 us evenly, a hundredth is late: where a bucket is up to 1 ms wide, the median is right to 1 %
    of it."""
    found = histogram([*(delay_ns + scatter for scatter in range(-1_000, 1_000)), *[delay_ns * 2] * late])
    median = even_quantile(found, 0.5)
    assert median is not None
    assert abs(median - delay_ns) < 1_000 + late * delay_ns / 128 / 2_000
    short = summary(found)
    assert short is not None
    assert short.p50 == round(median)


@given(st.lists(st.integers(0, 2**20), max_size=50), st.lists(st.integers(0, 2**20), max_size=50))
def test_merging_is_as_if_all_had_been_counted_together(some: list[int], others: list[int]) -> None:
    """Counts, extremes and buckets."""
    assert merged([histogram(some), histogram(others)]) == histogram([*some, *others])


def test_an_empty_histogram_has_no_summary() -> None:
    """No frame arrived: no figure, not 0."""
    assert summary(NOTHING) is None
    assert quantile(NOTHING, 0.5) is None


def histogram(values: list[int]) -> Histogram:
    """Return the values as the agent counts them."""
    counts: dict[int, int] = {}
    for value in values:
        shift = max(0, value.bit_length() - 8)
        low = value >> shift << shift
        assert low <= value <= last_of(low)
        counts[low] = counts.get(low, 0) + 1
    return Histogram(
        count=len(values),
        sum=sum(values),
        min=min(values, default=None),
        max=max(values, default=None),
        above=0,
        buckets=tuple(sorted(counts.items())),
    )
