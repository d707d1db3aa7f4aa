"""Parse the reports of iperf3 3.12 and later (--json): only the parts that are used, with checked types and finite
numbers. Pure.

The program may run in a guest or on a remote host: its output is untrusted until it is checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from iolab.lab.topology import Endpoint
from iolab.locale import Phrase
from iolab.results.metric import Dimensions, unit_of
from iolab.results.series import Series, series
from iolab.trial.measurement import invalid_field
from iolab.trial.streams.iperf3 import Pair
from iolab.units import NS_PER_S
from iolab.untrusted_json import read_untrusted

IPERF3 = "iperf3"
UNREACHED = "unable to connect"
"""Error message of iperf3 if the receiver was not reached."""
ADVICE = {
    "socket buffer size": Phrase("trial.raise-socket-buffers"),
    UNREACHED: Phrase("trial.check-addresses"),
}
"""Remedies for short iperf3 error messages."""
SILENT_S = 0.25
"""Minimum length of a silence at the end of a stream that no queue can cause; datagrams sent during it count as lost
[s]."""
STANDING_RATIO = 0.01
"""Maximum rate in an interval, as a share of the mean rate, at which the stream stands still: only frames in transit
arrive [ratio]."""

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]


class _Part(BaseModel):
    """A part of the report; unused fields are ignored."""

    model_config = ConfigDict(frozen=True)


class Total(_Part):
    """Sum over a flow's parallel connections at one end."""

    bits_per_second: Amount
    """Payload rate [bit/s]."""
    packets: Count | None = None
    """UDP datagrams; None: TCP."""
    lost_packets: Count | None = None
    """UDP datagrams lost."""
    jitter_ms: Amount | None = None
    """Interarrival jitter (RFC 3550) [ms]."""
    retransmits: Count | None = None
    """Retransmitted TCP segments."""


class Connection(_Part):
    """Summary of one TCP connection."""

    sender: StrictBool = False
    """Whether the reporting process sent on the connection."""
    mean_rtt: Amount | None = None
    """Mean smoothed round-trip time [us]; 0 or None: unknown."""


class EndStream(_Part):
    """Final report of one connection."""

    sender: Connection | None = None
    """Summary of the sending end; None: UDP."""


class CpuUse(_Part):
    """CPU use of the reporting process."""

    host_total: Amount
    """Total CPU use [percent of one CPU]."""


class End(_Part):
    """Summary at the end of a report."""

    streams: tuple[EndStream, ...]
    sum_sent: Total
    sum_received: Total
    sum_sent_bidir_reverse: Total | None = None
    sum_received_bidir_reverse: Total | None = None
    cpu_utilization_percent: CpuUse
    sender_tcp_congestion: str | None = None
    """Congestion control algorithm of the reporting sender, as read from the kernel; None: UDP."""


class IntervalStream(_Part):
    """One connection in one interval."""

    bytes: Count
    sender: StrictBool
    start: Amount = 0.0
    """Time from the start of the first interval to the start of this one [s]."""
    end: Amount = 0.0
    """Time from the start of the first interval to the end of this one [s]."""
    packets: Count | None = None
    """UDP datagrams: the number sent, or, for a receiver, the number expected from the sequence numbers."""
    lost_packets: Annotated[int, Field(strict=True)] | None = None
    """Datagrams lost; negative if late datagrams had been counted as lost before."""
    retransmits: Count | None = None
    """Retransmitted TCP segments."""
    snd_cwnd: Count | None = None
    """TCP congestion window [bytes]."""
    rtt: Count | None = None
    """TCP's smoothed round-trip time [us]; 0: unknown."""
    omitted: StrictBool = False
    """Whether the interval is part of the warm-up."""


class Interval(_Part):
    """One report interval, of the warm-up or of the measured time."""

    streams: tuple[IntervalStream, ...]


class Report(_Part):
    """A complete report."""

    intervals: tuple[Interval, ...]
    end: End
    raw: Mapping[str, Any]
    """Report as parsed JSON."""


def parse_report(text: str) -> Report:
    """Return iperf3's report.

    Raises:
        ValueError: iperf3 reported an error, or the text is not a report; the message states which.
    """
    if text.startswith("Usage:"):  # the error message is on standard error
        raise ValueError(Phrase("trial.options-rejected", program=IPERF3))
    try:
        written = read_untrusted(text)
    except ValueError as error:
        raise ValueError(
            Phrase("trial.report-not-json", program=IPERF3, reason=error, output=repr(text[:200]))
        ) from error
    if not isinstance(written, dict) or "end" not in written:
        raise ValueError(Phrase("trial.report-without-end", program=IPERF3, output=repr(text[:200])))
    if "error" in written:
        said = str(written["error"])[:500]
        advice = next((one for words, one in ADVICE.items() if words in said), "")
        raise ValueError(Phrase("errors.several-clauses", clauses=[f"{IPERF3}: {said}", advice]))
    try:
        return Report.model_validate({**written, "raw": written})
    except ValidationError as error:
        raise ValueError(invalid_field(IPERF3, error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """iperf3's report of one direction of one pair; counts exclude the warm-up unless stated otherwise."""

    src: Endpoint
    """Sender."""
    dst: Endpoint
    """Receiver."""
    sent_bps: float
    """Payload that the sender wrote to its socket [bit/s]."""
    received_bps: float
    """Payload that the receiver read [bit/s]."""
    delivered_bytes: int
    """Payload that the receiver read, including the warm-up [bytes]."""
    datagrams: int
    """UDP datagrams sent; 0 for TCP."""
    lost_datagrams: int
    """UDP datagrams lost; 0 for TCP."""
    jitter_ns: float | None
    """UDP interarrival jitter (RFC 3550) [ns]."""
    retransmits: int | None
    """Retransmitted TCP segments."""
    rtt_mean_ns: float | None
    """TCP smoothed round-trip time, mean over parallel connections [ns]."""
    cpu_src_ratio: float
    """CPU use of the sending iperf3 process [ratio of one CPU]; with --bidir, CPU use of both directions."""
    cpu_dst_ratio: float
    """CPU use of the receiving iperf3 process [ratio of one CPU]."""
    handed_bytes: int = 0
    """Payload that the sender wrote to its socket, including the warm-up [bytes]."""
    stood_ns: int = 0
    """Longest time without arriving bytes, between the first and the last byte [ns]."""


class _Datagrams(TypedDict):
    """Datagram fields of FlowReport."""

    datagrams: int
    lost_datagrams: int
    jitter_ns: float | None


def flow_reports(pair: Pair, client: Report, server: Report) -> list[FlowReport]:
    """Return the flows of one pair: client to server, and for --bidir also the reverse flow.

    Raises:
        ValueError: a report lacks a required part.
    """
    end = client.end
    there = _flow(pair.client, pair.server, client, server, end.sum_sent, end.sum_received)
    if not pair.bidir:
        return [there]
    if end.sum_sent_bidir_reverse is None or end.sum_received_bidir_reverse is None:
        raise ValueError(Phrase("trial.report-without-reverse-sums", program=IPERF3))
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
    """Return the round-trip times that a sender reported after the warm-up; or, without such reports, the means of its
    connections.

    The means include the warm-up: on a long path slow start takes seconds, with an empty queue.
    """
    rows = (row for interval in sender.intervals for row in interval.streams)
    found = [float(row.rtt) for row in rows if row.sender and row.rtt and not row.omitted]
    ends = (stream.sender for stream in sender.end.streams if stream.sender is not None)
    return found or [float(one.mean_rtt) for one in ends if one.sender and one.mean_rtt]


def _datagrams(sent: Total, received: Total, receiver: Report) -> _Datagrams:
    """Return the datagram counts of a flow.

    Each end excludes its own warm-up. With a delay the two ends exclude different datagrams: losses of the sender's
    warm-up count in the receiver's time. With a warm-up, both counts therefore come from the receiver.
    """
    if received.packets is None:
        return _Datagrams(datagrams=0, lost_datagrams=0, jitter_ns=None)
    if sent.packets is None or received.lost_packets is None or received.jitter_ms is None:
        raise ValueError(Phrase("trial.datagrams-counted-at-one-end", program=IPERF3))
    counted, lost = sent.packets, received.lost_packets
    rows = [row for interval in receiver.intervals for row in interval.streams if not row.sender]
    own = [
        row for row in rows if not row.omitted and row.packets is not None and row.lost_packets is not None
    ]
    if own and len(own) < len(rows):
        counted = sum(row.packets or 0 for row in own)
        lost = max(0, sum(row.lost_packets or 0 for row in own))
    elif _silent_at_end_s(receiver) >= SILENT_S:
        # Datagrams sent after the last one that arrived are lost too; the receiver does not count them.
        arrived = sum((row.packets or 0) - (row.lost_packets or 0) for row in rows)
        lost = max(lost, counted - arrived)
    if lost > counted:
        raise ValueError(Phrase("trial.more-lost-than-sent", program=IPERF3, lost=lost, sent=counted))
    return _Datagrams(datagrams=counted, lost_datagrams=lost, jitter_ns=received.jitter_ms * 1e6)


def _silent_at_end_s(receiver: Report) -> float:
    """Return the duration of the silence at the end of a stream [s]."""
    silent = 0.0
    for interval in reversed(receiver.intervals):
        rows = [row for row in interval.streams if not row.sender]
        if any(row.bytes for row in rows):
            break
        silent += max(0.0, rows[0].end - rows[0].start) if rows else 0.0
    return silent


def _stood_ns(receiver: Report) -> int:
    """Return the longest time without arrivals, between the first and the last arrival [ns]."""
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
"""Minimum length of an interval relative to the longest; shorter intervals, such as the last one, are omitted
[ratio]."""
Rows = Sequence[tuple[int, int, Sequence[IntervalStream]]]
"""Interval ends since the start of the first interval [ns], ascending, interval lengths [ns], and connections."""


def interval_series(flow: str, sender: Report, receiver: Report, begin_ns: int) -> Iterator[Series]:
    """Yield the series that the two ends of a flow reported, including the warm-up.

    `begin_ns` is the time from the start of the measurement to the start of the client. Interval times are sums of
    interval lengths, because iperf3 restarts at 0 after the warm-up. Interval times precede the kernels' readings by
    the connection setup time.
    """
    of = Dimensions(flow=flow)
    sent, arrived = _rows(sender, sending=True), _rows(receiver, sending=False)
    yield from _rates("received_bps", arrived, begin_ns, of)
    yield from _rates("sent_bps", sent, begin_ns, of)
    yield from _told("rtt_ns", sent, begin_ns, of, _rtt_ns)
    yield from _told("cwnd_bytes", sent, begin_ns, of, _cwnd_bytes)
    yield from _told("retransmits", sent, begin_ns, of, _retransmits)


def _rows(report: Report, *, sending: bool) -> Rows:
    """Return the intervals in which an end sent or received."""
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
    """Yield a TCP series; yield nothing for datagrams, or if no interval has a value."""
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
