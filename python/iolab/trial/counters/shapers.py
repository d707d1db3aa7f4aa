"""Find the shapers on the paths of a load trial, and compare the traffic that they passed and delayed with their
configured rates. Pure.

The counters of a shaper show whether the shaper is at its rate. Excess frames need not be lost in its queue: if the
shaper's work keeps the feeding thread from its CPU, frames are lost at the ring before the shaper.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Shape, ShapeClass
from iolab.lab.packets.placement import Way
from iolab.messages.caveats import CauseUnsure, Caveat, ShaperSuspected
from iolab.messages.evidence import Evidence, ShaperPassed, UnknownShaperPassed
from iolab.messages.places import AtPort
from iolab.results.packets import Drop, Shaper
from iolab.results.search import LoadResult
from iolab.trial.counters.differences import Counted
from iolab.trial.counters.drops import OVERRUNS, QDISC
from iolab.trial.search.steady import LEAST_RATIO
from iolab.units import NS_PER_S

AT_RATE_RATIO = 0.95
"""Minimum share of its rate at which a shaper that delayed frames is the limit [ratio].

The margin covers the time in which the shaper's queue fills and drains, and its timer resolution, in a trial of 50 ms.
"""
ASKED_RATIO = 0.99
"""Minimum load that overloads a shaper, as a share of the shaper's rate; under a lower load, its queue is full only
after stalls [ratio]."""
HELD_BACK_RATIO = 0.1
"""Minimum number of throttled dequeues per passed frame at which a shaper of unknown rate is suspected [ratio]."""
LEAST_HELD_RATIO = 1e-3
"""Minimum number of throttled dequeues per passed frame at which a shaper can be the limit at all [ratio]."""
BUCKETS_PER_S, LEAST_BUCKET_BYTES = 100, 32_768
"""Default bucket size: 10 ms of the rate, or at least this many bytes, about 20 frames (tc-htb(8), tc-tbf(8))."""
MOST_EXCUSED_RATIO = 0.5
"""Maximum share of a trial's time that stalls may have taken from a shaper [ratio]."""


def shapers(lab: Lab, directions: Sequence[Way], counted: Counted) -> tuple[Shaper, ...]:
    """Return the shapers on the paths, in path order: all shapers of the lab, and other shapers that delayed frames."""
    rates: dict[str, tuple[int, ...]] = {
        link.shape.at: (
            link.shape.rate,
            *(rate for one in link.shape.classes.values() for rate in (one.rate, one.ceil) if rate),
        )
        for link in lab.links.values()
        if link.shape is not None and link.shape.rate is not None
    }
    places = dict.fromkeys(out for way in directions for out, _ in way.hops)
    return tuple(one for place in places for one in _shapers_at(place, rates.get(place, ()), counted))


def credit_bytes(lab: Lab) -> dict[str, int]:
    """Return the burst that each of a lab's shapers passes beyond its rate, by port: the content of its full buckets
    [bytes]."""
    found: dict[str, int] = {}
    for shape in (link.shape for link in lab.links.values() if link.shape is not None):
        parts: list[Shape | ShapeClass] = [shape, *shape.classes.values()]
        found[shape.at] = sum(
            max((one.rate or 0) // (8 * BUCKETS_PER_S), LEAST_BUCKET_BYTES)
            if one.burst is None
            else one.burst
            for one in parts
        )
    return found


def _shapers_at(place: str, rates_bps: tuple[int, ...], counted: Counted) -> Iterator[Shaper]:
    for row in counted.qdiscs(place):
        if rates_bps or row.overlimits:
            yield Shaper(
                place=place,
                kind=row.kind,
                offered_frames=counted.frames(place, "tx_packets"),
                passed_frames=row.packets,
                passed_bytes=row.bytes,
                dropped_frames=row.drops,
                held_back=row.overlimits,
                rates_bps=rates_bps,
            )


@dataclass(frozen=True, slots=True)
class Suspect:
    """A shaper that may explain the loss."""

    shaper: Shaper
    """The shaper."""
    seen: Evidence
    """Evidence in the shaper's counters."""
    doubt: Caveat | None = None
    """Reason for doubt; None if it is certain that the shaper explains the loss."""


def suspect(
    result: LoadResult,
    found: Sequence[Shaper],
    directions: Sequence[Way],
    worst: Drop | None,
    late_frames: Sequence[int] = (),
    credit: Mapping[str, int] | None = None,
) -> Suspect | None:
    """Return the shaper that explains the loss, because it dropped most of the lost frames or passed exactly its rate;
    else None.

    Only shapers at the place of the loss, or after an overrun place, are considered. `late_frames` has the number of
    frames that arrived after the end of the trial, per direction; `credit` is a shaper's burst beyond its rate [bytes].
    """
    for shaper in found:
        if worst is not None and not _may_cause(shaper, worst, directions):
            continue
        dropped_most = (
            worst is not None
            and (worst.place, worst.reason) == (AtPort(port=shaper.place), QDISC)
            and shaper.held_back
        )
        own = [at for at, way in enumerate(directions) if any(out == shaper.place for out, _ in way.hops)]
        late = sum(late_frames[at] for at in own if at < len(late_frames))
        in_time = _in_time(result, shaper, late, (credit or {}).get(shaper.place, 0))
        said = _said(result, in_time, bool(dropped_most), len(directions))
        if said is not None:
            return said
    return None


def _in_time(result: LoadResult, shaper: Shaper, late_frames: int, credit: int) -> Shaper:
    """Return a shaper with counts that are limited to the sending time, without the burst beyond its rate.

    The shaper's counters are read later, after its queue has drained, and the credit accumulated in its buckets is not
    part of the rate.
    """
    if not shaper.rates_bps or not shaper.passed_frames:
        return shaper
    in_time = max(0, shaper.passed_frames - late_frames)
    passed_bytes = shaper.passed_bytes * in_time // shaper.passed_frames
    sustained = replace(shaper, passed_bytes=passed_bytes)
    rate_bps = sustained.rate_bps(result.duration_ns) or 0
    beyond_bytes = passed_bytes - rate_bps * result.duration_ns // (8 * NS_PER_S)
    return replace(
        shaper, passed_bytes=passed_bytes - max(0, min(beyond_bytes, credit)), passed_frames=in_time
    )


def _said(result: LoadResult, shaper: Shaper, dropped_most: bool, directions: int) -> Suspect | None:
    excused_ns = min(result.held_ns or 0, int(MOST_EXCUSED_RATIO * result.duration_ns))
    passed_bps = shaper.passed_bps(result.duration_ns)
    kept = [rate for rate in shaper.rates_bps if AT_RATE_RATIO * passed_bps <= rate]
    rate_bps = min(kept, default=None)
    while_calm_bps = shaper.passed_bps(result.duration_ns - excused_ns)
    held_ratio = shaper.held_back / max(1, shaper.passed_frames)
    if rate_bps is None:
        if shaper.rates_bps and not dropped_most:
            return None  # the shaper passed more than its configured rates
        if not dropped_most and held_ratio < HELD_BACK_RATIO * _limited_ratio(result):
            return None
        unknown = UnknownShaperPassed(
            shaper=shaper.kind, place=shaper.place, passed_bps=passed_bps, held_back=shaper.held_back
        )
        return Suspect(shaper, unknown, None if dropped_most else CauseUnsure(code="shaper-unknown"))
    seen = ShaperPassed(
        shaper=shaper.kind,
        place=shaper.place,
        passed_bps=passed_bps,
        rate_bps=rate_bps,
        held_back=shaper.held_back,
    )
    frame_bits = 8 * shaper.passed_bytes / max(1, shaper.passed_frames)
    asked_bps = result.offered_frames / max(1, directions) * frame_bits * NS_PER_S / result.duration_ns
    overloaded = max(asked_bps, passed_bps) >= ASKED_RATIO * rate_bps
    at_rate = while_calm_bps >= AT_RATE_RATIO * rate_bps and held_ratio >= LEAST_HELD_RATIO and overloaded
    return Suspect(shaper, seen) if at_rate or dropped_most else None


def _limited_ratio(result: LoadResult) -> float:
    """Return the share of a trial in which the device was at its limit; before that, a bucket's credit lets all frames
    pass."""
    if result.steady is None:
        return 1.0
    return max(result.steady.share_ratio, LEAST_RATIO)


def suspected(found: Sequence[Shaper], directions: Sequence[Way], worst: Drop) -> Caveat | None:
    """Return a caveat if a shaper of unknown rate delayed frames after the place of the loss; else None."""
    for shaper in found:
        seldom = shaper.held_back < LEAST_HELD_RATIO * shaper.passed_frames
        if shaper.rates_bps or seldom or not shaper.held_back or not _may_cause(shaper, worst, directions):
            continue
        return ShaperSuspected(shaper=shaper.kind, place=shaper.place, held_back=shaper.held_back)
    return None


def _may_cause(shaper: Shaper, worst: Drop, directions: Sequence[Way]) -> bool:
    """Whether a shaper may explain losses at a place: the shaper is the place, or follows it on the path."""
    if worst.place == AtPort(port=shaper.place):
        return worst.reason == QDISC
    if worst.reason not in OVERRUNS:
        return False
    lost_at = worst.place.port if isinstance(worst.place, AtPort) else ""
    for way in directions:
        order = [ref for hop in way.hops for ref in hop]
        if shaper.place not in order:
            continue
        if lost_at not in order or order.index(lost_at) < order.index(shaper.place):
            return True
    return False


def bypassed(found: Sequence[Shaper]) -> tuple[Shaper, ...]:
    """Return the lab's shapers whose port sent frames that bypassed them.

    AF_XDP sockets and XDP programs pass frames to the driver directly, bypassing the queueing discipline.
    """
    return tuple(one for one in found if one.rates_bps and one.offered_frames > 0 and not one.passed_frames)
