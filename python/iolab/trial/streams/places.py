"""Find limits of a stream at a place on its path: a shaper, a full line, dropped packets. Pure."""

from collections.abc import Iterator

from iolab.messages.caveats import CauseUnsure, OthersDropped
from iolab.messages.evidence import Evidence, OfPlace
from iolab.messages.instrument_warnings import PacerPassed, WireMarked, WireReorders, WireStalled
from iolab.messages.places import AtPort, OnPath, OnWire
from iolab.messages.streams import (
    DatagramsDropped,
    DatagramsInFragments,
    DatagramsLost,
    LineFull,
    ProgramRan,
    SegmentsDropped,
    SegmentsLost,
    ShaperBurst,
    ShaperLetThrough,
    ShaperRate,
    StandingQueue,
    TraceCapacity,
    WireLost,
)
from iolab.results.verdict import Limit, Verdict
from iolab.trial.counters.drops import QDISC, SOCKET, decided
from iolab.trial.streams.evidence import FlowSeen, LineSeen, Program, ShaperSeen, StreamSeen

LOST_RATIO = 1e-3
"""Share of lost datagrams or retransmitted segments above which loss is the limit [ratio]."""
AT_RATE_RATIO = 0.93
"""Share of its configured rate above which a shaper is the limit; slow start takes a part of a 1 s trial [ratio]."""
HELD_BACK_RATIO = 0.1
"""Minimum number of throttled dequeues per packet at which a shaper of unknown rate is the limit [ratio]."""
WAITED_RATIO = 0.6
"""Minimum share of readings with waiting packets that shows that a queue was never empty for long [ratio]."""
STANDING_RATIO, STANDING_USED = 1.3, 0.8
"""Ratio of the round-trip time to its minimum, and used share of a line, that together show a standing queue."""
TRACE_USED = 0.85
"""Used share of a trace's capacity above which the line is the limit: short pauses of the trace do not fill a queue
[ratio]."""
SEGMENTS = 45
"""Maximum number of 1448-byte segments in a packet: segmentation offloads make packets of up to 64 KiB."""
SPARE = 100
"""Number of drops in excess of the missing packets up to which the cause of the drops counts as certain."""


def ran(program: Program) -> ProgramRan:
    """Return evidence of the shares of time in which a program ran and in which it waited for a CPU."""
    return ProgramRan(machine=program.machine, busy_ratio=program.run_ratio, wait_ratio=program.wait_ratio)


def shaped(flow: FlowSeen, _: StreamSeen) -> Verdict | None:
    """Return a verdict if a shaper passed its full rate or dropped most of the missing packets; else None."""
    for one in flow.shapers:
        place = one.shaper.place
        drops = [
            drop.frames for drop in flow.drops if (drop.place, drop.reason) == (AtPort(port=place), QDISC)
        ]
        found = _at_rate(flow, one, one.shaper.dropped_frames if one.back else sum(drops))
        if found is not None:
            return found
    for pacer in flow.pacers:
        if AT_RATE_RATIO * pacer.rate_bps <= pacer.passed_bps <= pacer.rate_bps / AT_RATE_RATIO:
            passed = PacerPassed(place=pacer.place, passed_bps=pacer.passed_bps, rate_bps=pacer.rate_bps)
            return Verdict(Limit.SHAPER, (passed,), AtPort(port=pacer.place))
    return None


def _at_rate(flow: FlowSeen, seen: ShaperSeen, dropped_packets: int) -> Verdict | None:
    shaper, place = seen.shaper, AtPort(port=seen.shaper.place)
    rate_bps = min(shaper.rates_bps, key=lambda rate: abs(rate - seen.passed_bps), default=None)
    said: list[Evidence] = [
        ShaperLetThrough(
            shaper=shaper.kind,
            place=shaper.place,
            passed_bps=seen.passed_bps,
            held_back=shaper.held_back,
            dropped_packets=dropped_packets,
        )
    ]
    waited = flow.waiting.get(shaper.place, 0.0) >= WAITED_RATIO
    if rate_bps is not None:
        at_rate = AT_RATE_RATIO * rate_bps <= seen.passed_bps <= rate_bps / AT_RATE_RATIO
        spent = seen.change is not None and seen.change.before_bps * AT_RATE_RATIO > rate_bps
        below = seen.passed_bps <= rate_bps / AT_RATE_RATIO
        if not shaper.held_back or not (at_rate or (below and (waited or spent))):
            return None
        said.append(ShaperRate(rate_bps=rate_bps))
    elif not waited and shaper.held_back < HELD_BACK_RATIO * shaper.passed_frames:
        return None
    if seen.change is not None and seen.change.before_bps > seen.passed_bps:
        said.append(ShaperBurst(burst_bps=seen.change.before_bps, until_ns=seen.change.at_ns))
    if seen.back:
        said.append(OfPlace(code="on-way-back", place=shaper.place))
    certain = (
        rate_bps is not None or waited or (bool(dropped_packets) and 2 * dropped_packets >= flow.missing)
    )
    return Verdict(Limit.SHAPER, tuple(said), place, None if certain else CauseUnsure(code="shaper-unknown"))


def full_line(flow: FlowSeen, _: StreamSeen) -> Verdict | None:
    """Return a verdict if an emulated line was full: by its rate or trace, its queue's losses, or a standing queue;
    else None."""
    for line in flow.lines:
        said = _full(flow, line)
        if said:
            return Verdict(Limit.LINE, (*said, *_on_line(line)), AtPort(port=line.place))
    return None


def _on_line(line: LineSeen) -> Iterator[Evidence]:
    """Yield additional evidence of a full line: stalls, ECN marks, losses."""
    if line.stall_ns:
        yield WireStalled(link=line.link, length_ns=line.stall_ns, every_ns=line.stall_every_ns)
    if line.marked_frames:
        yield WireMarked(link=line.link, marked_frames=line.marked_frames, offered_frames=line.arrived_frames)
    if line.lost_frames:
        yield WireLost(link=line.link, lost_frames=line.lost_frames, offered_frames=line.arrived_frames)


def _full(flow: FlowSeen, line: LineSeen) -> tuple[Evidence, ...]:
    """Return the evidence that a line was full; empty if it was not."""
    carried: tuple[Evidence, ...] = ()
    if line.rate_bps is not None:
        carried = (LineFull(place=line.place, passed_bps=line.passed_bps, line_bps=line.rate_bps),)
    elif line.capacity_bytes:
        used, offered = line.passed_bytes, line.capacity_bytes
        carried = (TraceCapacity(place=line.place, used_bytes=used, capacity_bytes=offered),)
    if line.used_ratio >= (TRACE_USED if line.rate_bps is None else AT_RATE_RATIO):
        return carried
    if line.lost_frames and _lossy(flow) and 2 * line.lost_frames >= flow.missing:
        return carried
    tcp = flow.tcp
    if tcp is not None and line.marked_frames > LOST_RATIO * line.arrived_frames:
        return carried
    rtt_ns = 0 if tcp is None else tcp.mean_rtt_ns or tcp.rtt_ns
    if tcp is None or not tcp.least_rtt_ns or rtt_ns < STANDING_RATIO * tcp.least_rtt_ns:
        return ()
    if line.used_ratio < STANDING_USED:
        return ()
    return (*carried, StandingQueue(rtt_ns=rtt_ns, least_rtt_ns=tcp.least_rtt_ns))


def dropped(flow: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """Return a verdict if one place, on the path or at the receiving socket, dropped the missing packets; else
    None."""
    missing = flow.missing
    if not _lossy(flow) or not flow.drops:
        return None
    worst = flow.drops[0]
    wire = worst.place.link if isinstance(worst.place, OnWire) else ""
    # Counters count packets, TCP counts the segments in a packet, and an emulated path counts frames.
    each = 1 if flow.protocol == "udp" or wire else SEGMENTS
    if 2 * worst.frames * each < missing:
        return None
    doubt = worst.doubt
    if doubt is None and worst.frames > 2 * flow.fragments * sum(one.missing for one in seen.flows) + SPARE:
        doubt = OthersDropped(place=worst.place, dropped_frames=worst.frames, lost_frames=missing)
    frames, place, reason = min(worst.frames, missing), worst.place, worst.reason
    said: list[Evidence] = [
        DatagramsDropped(lost=missing, dropped=frames, place=place, reason=reason)
        if flow.protocol == "udp"
        else SegmentsDropped(retransmits=missing, dropped=frames, place=place, reason=reason)
    ]
    if flow.wire_frames.get(wire):
        said.append(WireLost(link=wire, lost_frames=worst.frames, offered_frames=flow.wire_frames[wire]))
    if flow.fragments > 1:
        said.append(DatagramsInFragments(fragments=flow.fragments, incomplete=flow.reassembly_failed))
    if worst.reason == SOCKET:
        said += () if flow.receiver is None else (ran(flow.receiver),)
        return Verdict(Limit.RECEIVER, tuple(said), worst.place, doubt)
    return Verdict(Limit.RULE if decided(worst) else Limit.HOP, tuple(said), worst.place, doubt)


def lossy_path(flow: FlowSeen, _: StreamSeen) -> Verdict | None:
    """Return a verdict if packets were lost on the path and no drop counter accounts for them; else None."""
    if not _lossy(flow):
        return None
    if flow.protocol == "udp":
        lost = DatagramsLost(lost=flow.lost_datagrams, sent=flow.datagrams)
        cut = DatagramsInFragments(fragments=flow.fragments, incomplete=flow.reassembly_failed)
        return Verdict(Limit.UNEXPLAINED, (lost, cut) if flow.fragments > 1 else (lost,))
    again = SegmentsLost(retransmits=flow.retransmits)
    if flow.reordering and not flow.drops:
        link = flow.reordering[0]
        return Verdict(Limit.PATH, (again, WireReorders(link=link)), OnWire(link=link))
    path = OnPath(source=flow.source, target=flow.target)
    return Verdict(Limit.PATH, (again,), path, CauseUnsure(code="place-unknown"))


def _lossy(flow: FlowSeen) -> bool:
    if flow.protocol == "udp":
        return flow.loss_ratio > LOST_RATIO
    return flow.retransmits > 0 and flow.tcp is not None and flow.tcp.resent_ratio > LOST_RATIO
