"""Check whether each class of a shaper reaches its rate and conforms to its ceil, if the wire monitor separates flows.
Pure.

Like a packet, a flow belongs to the first class whose addresses match; the traffic of a class includes that of its
child classes. The permitted rate depends on the other classes: the ceil while a class sends alone, at least the rate
while others send too.
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
"""Maximum excess of the long-run rate over the configured rate, and minimum share of the configured rate that counts
as reached."""
PACER_FRAMES = 1
"""Frames that the pacer may send in a burst, in addition to the one frame by which every shaper may exceed its
limit."""


def pacer_allowance(shape: Shape, frame_bytes: int) -> int:
    """Return the burst that a pacer may send, in total and per class [bytes]."""
    return max(PACER_FRAMES * frame_bytes, shape.burst or 0)


class Kept(StrEnum):
    """Kind of check of a shaper or a class."""

    RATE = "rate"
    """The long-run rate does not exceed the configured rate."""
    REACHED = "reached"
    """The configured rate is reached."""
    WINDOW = "window"
    """No window exceeds rate and burst."""
    CEIL = "ceil"
    """A sending class does not exceed its ceil."""
    ALONE = "alone"
    """A class that sends alone reaches its ceil."""
    SHARE = "share"
    """A class reaches its rate while other classes send."""


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check."""

    what: Kept
    """Kind of check."""
    window_ns: int
    """Window length [ns]."""
    seen_bps: float
    """Measured rate [bit/s]."""
    allowed_bps: float
    """Limit [bit/s]."""
    held: bool
    """Whether the limit was met."""
    excuse: TrialWarning | None = None
    """Cause of a host stall that makes a failed check inconclusive; None if the check is judged."""

    @property
    def failed(self) -> bool:
        """Whether the limit was not met and no host stall explains it."""
        return not self.held and self.excuse is None


TIMES = (1, 10, 100, 1000)
"""Window lengths for the checks, as multiples of the windows in which flows are counted; the same scales as those of
the port."""
LEAST_WINDOWS = 20
"""Minimum number of windows of the greatest length for judging a class by its mean: a quarter of a second at 12 us."""

Flags = NDArray[np.bool_]
"""One flag per window."""


@dataclass(frozen=True, slots=True)
class ClassJudged:
    """Check results of one class."""

    name: str
    """Class name in the file."""
    checks: tuple[Check, ...]
    """Checks; empty if the class sent too little to be judged."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Traffic of one class in consecutive windows of one length."""

    window_ns: int
    """Window length [ns]."""
    bytes: Values
    """Bytes per window, from the first to the last window in which any class sent."""

    def joined(self, times: int) -> "Sent":
        """Return the traffic in windows that are `times` as long; an incomplete last window is dropped."""
        count = len(self.bytes) // times
        return Sent(self.window_ns * times, self.bytes[: count * times].reshape(count, times).sum(axis=1))

    def most_bps(self) -> float:
        """Return the rate in the window with the most bytes."""
        return float(self.bytes.max(initial=0.0)) * 8 * NS_PER_S / self.window_ns

    def mean_bps(self, among: Flags) -> float:
        """Return the mean rate of the selected windows."""
        return float(self.bytes[among].mean()) * 8 * NS_PER_S / self.window_ns


def judge_classes(
    topology: Topology,
    link: str,
    shape: Shape,
    directions: set[str],
    frame_bytes: int,
    series: Sequence[Series],
) -> tuple[ClassJudged, ...] | None:
    """Return the check results of each class, in their order; None if flows were not separated.

    Raises:
        InputError: a selector of a class names an object without an address.
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
    """Return the first class that matches a flow, given as address:port->address:port protocol."""
    ends = [_address(end) for end in flow.split(" ", maxsplit=1)[0].split("->")]
    if len(ends) != 2:
        return None
    for name, pairs in selectors.items():
        for pair in pairs:
            if all(wanted is None or wanted == end for wanted, end in zip(pair, ends, strict=True)):
                return name
    return None


def _address(end: str) -> str:
    """Return the address part of address:port, [address]:port, or a plain address."""
    if end.startswith("["):
        return end[1:].partition("]")[0]
    return end.partition(":")[0]


def _sent(classes: Mapping[str, Sequence[Series]]) -> dict[str, Sent]:
    """Return the traffic of each class, over the same windows for all classes."""
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
    """Return for each window whether the number of senders is the same as in the windows before and after it."""
    found = np.zeros(len(senders), dtype=np.bool_)
    found[1:-1] = (senders[1:-1] == senders[:-2]) & (senders[1:-1] == senders[2:])
    return found


def _checks(shape: Shape, name: str, sent: Mapping[str, Sent], frame_bytes: int) -> Iterator[Check]:
    own, spec = sent[name], shape.classes[name]
    ceil_bps = spec.most_bps if shape.rate is None else min(spec.most_bps, shape.rate)
    longest = own.joined(TIMES[-1])
    beside = [sent[other].joined(TIMES[-1]).bytes for other in shape.below(spec.parent) if other in sent]
    busy = longest.bytes > 0
    # The following checks exclude windows in which this class or a sibling starts or stops sending.
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
