"""Check whether a shaper conforms to its rate, ceil and burst, at four time scales. Pure.

The wire monitor on the far side of the shaped port observes its output: a window of w seconds must not contain more
than rate x w + burst + one frame. The verdict uses the largest window, never only a mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from iolab.analysis.shaper_classes import (
    LEAST_REACHED,
    MOST_ABOVE,
    Check,
    ClassJudged,
    Kept,
    judge_classes,
    pacer_allowance,
)
from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.links import Shape
from iolab.lab.links.overlays import mtu_of
from iolab.lab.topology import topology_of
from iolab.locale import Phrase
from iolab.messages.instrument_warnings import PacerSlipped, WatchStolen, WireLate
from iolab.messages.streams import CpuTaken, CpuWithheld, KernelStoodStill, ProgramStopped
from iolab.messages.warnings import HostPerturbed, TrialWarning
from iolab.results.metric import Metrics
from iolab.results.series import Series
from iolab.units import ETHERNET_HEADER_BYTES, NS_PER_S

SCALES_NS = (12_000, 100_000, 1_000_000, 10_000_000)
"""Window lengths for the check [ns]: one frame at 1 Gbit/s, bursts that htb hides, bursts that fill a queue, and the
long-run mean."""
FRAME_CHECK = 4
"""Size of the Ethernet frame check sequence, which the pacer counts too [bytes]."""
MOST, MEAN = "window_rate_max_bps", "window_rate_mean_bps"


HELD_UP = (
    WatchStolen, WireLate, PacerSlipped, HostPerturbed, CpuTaken, CpuWithheld, KernelStoodStill, ProgramStopped,
)  # fmt: skip
"""Warnings about trials in which a program or thread lacked CPU time."""
EXCUSABLE = (Kept.WINDOW, Kept.REACHED)
"""Checks that a stalled host alone can make fail."""


class Kind(StrEnum):
    """Verdict on a shaper."""

    PASSED = "passed"
    """All checks passed."""
    FAILED = "failed"
    """A check failed."""
    NOT_JUDGED = "not judged"
    """A stalled host may have caused the failed checks."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A suggested setting of the shaper."""

    key: str
    """Key of the shape: burst, gso_max_segs, quantum, limit."""
    value: int
    """Value: bytes, or frames for gso_max_segs."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Result of checking one shaper in one trial."""

    checks: tuple[Check, ...]
    """Check results in the order of the time scales."""
    advice: tuple[Advice, ...]
    """Suggested settings; empty if all checks passed."""
    classes: tuple[ClassJudged, ...] | None = ()
    """Classes in the order of the file; None if the shaper has classes and the monitor did not separate flows."""

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return self.verdict is Kind.PASSED

    @property
    def verdict(self) -> Kind:
        """Return the verdict that follows from the checks of the shaper and its classes."""
        every = [*self.checks, *(check for one in self.classes or () for check in one.checks)]
        if any(check.failed for check in every):
            return Kind.FAILED
        return Kind.PASSED if all(check.held for check in every) else Kind.NOT_JUDGED


def judge(
    setup: Setup,
    measure: str,
    metrics: Metrics,
    series: Sequence[Series] = (),
    warnings: Sequence[TrialWarning] = (),
) -> tuple[tuple[str, Judged], ...]:
    """Return the check results of each shaper in the lab, by link.

    If the host was stalled, a window above its limit is not judged, because delayed frames are sent in a burst. A rate
    below its target is not judged either, because a sender or emulated link without CPU time sends less.

    Raises:
        InputError: no wire monitor observed the output of a shaped port.
    """
    found = []
    excuse = next((one for one in warnings if isinstance(one, HELD_UP)), None)
    topology = topology_of(setup.lab)
    for name, link in setup.lab.links.items():
        if link.shape is None:
            continue
        frame, behind = (
            mtu_of(setup.lab, name) + ETHERNET_HEADER_BYTES,
            _directions(setup.lab, name, link.shape),
        )
        classes: tuple[ClassJudged, ...] | None = ()
        if link.shape.classes:
            classes = judge_classes(topology, name, link.shape, behind, frame, series)
        judged = _judged(setup.lab, name, frame, measure, metrics, _reachable_bps(link.shape, classes))
        found.append((name, _excused(replace(judged, classes=classes), excuse)))
    return tuple(found)


def _excused(judged: Judged, excuse: TrialWarning | None) -> Judged:
    def of(checks: Sequence[Check]) -> tuple[Check, ...]:
        return tuple(
            replace(one, excuse=excuse) if one.what in EXCUSABLE and not one.held else one for one in checks
        )

    classes = judged.classes
    if classes is not None:
        classes = tuple(replace(one, checks=of(one.checks)) for one in classes)
    return replace(judged, checks=of(judged.checks), classes=classes)


def _reachable_bps(shape: Shape, classes: Sequence[ClassJudged] | None) -> int:
    """Return the maximum rate of the port: its configured rate, or the sum of the ceils of the classes that sent, if
    that sum is lower."""
    sending = {one.name for one in classes or () if one.checks}
    may_bps = sum(shape.classes[name].most_bps for name in shape.below(None) if name in sending)
    return min(shape.rate_bps, may_bps or shape.rate_bps)


def _judged(
    lab: Lab, link: str, frame_bytes: int, measure: str, metrics: Metrics, reachable_bps: int
) -> Judged:
    shape = lab.links[link].shape
    assert shape is not None
    most, means = (_seen(lab, link, shape, metrics, name) for name in (MOST, MEAN))
    if missing := [scale for scale in SCALES_NS if scale not in most]:
        advice = Phrase("analysis.add-watch", port=_far(lab, link, shape))
        seen = Phrase("analysis.windows-missing", window=f"{missing[0] // 1000} us", port=shape.at)
        doing, usual = Phrase("analysis.checking-shaper"), Phrase("analysis.default-windows")
        raise InputError([Problem(f"measure.{measure}.watch", doing, seen, usual, advice)])
    allowance, longest, rate_bps = _allowance(shape, frame_bytes), SCALES_NS[-1], shape.rate_bps
    above, reached = rate_bps * (1 + MOST_ABOVE), reachable_bps * LEAST_REACHED
    checks = [
        Check(Kept.RATE, longest, means[longest], above, means[longest] <= above),
        Check(Kept.REACHED, longest, means[longest], reached, means[longest] >= reached),
    ]
    for scale in SCALES_NS:
        allowed = rate_bps + (allowance + frame_bytes) * 8 * NS_PER_S / scale
        checks.append(Check(Kept.WINDOW, scale, most[scale], allowed, most[scale] <= allowed))
    burst_bytes = max((most[scale] - rate_bps) * scale / (8 * NS_PER_S) for scale in SCALES_NS)
    return Judged(tuple(checks), tuple(_advice(shape, checks, frame_bytes, allowance, int(burst_bytes))))


def _seen(lab: Lab, link: str, shape: Shape, metrics: Metrics, name: str) -> dict[int, float]:
    """Return a metric of the windows on the far side of the shaper, by window length, for all frames together."""
    behind = _directions(lab, link, shape)
    return {
        metric.dimensions.window_ns: metric.value
        for metric in metrics
        if metric.name == name
        and metric.dimensions.window_ns is not None
        and metric.dimensions.direction in behind
        and metric.dimensions.part is None
        and metric.dimensions.flow is None
    }


def _directions(lab: Lab, link: str, shape: Shape) -> set[str]:
    """Return the wire monitor's direction names for frames that left the shaped port."""
    others = [end for end in lab.links[link].ends if end != shape.at]
    return {f"{shape.at}->{end}" for end in others} | {f"->{end}" for end in others}


def _far(lab: Lab, link: str, shape: Shape) -> str:
    return next(end for end in lab.links[link].ends if end != shape.at)


def _allowance(shape: Shape, frame_bytes: int) -> int:
    """Return the burst that a shaper may send [bytes]: its own bucket, or the sum of its classes' buckets if
    larger."""
    if shape.qdisc == "pacer":
        return pacer_allowance(shape, frame_bytes)
    of_classes = sum(max(one.burst or 0, one.cburst or 0) for one in shape.classes.values())
    return max(shape.burst or 0, of_classes)


def _advice(
    shape: Shape, checks: Sequence[Check], frame_bytes: int, allowance: int, burst_bytes: int
) -> list[Advice]:
    """Return settings that would make the failed checks pass."""
    found = []
    held = {check.what: check.held for check in checks if check.what is not Kept.WINDOW}
    if shape.qdisc == "pacer":
        # Without a burst limit the pacer catches up after every stall; with a burst limit, it drops late frames.
        kept = shape.burst is not None or all(check.held for check in checks if check.what is Kept.WINDOW)
        return [] if kept else [Advice("burst", 2 * (frame_bytes + FRAME_CHECK))]
    if not held[Kept.RATE]:
        # A bucket so large that a trial empties it only once distorts the mean rate: the bytes of one timer tick are
        # enough.
        found.append(Advice("burst", max(shape.rate_bps // 8 // TICKS_PER_S, 2 * frame_bytes)))
    if not held[Kept.REACHED]:
        # The bucket must hold the largest burst, or the bytes that arrive within one kernel timer tick.
        found.append(Advice("burst", max(burst_bytes, shape.rate_bps // 8 // TICKS_PER_S, 2 * frame_bytes)))
        found.append(Advice("limit", max(shape.rate_bps // 8 * QUEUE_MS // 1000, 10 * frame_bytes)))
    if any(check.what is Kept.WINDOW and not check.held for check in checks):
        found.append(Advice("gso_max_segs", max(1, allowance // frame_bytes)))
        if held[Kept.REACHED]:
            found.append(Advice("burst", max(allowance, 2 * frame_bytes)))
        if shape.qdisc == "htb" and shape.classes:
            found.append(Advice("quantum", frame_bytes))
    return found


TICKS_PER_S = 250
"""Timer ticks of common kernels (tc-tbf(8): the bucket must hold the bytes that arrive between two ticks)."""
QUEUE_MS = 50
"""Queueing time of the suggested limit [ms], as in the example of tc-tbf(8)."""
