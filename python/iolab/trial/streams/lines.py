"""Emulated lines on the way of a flow: what they could carry, what they carried, and what their queues lost. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from iolab.experiment.experiment import Lab
from iolab.experiment.model.impairments import DELIVERY_BYTES, Impairments
from iolab.lab.packets.placement import Way
from iolab.trial.counters.differences import Counted
from iolab.trial.counters.passing import Course, Passing, passing
from iolab.trial.streams.evidence import LineSeen
from iolab.units import NS_PER_S

LINE_STAGES = ("line", "codel")
"""What loses frames because they come faster than the line sends them."""


def lines_on(
    lab: Lab, way: Way, counted: Counted, course: Course, active_ns: tuple[int, int] | None
) -> Iterator[LineSeen]:
    """Yield the lines of a way. `active_ns` is when the programs ran, on the clock of the wires; None: not known."""
    ways = {
        str(end): (name, own)
        for name, link in lab.links.items()
        if link.wire is not None
        for end, own in link.wire.ways(link.ends).items()
    }
    for out, into in way.hops:
        if out not in ways or ways[out][1].most_bps() is None:
            continue
        link, own = ways[out]
        wire = counted.on_wire(out, into)
        passed = _on_the_line(counted, out, course, 0 if wire is None else wire[1].passed_bytes)
        lost = (
            0 if wire is None else sum(one.lost_frames for one in wire[1].stages if one.kind in LINE_STAGES)
        )
        arrived = 0 if wire is None else wire[1].arrived_frames
        since_ns = counted.after.wires[link].does_since_ns if link in counted.after.wires else 0
        capacity = 0
        if own.rate is None and since_ns and active_ns is not None:
            capacity = capacity_bytes(own, active_ns[0] - since_ns, active_ns[1] - since_ns)
        yield LineSeen(
            place=out,
            link=link,
            passed_bps=0.0 if passed is None else passed.bps,
            rate_bps=None if own.rate is None else float(own.rate.removesuffix("bit")),
            arrived_frames=arrived,
            lost_frames=lost,
            passed_bytes=0 if wire is None else wire[1].passed_bytes,
            capacity_bytes=capacity,
            marked_frames=0 if wire is None else wire[1].marked_frames,
            stall_ns=0 if own.stall is None else own.stall.length,
            stall_every_ns=0 if own.stall is None else own.stall.every,
        )


def _on_the_line(counted: Counted, out: str, course: Course, line_bytes: int) -> Passing | None:
    """Return what passed as the line counts it: a super-frame has a head for each of its frames there."""
    passed = passing(course.port(out, "tx_bytes"))
    sent_bytes = counted.frames(out, "tx_bytes")
    if passed is None or not line_bytes or not sent_bytes:
        return passed
    return Passing(round(passed.bytes * line_bytes / sent_bytes), passed.span_ns)


def capacity_bytes(line: Impairments, begin_ns: int, end_ns: int) -> int:
    """Return what a line of a trace could carry between two times since the trace began [bytes]."""
    return _carried(line, end_ns) - _carried(line, max(0, begin_ns))


def _carried(line: Impairments, until_ns: int) -> int:
    """Return what it could carry from the begin of its trace on [bytes]; the trace begins again at its end."""
    if line.delivery_trace is not None:
        rounds, rest_ns = divmod(until_ns, line.delivery_trace[-1])
        passed = bisect_right(line.delivery_trace, rest_ns)
        return (rounds * len(line.delivery_trace) + passed) * DELIVERY_BYTES
    steps: Sequence[tuple[int, int]] = line.rate_trace or ()
    ends = list(accumulate(length_ns for length_ns, _ in steps))
    sums = [0, *accumulate(length_ns * bps for length_ns, bps in steps)]
    rounds, rest_ns = divmod(until_ns, ends[-1])
    at = bisect_right(ends, rest_ns)
    begun_ns = ends[at - 1] if at else 0
    return (rounds * sums[-1] + sums[at] + (rest_ns - begun_ns) * steps[at][1]) // (8 * NS_PER_S)
