"""Whether each class of a shaper gets its rate and keeps to its ceil, where the wire monitor tells flows apart. Pure.

A flow belongs to the first class whose addresses fit, as packets do; a class has what the classes below it have. What a
class may have depends on the others: its ceil while it is alone, its rate at least while others send too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from iolab.experiment.model.links import Shape
from iolab.lab.links.shaping import Selector, selectors_of
from iolab.lab.topology import Topology
from iolab.messages.warnings import TrialWarning
from iolab.results.series import Over, Series, Times, Values
from iolab.units import NS_PER_S

MOST_ABOVE, LEAST_REACHED = 0.01, 0.97
"""How far the long-run rate may lie above the asked one, and from which part of it on it is reached."""
PACER_FRAMES = 1
"""What the pacer may send at once beside the frame that is allowed to all."""


def pacer_allowance(shape: Shape, frame_bytes: int) -> int:
    """Return what a pacer may send at once, as a whole and of each class [bytes]."""
    return max(PACER_FRAMES * frame_bytes, shape.burst or 0)


class Kept(StrEnum):
    """What is checked."""

    RATE = "rate"
    """The long-run rate is not above the asked one."""
    REACHED = "reached"
    """The asked rate is reached."""
    WINDOW = "window"
    """No window holds more than rate and burst allow."""
    CEIL = "ceil"
    """While a class sends, it has no more than its ceil."""
    ALONE = "alone"
    """While a class sends alone, it has its ceil."""
    SHARE = "share"
    """While others send too, it has its rate."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a shaper must keep."""

    what: Kept
    """What."""
    window_ns: int
    """Of the windows that were looked at."""
    seen_bps: float
    """What was seen."""
    allowed_bps: float
    """The bound."""
    held: bool
    """Whether it was kept."""
    excuse: TrialWarning | None = None
    """What held the host up, so that what was not kept says nothing of the shaper; None: it is judged."""

    @property
    def failed(self) -> bool:
        """Whether it was not kept, and nothing else can be why."""
        return not self.held and self.excuse is None


TIMES = (1, 10, 100, 1000)
"""Windows that are judged, as multiples of those in which flows are counted: like those of the port."""
LEAST_WINDOWS = 20
"""Of the longest windows; a class that had fewer is not judged by its mean: a quarter of a second at 12 us."""

Flags = NDArray[np.bool_]
"""One for each window."""


@dataclass(frozen=True, slots=True)
class ClassJudged:
    """What was found of one class."""

    name: str
    """As written."""
    checks: tuple[Check, ...]
    """Nothing where it sent nothing, or too little to be judged."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a class sent, in windows of one length that follow each other."""

    window_ns: int
    """Their length."""
    bytes: Values
    """In each, from the first in which any class sent to the last."""

    def joined(self, times: int) -> "Sent":
        """Return the same in windows that are so many times as long; what is left at the end is left out."""
        count = len(self.bytes) // times
        return Sent(self.window_ns * times, self.bytes[: count * times].reshape(count, times).sum(axis=1))

    def most_bps(self) -> float:
        """Return the rate of the fullest window."""
        return float(self.bytes.max(initial=0.0)) * 8 * NS_PER_S / self.window_ns

    def mean_bps(self, among: Flags) -> float:
        """Return the mean rate of some of the windows."""
        return float(self.bytes[among].mean()) * 8 * NS_PER_S / self.window_ns


def judge_classes(
    topology: Topology,
    link: str,
    shape: Shape,
    directions: set[str],
    frame_bytes: int,
    series: Sequence[Series],
) -> tuple[ClassJudged, ...] | None:
    """Return what was found of each class, in their order; None: flows were not told apart.

    Raises:
        InputError: a class is selected by what has no address.
    """
    flows = {
        one.dimensions.flow: one
        for one in series
        if one.name == "window_bytes"
        and one.over is Over.WINDOWS
        and one.dimensions.flow is not None
        and one.dimensions.direction in directions
    }
    if not flows:
        return None
    sent = _sent(_by_class(topology, link, shape, flows))
    return tuple(
        ClassJudged(name, tuple(_checks(shape, name, sent, frame_bytes)) if name in sent else ())
        for name in shape.classes
    )


def _by_class(
    topology: Topology, link: str, shape: Shape, flows: Mapping[str, Series]
) -> dict[str, list[Series]]:
    selectors = {name: selectors_of(topology, link, one) for name, one in shape.classes.items()}
    found: dict[str, list[Series]] = {}
    for flow, one in flows.items():
        name: str | None = _class_of(flow, selectors) or shape.default
        while name is not None:
            found.setdefault(name, []).append(one)
            name = shape.classes[name].parent
    return found


def _class_of(flow: str, selectors: Mapping[str, Sequence[Selector]]) -> str | None:
    """Return the first class that a flow fits: address:port->address:port protocol."""
    ends = [_address(end) for end in flow.split(" ", maxsplit=1)[0].split("->")]
    if len(ends) != 2:
        return None
    for name, pairs in selectors.items():
        for pair in pairs:
            if all(wanted is None or wanted == end for wanted, end in zip(pair, ends, strict=True)):
                return name
    return None


def _address(end: str) -> str:
    """Return the address of address:port, or [address]:port, or an address."""
    if end.startswith("["):
        return end[1:].partition("]")[0]
    return end.partition(":")[0]


def _sent(classes: Mapping[str, Sequence[Series]]) -> dict[str, Sent]:
    """Return what each class sent, all over the same windows."""
    every = [one for of_class in classes.values() for one in of_class]
    if not every:
        return {}
    window_ns = every[0].dimensions.window_ns or 1
    first = min(int(one.at_ns[0]) for one in every)
    count = (max(int(one.at_ns[-1]) for one in every) - first) // window_ns + 1

    def place(at_ns: Times) -> Times:
        return (at_ns - first) // window_ns

    def total(of_class: Sequence[Series]) -> Values:
        parts = [np.bincount(place(one.at_ns), weights=one.values, minlength=count) for one in of_class]
        return np.asarray(np.sum(parts, axis=0), dtype=np.float64)

    return {name: Sent(window_ns, total(of_class)) for name, of_class in classes.items()}


def _steady(senders: Times) -> Flags:
    """Tell which windows lie between two with as many senders."""
    found = np.zeros(len(senders), dtype=np.bool_)
    found[1:-1] = (senders[1:-1] == senders[:-2]) & (senders[1:-1] == senders[2:])
    return found


def _checks(shape: Shape, name: str, sent: Mapping[str, Sent], frame_bytes: int) -> Iterator[Check]:
    own, spec = sent[name], shape.classes[name]
    ceil_bps = spec.most_bps if shape.rate is None else min(spec.most_bps, shape.rate)
    longest = own.joined(TIMES[-1])
    beside = [sent[other].joined(TIMES[-1]).bytes for other in shape.below(spec.parent) if other in sent]
    busy = longest.bytes > 0
    # A window in which it, or another, began or ended is of both kinds.
    senders = np.where(busy, np.sum([one > 0 for one in beside], axis=0), 0)
    busy &= _steady(senders)
    if busy.sum() >= LEAST_WINDOWS:
        mean_bps, most_bps = longest.mean_bps(busy), ceil_bps * (1 + MOST_ABOVE)
        yield Check(Kept.CEIL, longest.window_ns, mean_bps, most_bps, mean_bps <= most_bps)
    for what, least_bps, among in (
        (Kept.ALONE, ceil_bps * LEAST_REACHED, busy & (senders == 1)),
        (Kept.SHARE, spec.rate * LEAST_REACHED, busy & (senders > 1)),
    ):
        if among.sum() >= LEAST_WINDOWS:
            mean_bps = longest.mean_bps(among)
            yield Check(what, longest.window_ns, mean_bps, least_bps, mean_bps >= least_bps)
    burst = max(spec.burst or 0, spec.cburst or 0)
    allowance = pacer_allowance(shape, frame_bytes) if shape.qdisc == "pacer" else burst
    for times in TIMES:
        scale = own.joined(times)
        allowed = ceil_bps + (allowance + frame_bytes) * 8 * NS_PER_S / scale.window_ns
        most = scale.most_bps()
        yield Check(Kept.WINDOW, scale.window_ns, most, allowed, most <= allowed)
