"""Whether a shaper keeps what was asked of it: rate, ceil and burst, at four scales. Pure.

What left the shaped port is judged by the wire monitor behind it: in a window of w seconds no more than
rate x w + burst + one frame may pass. What the shaper did is taken from the largest window, never from a mean alone.
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
from iolab.messages.instrument_warnings import PacerSlipped, WatchStolen, WireLate
from iolab.messages.streams import CpuTaken, CpuWithheld, KernelStoodStill, ProgramStopped
from iolab.messages.warnings import HostPerturbed, TrialWarning
from iolab.results.metric import Metrics
from iolab.results.series import Series
from iolab.units import ETHERNET_HEADER_BYTES, NS_PER_S

SCALES_NS = (12_000, 100_000, 1_000_000, 10_000_000)
"""Windows at which a shaper is judged: a frame at 1 Gbit/s, what htb hides, what a queue feels, what a mean shows."""
FRAME_CHECK = 4
"""Of Ethernet, which the pacer counts, too [bytes]."""
MOST, MEAN = "window_rate_max_bps", "window_rate_mean_bps"


HELD_UP = (
    WatchStolen, WireLate, PacerSlipped, HostPerturbed, CpuTaken, CpuWithheld, KernelStoodStill, ProgramStopped,
)  # fmt: skip
"""Marks of a trial in which something had no CPU when it needed one."""
EXCUSABLE = (Kept.WINDOW, Kept.REACHED)
"""What a host that is held up can break by itself."""


class Kind(StrEnum):
    """What is said of a shaper."""

    PASSED = "passed"
    """All was kept."""
    FAILED = "failed"
    """Something was not."""
    NOT_JUDGED = "not judged"
    """What was not kept may be the host's doing."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A setting that the measurement suggests."""

    key: str
    """Of the shape: burst, gso_max_segs, quantum, limit."""
    value: int
    """In its unit: bytes, or frames for gso_max_segs."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found of one shaper in one trial."""

    checks: tuple[Check, ...]
    """In the order of the scales."""
    advice: tuple[Advice, ...]
    """Nothing where all holds."""
    classes: tuple[ClassJudged, ...] | None = ()
    """In the order written; None: there are some, and the watch did not tell flows apart."""

    @property
    def passed(self) -> bool:
        """Whether everything was kept."""
        return self.verdict is Kind.PASSED

    @property
    def verdict(self) -> Kind:
        """What is said of it."""
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
    """Return what was found of the shaper of each link that has one.

    Where the host was held up, a window that holds too much is not judged, for what waited for a CPU came at once;
    nor is a rate that is not reached, for a sender or a wire without a CPU sends less.

    Raises:
        InputError: nothing watched what leaves a shaped port.
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
    """Return the rate that the port can reach: that of the classes that sent, where they may not borrow all of it."""
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
        advice = f"add `watch: [{_far(lab, link, shape)}]` to it"
        seen = f"no windows of {missing[0] // 1000} us behind {shape.at}"
        where = f"measure.{measure}.watch"
        raise InputError([Problem(where, "judging a shaper", seen, "its usual four", advice)])
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
    """Return a figure of the windows behind the shaper, by their length: of all frames as they came."""
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
    """Return how the wire monitor calls what leaves the shaped port, seen behind it."""
    others = [end for end in lab.links[link].ends if end != shape.at]
    return {f"{shape.at}->{end}" for end in others} | {f"->{end}" for end in others}


def _far(lab: Lab, link: str, shape: Shape) -> str:
    return next(end for end in lab.links[link].ends if end != shape.at)


def _allowance(shape: Shape, frame_bytes: int) -> int:
    """Return what a shaper may send at once: its bucket, or that of its classes together."""
    if shape.qdisc == "pacer":
        return pacer_allowance(shape, frame_bytes)
    of_classes = sum(max(one.burst or 0, one.cburst or 0) for one in shape.classes.values())
    return max(shape.burst or 0, of_classes)


def _advice(
    shape: Shape, checks: Sequence[Check], frame_bytes: int, allowance: int, burst_bytes: int
) -> list[Advice]:
    """Return settings by which what was not kept would be."""
    found = []
    held = {check.what: check.held for check in checks if check.what is not Kept.WINDOW}
    if shape.qdisc == "pacer":
        # Without one it catches up whatever a stall held back; with one it loses what is later.
        kept = shape.burst is not None or all(check.held for check in checks if check.what is Kept.WINDOW)
        return [] if kept else [Advice("burst", 2 * (frame_bytes + FRAME_CHECK))]
    if not held[Kept.RATE]:
        # A bucket that a trial empties only once makes its mean: what a timer tick brings is enough.
        found.append(Advice("burst", max(shape.rate_bps // 8 // TICKS_PER_S, 2 * frame_bytes)))
    if not held[Kept.REACHED]:
        # The bucket must hold what comes at once, or what a timer tick of the kernel brings.
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
"""Of common kernels (tc-tbf: the bucket must hold what the rate brings between two)."""
QUEUE_MS = 50
"""Waiting time of the queue that is suggested [ms], as in tc-tbf's example."""
