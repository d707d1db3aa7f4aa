"""The agent's histograms: merged, and asked for quantiles. Pure."""

from collections.abc import Sequence

from iolab.agent.traffic import Histogram
from iolab.record.load import Summary

EXACT_BITS = 8
"""Buckets from 2^8 on are 2^(k-7) wide (contract, traffic.run); below, each value has its own."""


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return one histogram of all values."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for low, count in histogram.buckets:
            counts[low] = counts.get(low, 0) + count
    least = [histogram.min for histogram in histograms if histogram.min is not None]
    most = [histogram.max for histogram in histograms if histogram.max is not None]
    return Histogram(
        count=sum(histogram.count for histogram in histograms),
        sum=sum(histogram.sum for histogram in histograms),
        min=min(least, default=None),
        max=max(most, default=None),
        above=sum(histogram.above for histogram in histograms),
        buckets=tuple(sorted(counts.items())),
    )


def quantile(histogram: Histogram, share: float) -> int | None:
    """Return the upper edge of the bucket that holds the rank: never below the truth, at most 1/128 above."""
    found = _bucket_of(histogram, share)
    return None if found is None else found[1]


def even_quantile(histogram: Histogram, share: float) -> float | None:
    """Return the value of the rank, as if those of its bucket lay evenly in it: at most 1/128 above or below.

    On a path where all times are nearly the same it agrees with their mean; the upper edge is above it.
    """
    found = _bucket_of(histogram, share)
    if found is None:
        return None
    first, last, part = found
    return first + (last - first) * part


def _bucket_of(histogram: Histogram, share: float) -> tuple[int, int, float] | None:
    """Return the bucket of a rank: its least and largest value, within what was seen, and how far in the rank is."""
    if not histogram.count or histogram.min is None or histogram.max is None:
        return None
    rank = max(1, -int(-share * histogram.count // 1))
    passed = 0
    for low, count in histogram.buckets:
        if passed + count >= rank:
            first, last = max(low, histogram.min), min(last_of(low), histogram.max)
            return first, last, 1.0 if rank == histogram.count else (rank - passed - 0.5) / count
        passed += count
    return histogram.max, histogram.max, 1.0


def last_of(low: int) -> int:
    """Return the largest value of the bucket that begins with `low`."""
    power = low.bit_length() - 1
    return low if power < EXACT_BITS else low + (1 << (power - EXACT_BITS + 1)) - 1


def summary(histogram: Histogram) -> Summary | None:
    """Return a histogram in short; None where it is empty."""
    if not histogram.count or histogram.min is None or histogram.max is None:
        return None
    p50, p99, p999 = (round(even_quantile(histogram, share) or 0) for share in (0.5, 0.99, 0.999))
    mean = histogram.sum / histogram.count
    return Summary(histogram.count, histogram.min, mean, p50, p99, p999, histogram.max)
