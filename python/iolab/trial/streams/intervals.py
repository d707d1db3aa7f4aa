"""iperf3's own intervals as series: the rate of each flow at both ends, and what TCP said of itself meanwhile. Pure."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from iolab.results.dimensions import Dimensions
from iolab.results.series import Series, series
from iolab.trial.streams.iperf3_report import IntervalStream, Report
from iolab.units import NS_PER_S

SOURCE = "iperf3"
SHORT_RATIO = 0.1
"""An interval of less than this part of the longest, as the last may be, is left out: its rate says nothing."""
Rows = Sequence[tuple[int, int, Sequence[IntervalStream]]]
"""Ends of intervals since the first one's begin [ns], their lengths [ns], and their connections; they rise."""


def interval_series(flow: str, sender: Report, receiver: Report, begin_ns: int) -> Iterator[Series]:
    """Yield what the two ends of a flow reported, warm-up included.

    `begin_ns` is when the client began, since the trial began to measure. Intervals are counted from there by their
    lengths, because iperf3 begins again at 0 after the warm-up. Against the kernels' readings they are early by what
    connecting took.
    """
    of = Dimensions(flow=flow)
    sent, arrived = _rows(sender, sending=True), _rows(receiver, sending=False)
    yield from _rates("received_bps", arrived, begin_ns, of)
    yield from _rates("sent_bps", sent, begin_ns, of)
    yield from _told("rtt_ns", "ns", sent, begin_ns, of, _rtt_ns)
    yield from _told("cwnd_bytes", "byte", sent, begin_ns, of, _cwnd_bytes)
    yield from _told("retransmits", "count", sent, begin_ns, of, _retransmits)


def _rows(report: Report, *, sending: bool) -> Rows:
    """Return the intervals in which an end sent, or received."""
    own = [[row for row in each.streams if row.sender is sending] for each in report.intervals]
    lengths = [int((rows[0].end - rows[0].start) * NS_PER_S) if rows else 0 for rows in own]
    ends = accumulate(lengths)
    least = SHORT_RATIO * max(lengths, default=0)
    return [each for each in zip(ends, lengths, own, strict=True) if each[1] > least]


def _rates(name: str, rows: Rows, begin_ns: int, of: Dimensions) -> Iterator[Series]:
    points = [
        (begin_ns + end, sum(one.bytes for one in own) * 8 * NS_PER_S / length) for end, length, own in rows
    ]
    if points:
        yield series(name, "bit/s", points, of, SOURCE)


def _told(
    name: str,
    unit: str,
    rows: Rows,
    begin_ns: int,
    of: Dimensions,
    read: Callable[[Sequence[IntervalStream]], float | None],
) -> Iterator[Series]:
    """Yield what TCP said; nothing of datagrams, and nothing where it was not known in any interval."""
    points = [(begin_ns + end, value) for end, _, own in rows if (value := read(own)) is not None]
    if points:
        yield series(name, unit, points, of, SOURCE)


def _rtt_ns(rows: Sequence[IntervalStream]) -> float | None:
    known = [one.rtt for one in rows if one.rtt]
    return 1000.0 * sum(known) / len(known) if known else None


def _cwnd_bytes(rows: Sequence[IntervalStream]) -> float | None:
    known = [one.snd_cwnd for one in rows if one.snd_cwnd]
    return float(sum(known)) if len(known) == len(rows) else None


def _retransmits(rows: Sequence[IntervalStream]) -> float | None:
    known = [one.retransmits for one in rows if one.retransmits is not None]
    return float(sum(known)) if known else None
