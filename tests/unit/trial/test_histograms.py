"""Histograms: quantiles never underestimate, and merging loses nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.agent.messages import Histogram
from iolab.trial.histograms import even_quantile, last_of, merged, quantile, summary

NOTHING = Histogram(count=0, sum=0, min=None, max=None, above=0, buckets=())


@given(st.lists(st.integers(0, 2**36), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_quantile_is_at_most_one_bucket_above_the_true_value_and_never_below(
    values: list[int], share: float
) -> None:
    """Compare with the sorted values, in the buckets of the contract."""
    found = histogram(values)
    truth = sorted(values)[max(1, -int(-share * len(values) // 1)) - 1]
    assert truth <= (quantile(found, share) or 0) <= truth * (1 + 1 / 128) + 1


@given(st.lists(st.integers(0, 2**36), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_interpolated_quantile_is_within_1_in_128_of_the_true_value_and_within_the_range(
    values: list[int], share: float
) -> None:
    """Check both sides; the maximum is exact."""
    found = histogram(values)
    truth = sorted(values)[max(1, -int(-share * len(values) // 1)) - 1]
    shown = even_quantile(found, share)
    assert shown is not None
    assert abs(shown - truth) <= truth / 128 + 1
    assert min(values) <= shown <= max(values)
    assert even_quantile(found, 1.0) == max(values)


@pytest.mark.parametrize("delay_ns", [1_000_000, 2_041_000, 50_000_000, 199_260_000])
@pytest.mark.parametrize("late", [0, 20])
def test_median_of_a_constant_path_has_no_bucket_bias(delay_ns: int, late: int) -> None:
    """Check a constant delay with 2 us of spread and 1 % late frames, in buckets of up to 1 ms."""
    found = histogram([*(delay_ns + scatter for scatter in range(-1_000, 1_000)), *[delay_ns * 2] * late])
    median = even_quantile(found, 0.5)
    assert median is not None
    assert abs(median - delay_ns) < 1_000 + late * delay_ns / 128 / 2_000
    short = summary(found)
    assert short is not None
    assert short.p50 == round(median)


@given(st.lists(st.integers(0, 2**20), max_size=50), st.lists(st.integers(0, 2**20), max_size=50))
def test_merged_histogram_equals_the_histogram_of_all_values(some: list[int], others: list[int]) -> None:
    """Compare counts, extremes and buckets."""
    assert merged([histogram(some), histogram(others)]) == histogram([*some, *others])


def test_empty_histogram_has_no_summary() -> None:
    """Return None, not 0."""
    assert summary(NOTHING) is None
    assert quantile(NOTHING, 0.5) is None


def histogram(values: list[int]) -> Histogram:
    """Return the values in the agent's histogram format."""
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
