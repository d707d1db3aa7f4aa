"""Shapers on the ways of a load trial: what they let through and held back, beside their rates in the lab. Pure.

A shaper that is at its rate shows it in its own counters. The frames that it does not let through need not be lost in
its queue: where its work keeps the thread that feeds it from its CPU, they are lost at the ring before it.
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
"""From which share of its rate on a shaper that held frames back is the limit: what it passes in its first and last
queue, and the time of its timers, are not more in a trial of 50 ms."""
ASKED_RATIO = 0.99
"""From which share of its rate on a load is more than a shaper passes: below, its queue is full after a stall only."""
HELD_BACK_RATIO = 0.1
"""A shaper whose rate is not known is suspected where it looked in vain so many times per frame that it passed."""
LEAST_HELD_RATIO = 1e-3
"""A shaper that looked in vain less often was not the limit, whatever passed it."""
BUCKETS_PER_S, LEAST_BUCKET_BYTES = 100, 32_768
"""A bucket whose size is not given holds no more than 10 ms of its rate, or ten frames and some (tc-htb, tc-tbf)."""
MOST_EXCUSED_RATIO = 0.5
"""Of a trial's time, what stalls may have taken from a shaper."""


def shapers(lab: Lab, directions: Sequence[Way], counted: Counted) -> tuple[Shaper, ...]:
    """Return every shaper on the ways, in their order: those of the lab, and others that held frames back."""
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
    """Return what each shaper of a lab may send at once beyond its rate, by its port: its buckets, full [bytes]."""
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
    """A shaper that may be why frames were lost."""

    shaper: Shaper
    """Which."""
    seen: Evidence
    """What its counters show."""
    doubt: Caveat | None = None
    """Why it is not certain; None: it is."""


def suspect(
    result: LoadResult,
    found: Sequence[Shaper],
    directions: Sequence[Way],
    worst: Drop | None,
    late_frames: Sequence[int] = (),
    credit: Mapping[str, int] | None = None,
) -> Suspect | None:
    """Return the shaper that explains the loss: it dropped most itself, or let its rate through and no more.

    A shaper is asked only for frames that were lost at it or before it, where something overran. `late_frames` came
    out when the trial's time was over, per direction; `credit` is what a shaper may have sent beyond its rate [bytes].
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
    """Return a shaper with what it passed in the time in which frames were sent, at the rate that it sustains.

    Its counters are read later, when its queue has run empty; and what its buckets had saved up before is no rate.
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
            return None  # it let more through than any rate that it was given
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
    """Return the share of a trial in which the device was at its limit: before, a bucket's credit lets all through."""
    if result.steady is None:
        return 1.0
    return max(result.steady.share_ratio, LEAST_RATIO)


def suspected(found: Sequence[Shaper], directions: Sequence[Way], worst: Drop) -> Caveat | None:
    """Return that a shaper of unknown rate held frames back behind where they were lost; None: none did."""
    for shaper in found:
        seldom = shaper.held_back < LEAST_HELD_RATIO * shaper.passed_frames
        if shaper.rates_bps or seldom or not shaper.held_back or not _may_cause(shaper, worst, directions):
            continue
        return ShaperSuspected(shaper=shaper.kind, place=shaper.place, held_back=shaper.held_back)
    return None


def _may_cause(shaper: Shaper, worst: Drop, directions: Sequence[Way]) -> bool:
    """Tell whether a shaper can be why frames were lost there: it is the place, or the way goes on to it."""
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
    """Return the lab's shapers whose port sent frames that did not pass them.

    AF_XDP sockets and XDP programs hand frames to the driver, behind the queueing discipline.
    """
    return tuple(one for one in found if one.rates_bps and one.offered_frames > 0 and not one.passed_frames)
