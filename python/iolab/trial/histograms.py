"""Merge the agent's histograms and compute their quantiles. Pure."""

from collections.abc import Sequence

from iolab.agent.messages import Histogram
from iolab.results.packets import Summary

EXACT_BITS = 8
"""Each value below 2^8 has a separate bucket; from 2^k to 2^(k+1), with k at least 8, buckets have a width of 2^(k-7)
(contract, traffic.run)."""


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return one histogram with the values of all given histograms."""
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
    """Return the upper edge of the quantile's bucket, which is never below the true value, and at most 1/128 above
    it."""
    found = _bucket_of(histogram, share)
    return None if found is None else _edges(histogram, found[0])[1]


def even_quantile(histogram: Histogram, share: float) -> float | None:
    """Return the quantile interpolated within its bucket: at most 1/128 from the true value.

    The values of a bucket are assumed to be spread evenly on both sides of their mean. If one bucket has most values,
    their mean follows from the sum of all values; otherwise it is the bucket's centre. On a path with nearly constant
    times the median therefore agrees with the mean, wherever the bucket's edges are.
    """
    found = _bucket_of(histogram, share)
    if found is None:
        return None
    low, part = found
    first, last = _edges(histogram, low)
    middle = _mean_in(histogram, low)
    if part <= 0.5:
        return first + (middle - first) * part * 2
    return middle + (last - middle) * (part * 2 - 1)


def _bucket_of(histogram: Histogram, share: float) -> tuple[int, float] | None:
    """Return the bucket of a quantile, and its relative position in the bucket, from 0 to 1; None for an empty
    histogram."""
    if not histogram.count or histogram.max is None:
        return None
    rank = max(1, -int(-share * histogram.count // 1))
    passed = 0
    for low, count in histogram.buckets:
        if passed + count >= rank:
            return low, 1.0 if rank == histogram.count else (rank - passed - 0.5) / count
        passed += count
    return histogram.max, 1.0


def _edges(histogram: Histogram, low: int) -> tuple[int, int]:
    """Return the minimum and maximum value of a bucket, limited to the observed range."""
    least, most = histogram.min or 0, histogram.max or 0
    return max(low, least), max(least, min(last_of(low), most))


def _mean_in(histogram: Histogram, low: int) -> float:
    """Return the mean of the values in a bucket."""
    first, last = _edges(histogram, low)
    count = dict(histogram.buckets).get(low, 0)
    if 2 * count <= histogram.count or histogram.above:
        return (first + last) / 2
    others = sum(sum(_edges(histogram, one)) / 2 * many for one, many in histogram.buckets if one != low)
    return min(max(first, (histogram.sum - others) / count), last)


def last_of(low: int) -> int:
    """Return the maximum value of the bucket that starts with `low`."""
    power = low.bit_length() - 1
    return low if power < EXACT_BITS else low + (1 << (power - EXACT_BITS + 1)) - 1


def summary(histogram: Histogram) -> Summary | None:
    """Return a histogram's summary; None if it is empty."""
    if not histogram.count or histogram.min is None or histogram.max is None:
        return None
    p50, p99, p999 = (round(even_quantile(histogram, share) or 0) for share in (0.5, 0.99, 0.999))
    mean = histogram.sum / histogram.count
    return Summary(histogram.count, histogram.min, mean, p50, p99, p999, histogram.max)
