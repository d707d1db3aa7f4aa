"""What iperf3 3.12 and later write with --json, as far as it is used: typed, checked, finite. Pure.

The program may run in a guest or on another host: what it wrote is not to be trusted before it was checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from iolab.lab.topology import Endpoint
from iolab.results.metric import Dimensions, unit_of
from iolab.results.series import Series, series
from iolab.trial.streams.iperf3 import Pair
from iolab.units import NS_PER_S
from iolab.untrusted_json import read_untrusted

UNREACHED = "unable to connect"
"""What iperf3 says where the receiver was not reached."""
ADVICE = {
    "socket buffer size": "; the window is more than net.core.rmem_max and wmem_max allow: raise them on the host",
    UNREACHED: "; do the addresses reach each other? `iolab plan` shows them",
}
"""What to do about errors that iperf3 reports in few words."""
SILENT_S = 0.25
"""Where nothing arrived for so long before the end, what was sent meanwhile is lost: no queue holds it back alone."""
STANDING_RATIO = 0.01
"""An interval with less of the mean rate has nothing in it: what was on its way arrives."""

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]


class _Part(BaseModel):
    """A part of the report; what is not used of it is not looked at."""

    model_config = ConfigDict(frozen=True)


class Total(_Part):
    """The sum over a flow's parallel connections, from one end's view."""

    bits_per_second: Amount
    """Payload [bit/s]."""
    packets: Count | None = None
    """UDP datagrams; None: TCP."""
    lost_packets: Count | None = None
    """UDP datagrams that did not arrive."""
    jitter_ms: Amount | None = None
    """Interarrival jitter (RFC 3550) [ms]."""
    retransmits: Count | None = None
    """TCP segments sent again."""


class Connection(_Part):
    """One TCP connection's summary."""

    sender: StrictBool = False
    """Whether the reporting process sent on it."""
    mean_rtt: Amount | None = None
    """Smoothed round-trip time, mean [us]; 0 or None: not known."""


class EndStream(_Part):
    """One connection at the end."""

    sender: Connection | None = None
    """None: UDP."""


class CpuUse(_Part):
    """CPU of the reporting process."""

    host_total: Amount
    """[percent of one CPU]."""


class End(_Part):
    """The summary."""

    streams: tuple[EndStream, ...]
    sum_sent: Total
    sum_received: Total
    sum_sent_bidir_reverse: Total | None = None
    sum_received_bidir_reverse: Total | None = None
    cpu_utilization_percent: CpuUse
    sender_tcp_congestion: str | None = None
    """What controls the congestion of the reporting process where it sends, as the kernel told; None: UDP."""


class IntervalStream(_Part):
    """One connection in one interval."""

    bytes: Count
    sender: StrictBool
    start: Amount = 0.0
    """Since the first one's start [s]."""
    end: Amount = 0.0
    """The same of its end [s]."""
    packets: Count | None = None
    """UDP datagrams: of a sender those sent, of a receiver those that should have come by their numbers."""
    lost_packets: Annotated[int, Field(strict=True)] | None = None
    """Of these, those that did not come; below zero where late ones had been counted before."""
    retransmits: Count | None = None
    """TCP segments sent again."""
    snd_cwnd: Count | None = None
    """TCP's congestion window [bytes]."""
    rtt: Count | None = None
    """TCP's smoothed round-trip time [us]; 0: not known."""
    omitted: StrictBool = False
    """Whether it is of the warm-up."""


class Interval(_Part):
    """A part of the time, warm-up included."""

    streams: tuple[IntervalStream, ...]


class Report(_Part):
    """A whole report."""

    intervals: tuple[Interval, ...]
    end: End
    raw: Mapping[str, Any]
    """The same, as written."""


def parse_report(text: str) -> Report:
    """Return iperf3's report.

    Raises:
        ValueError: iperf3 reported an error, or the text is not its report; the message says which.
    """
    if text.startswith("Usage:"):  # its complaint is on standard error
        raise ValueError("iperf3 does not take these options")
    try:
        written = read_untrusted(text)
    except ValueError as error:
        raise ValueError(f"iperf3's report is not JSON ({error}): {text[:200]!r}") from error
    if not isinstance(written, dict) or "end" not in written:
        raise ValueError(f"iperf3's report has no end section: {text[:200]!r}")
    if "error" in written:
        said = str(written["error"])[:500]
        raise ValueError(
            f"iperf3: {said}{next((told for words, told in ADVICE.items() if words in said), '')}"
        )
    try:
        return Report.model_validate({**written, "raw": written})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"iperf3's report, {place}: {first['msg']}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """One direction of one pair, as iperf3 reports it. Counts are without warm-up unless said."""

    src: Endpoint
    """The sender."""
    dst: Endpoint
    """The receiver."""
    sent_bps: float
    """Payload the sender handed to its socket [bit/s]."""
    received_bps: float
    """Payload that the receiver read [bit/s]."""
    delivered_bytes: int
    """Payload that the receiver read, warm-up included [bytes]."""
    datagrams: int
    """UDP datagrams sent; 0 for TCP."""
    lost_datagrams: int
    """UDP datagrams that did not arrive; 0 for TCP."""
    jitter_ns: float | None
    """UDP interarrival jitter (RFC 3550) [ns]."""
    retransmits: int | None
    """TCP segments sent again."""
    rtt_mean_ns: float | None
    """TCP smoothed round-trip time, mean over parallel connections [ns]."""
    cpu_src_ratio: float
    """CPU of the sending iperf3 process [ratio of one CPU]; for --bidir of the whole process."""
    cpu_dst_ratio: float
    """CPU of the receiving iperf3 process [ratio of one CPU]."""
    handed_bytes: int = 0
    """Payload that the sender handed to its socket, warm-up included [bytes]."""
    stood_ns: int = 0
    """Longest time between the first and the last byte in which none arrived [ns]."""


class _Datagrams(TypedDict):
    """What FlowReport says of datagrams."""

    datagrams: int
    lost_datagrams: int
    jitter_ns: float | None


def flow_reports(pair: Pair, client: Report, server: Report) -> list[FlowReport]:
    """Return the flows of one pair: client to server, and for --bidir also back.

    Raises:
        ValueError: a report lacks a part that it should have.
    """
    end = client.end
    there = _flow(pair.client, pair.server, client, server, end.sum_sent, end.sum_received)
    if not pair.bidir:
        return [there]
    if end.sum_sent_bidir_reverse is None or end.sum_received_bidir_reverse is None:
        raise ValueError("iperf3's report has no sums of the way back")
    back = (end.sum_sent_bidir_reverse, end.sum_received_bidir_reverse)
    return [there, _flow(pair.server, pair.client, server, client, *back)]


def _flow(
    src: Endpoint, dst: Endpoint, sender: Report, receiver: Report, sent: Total, received: Total
) -> FlowReport:
    rtts_us = _rtts_us(sender)
    return FlowReport(
        src=src,
        dst=dst,
        sent_bps=sent.bits_per_second,
        received_bps=received.bits_per_second,
        delivered_bytes=_bytes(receiver, sending=False),
        handed_bytes=_bytes(sender, sending=True),
        stood_ns=_stood_ns(receiver),
        **_datagrams(sent, received, receiver),
        retransmits=sent.retransmits,
        rtt_mean_ns=sum(rtts_us) / len(rtts_us) * 1e3 if rtts_us else None,
        cpu_src_ratio=sender.end.cpu_utilization_percent.host_total / 100,
        cpu_dst_ratio=receiver.end.cpu_utilization_percent.host_total / 100,
    )


def _rtts_us(sender: Report) -> list[float]:
    """Return the round-trip times that a sender read after the warm-up; else the means of its connections.

    Those means are of the warm-up, too: of a long path slow start lasts for seconds, with the queue empty.
    """
    rows = (row for interval in sender.intervals for row in interval.streams)
    found = [float(row.rtt) for row in rows if row.sender and row.rtt and not row.omitted]
    ends = (stream.sender for stream in sender.end.streams if stream.sender is not None)
    return found or [float(one.mean_rtt) for one in ends if one.sender and one.mean_rtt]


def _datagrams(sent: Total, received: Total, receiver: Report) -> _Datagrams:
    """Return what became of datagrams.

    Each end leaves its own warm-up out. Over a delay these are different datagrams: what is lost of those of the
    sender's warm-up counts in the receiver's time. So with a warm-up both counts are the receiver's.
    """
    if received.packets is None:
        return _Datagrams(datagrams=0, lost_datagrams=0, jitter_ns=None)
    if sent.packets is None or received.lost_packets is None or received.jitter_ms is None:
        raise ValueError("iperf3's report counts datagrams at one end only")
    counted, lost = sent.packets, received.lost_packets
    rows = [row for interval in receiver.intervals for row in interval.streams if not row.sender]
    own = [
        row for row in rows if not row.omitted and row.packets is not None and row.lost_packets is not None
    ]
    if own and len(own) < len(rows):
        counted = sum(row.packets or 0 for row in own)
        lost = max(0, sum(row.lost_packets or 0 for row in own))
    elif _silent_at_end_s(receiver) >= SILENT_S:
        # The receiver knows no number after the last that arrived: what was sent while nothing came is lost as well.
        arrived = sum((row.packets or 0) - (row.lost_packets or 0) for row in rows)
        lost = max(lost, counted - arrived)
    if lost > counted:
        raise ValueError(f"iperf3 reports {lost} datagrams lost of {counted} sent")
    return _Datagrams(datagrams=counted, lost_datagrams=lost, jitter_ns=received.jitter_ms * 1e6)


def _silent_at_end_s(receiver: Report) -> float:
    """Return for how long nothing arrived before the end [s]."""
    silent = 0.0
    for interval in reversed(receiver.intervals):
        rows = [row for row in interval.streams if not row.sender]
        if any(row.bytes for row in rows):
            break
        silent += max(0.0, rows[0].end - rows[0].start) if rows else 0.0
    return silent


def _stood_ns(receiver: Report) -> int:
    """Return the longest time in which nothing arrived, once something had, and before the last did [ns]."""
    spans = []
    for interval in receiver.intervals:
        rows = [row for row in interval.streams if not row.sender]
        if rows:
            spans.append((sum(row.bytes for row in rows), max(0.0, rows[0].end - rows[0].start)))
    least = STANDING_RATIO * sum(count for count, _ in spans) / max(1, len(spans))
    longest = standing = 0.0
    begun = False
    for count, seconds in spans:
        longest = max(longest, standing) if count > least else longest
        standing = 0.0 if count > least or not begun else standing + seconds
        begun = begun or count > least
    return int(longest * NS_PER_S)


def _bytes(report: Report, *, sending: bool) -> int:
    rows = (row for interval in report.intervals for row in interval.streams)
    return sum(row.bytes for row in rows if row.sender is sending)


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
    yield from _told("rtt_ns", sent, begin_ns, of, _rtt_ns)
    yield from _told("cwnd_bytes", sent, begin_ns, of, _cwnd_bytes)
    yield from _told("retransmits", sent, begin_ns, of, _retransmits)


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
        yield series(name, unit_of(name), points, of, SOURCE)


def _told(
    name: str,
    rows: Rows,
    begin_ns: int,
    of: Dimensions,
    read: Callable[[Sequence[IntervalStream]], float | None],
) -> Iterator[Series]:
    """Yield what TCP said; nothing of datagrams, and nothing where it was not known in any interval."""
    points = [(begin_ns + end, value) for end, _, own in rows if (value := read(own)) is not None]
    if points:
        yield series(name, unit_of(name), points, of, SOURCE)


def _rtt_ns(rows: Sequence[IntervalStream]) -> float | None:
    known = [one.rtt for one in rows if one.rtt]
    return 1000.0 * sum(known) / len(known) if known else None


def _cwnd_bytes(rows: Sequence[IntervalStream]) -> float | None:
    known = [one.snd_cwnd for one in rows if one.snd_cwnd]
    return float(sum(known)) if len(known) == len(rows) else None


def _retransmits(rows: Sequence[IntervalStream]) -> float | None:
    known = [one.retransmits for one in rows if one.retransmits is not None]
    return float(sum(known)) if known else None
