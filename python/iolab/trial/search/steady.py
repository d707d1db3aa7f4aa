"""Find the part of a trial in which the device was at its limit; its rate in that part is the sustained rate. Pure.

A queue or the credit of a token bucket absorbs frames at first, so a trial has less loss than a sustained load. When
the credit is exhausted, frames are lost until the end. While a queue fills, fewer frames arrive than are sent, and the
minimum latency rises. Both effects are visible in the hundredths of a trial.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from iolab.results.search import Steady

STANDING_NS = 100_000
"""Minimum increase of the minimum latency at which a part has a standing queue: ten times the variation on an idle veth
[ns]."""
FIRST_RATIO = 0.25
"""Share of a trial, at its start, in which at least one frame finds an empty queue [ratio]."""
LEAST_RATIO = 0.1
"""Minimum share of a trial for which the device must be at its limit to determine a rate [ratio]."""
CLEAR_GAIN = 6.0
"""Minimum log likelihood ratio of a change: chance alone exceeds it in one of a hundred trials."""
SLOW_RATIO = 0.05
"""Maximum relative rate decrease within a trial that counts as host noise."""
SLOW_SIGMAS = 6.0
"""Minimum decrease in standard deviations: frames arrive in batches, and a trial has a hundred possible change
points."""
SLOW_PARTS = 10
"""Minimum number of parts after a decrease; a shorter decrease may be a stall."""
SENT_RATIO = 0.8
"""Minimum number of frames sent in a part, relative to the median; with fewer, the sender was stalled."""
HELD_RATIO = 0.25
"""Minimum number of arrivals in a part, relative to the mean; with fewer, a stall delayed frames to the next part."""
HELD_PARTS = 10
"""If arrivals are delayed for more than this number of parts, the device counts as stopped."""
MOSTLY = 0.8
"""Minimum share of parts with a standing queue, or with a sign of the limit, at which the result applies to all
parts."""


@dataclass(frozen=True, slots=True)
class Parts:
    """One direction of a trial in parts of equal duration."""

    sent_frames: Sequence[int]
    """Frames sent in each part."""
    received_frames: Sequence[int]
    """Number of the frames sent in each part that arrived at any time."""
    arrived_frames: Sequence[int]
    """Frames that arrived in each part, whenever they were sent."""
    least_latency_ns: Sequence[int | None]
    """Minimum latency of the frames that arrived in each part [ns]; None if no frame arrived."""

    def was_sent(self, at: int) -> bool:
        """Whether a part has about as many sent frames as the other parts."""
        return self.sent_frames[at] >= SENT_RATIO * statistics.median(self.sent_frames)

    def standing(self) -> list[bool]:
        """Return, for each part, whether it had a standing queue: its minimum latency exceeds that of the first
        parts."""
        first = self.least_latency_ns[: max(1, round(FIRST_RATIO * len(self.least_latency_ns)))]
        least = min((each for each in first if each is not None), default=None)
        if least is None:
            return [False] * len(self.least_latency_ns)
        # If no frame arrived in a part, its frames that arrived later had to wait.
        return [
            got > 0 if each is None else each > least + STANDING_NS
            for each, got in zip(self.least_latency_ns, self.received_frames, strict=True)
        ]

    def lossy(self) -> list[bool]:
        """Return, for each part, whether a frame sent in it was lost."""
        return [sent > got for sent, got in zip(self.sent_frames, self.received_frames, strict=True)]


def find_steady(directions: Sequence[Parts]) -> Steady | None:
    """Return the part of a trial at the device's limit, from the first sign to the end.

    Return None if there is no sign. A `share_ratio` of 0 means that the limit was reached so late that only a longer
    trial can show a rate. Parts with a stall of the sender had a different load and are excluded.
    """
    count = min((len(each.sent_frames) for each in directions), default=0)
    if not count or any(len(each.arrived_frames) != count for each in directions):
        return None
    standing = [each.standing() for each in directions]
    lossy = [each.lossy() for each in directions]
    used = [at for at in range(count) if all(each.was_sent(at) for each in directions)]
    signs = {at: any(marks[at] for marks in (*standing, *lossy)) for at in used}
    first = onset([signs[at] for at in used])
    if first is None:
        return None
    arrived = [sum(each.arrived_frames[at] for each in directions) for at in range(count)]
    # The burst may end within this part: a part does not show a change in its middle.
    window = without_credit(used[max(first + 1, 2) :], signs)
    while slower := slowdown([arrived[at] for at in window]):
        window = window[slower:]  # a bottleneck before the bucket lost frames from the start
    window = [*without_release(arrived, window)]
    if len(window) < LEAST_RATIO * count:
        return Steady(0.0, 0, 0) if any(map(any, lossy)) else None
    offered = forwarded = 0
    for each, stands in zip(directions, standing, strict=True):
        queued = sum(stands[at] for at in window) >= MOSTLY * len(window)
        offered += sum(each.sent_frames[at] for at in window)
        if queued:
            forwarded += round(len(window) * pace([each.arrived_frames[at] for at in window]))
        else:
            forwarded += sum(each.received_frames[at] for at in window)
    return Steady(len(window) / count, offered, forwarded)


def onset(signs: Sequence[bool]) -> int | None:
    """Return the first part with signs of the limit: the most likely change from few to many signs, 0 if none is
    clear.

    Return None if there is no sign.
    """
    total, count = sum(signs), len(signs)
    if not total:
        return None
    before = [0, *accumulate(signs)]
    even = _log_likelihood(total, count)
    best, begin = 0.0, 0
    for at in range(1, count):
        few, many = before[at], total - before[at]
        gain = _log_likelihood(few, at) + _log_likelihood(many, count - at) - even
        if gain > best:
            best, begin = gain, at
    if best < CLEAR_GAIN:
        return 0
    few, many = before[begin], total - before[begin]
    return begin if few / begin < many / (count - begin) else 0


def without_credit(window: Sequence[int], signs: Mapping[int, bool]) -> list[int]:
    """Return the parts of a window with the device at its limit, excluding recovery after stalls of the sender.

    While nothing is sent, a bucket accumulates credit and a queue drains. Frames that pass afterwards without a sign do
    not show the device's rate; the limit starts again with the next sign.
    """
    parts: list[int] = []
    quiet: list[int] = []
    before, recovers = None, False
    for at in window:
        recovers = recovers or (before is not None and at > before + 1)
        (quiet if recovers else parts).append(at)
        recovers = recovers and not signs[at]
        before = at
    # If signs are rare, a few parts without a sign do not show that the device recovered.
    clear = sum(signs[at] for at in parts) >= MOSTLY * len(parts)
    return parts if clear else sorted([*parts, *quiet])


def without_release(arrived_frames: Sequence[int], window: Sequence[int]) -> Sequence[int]:
    """Return a window that does not start with frames that were delayed before it.

    A device's timer often delays all frames on its CPU just when the limit is reached; these frames arrive together in
    the next part. A stop that is longer than this lowers the rate of the device.
    """
    least = HELD_RATIO * sum(arrived_frames[at] for at in window) / max(1, len(window))
    moving = (min(arrived_frames[at - 1 : at + 1]) >= least for at in window[:HELD_PARTS])
    return window[next((place for place, moves in enumerate(moving) if moves), 0) :]


def pace(arrived_frames: Sequence[int]) -> float:
    """Return the arrival rate in frames per part: the slope of the cumulative arrivals (least squares).

    A shaper's timer releases up to 64 frames at once: at the ends of a short trial these are 2 % of all frames; the
    slope in the middle is not affected.
    """
    sums = list(accumulate(arrived_frames))
    middle = (len(sums) - 1) / 2
    spread = sum((at - middle) ** 2 for at in range(len(sums)))
    return sum((at - middle) * each for at, each in enumerate(sums)) / spread if spread else float(sum(sums))


def slowdown(arrived_frames: Sequence[int]) -> int | None:
    """Return the part from which significantly fewer frames arrived until the end; None if there is no such part.

    A device with a bucket behind a bottleneck loses frames from the start, and more when its credit is exhausted.
    """
    count = len(arrived_frames)
    before = [0, *accumulate(arrived_frames)]
    best, found = 0.0, None
    for at in range(1, count - SLOW_PARTS + 1):
        early, late = before[at] / at, (before[count] - before[at]) / (count - at)
        weight = at * (count - at) / count
        if early > late and (early - late) ** 2 * weight > best:
            best, found = (early - late) ** 2 * weight, at
    if found is None:
        return None
    early, late = before[found] / found, (before[count] - before[found]) / (count - found)
    rest = sum((each - (early if at < found else late)) ** 2 for at, each in enumerate(arrived_frames))
    scatter = rest / max(1, count - 2)
    slower = late < (1.0 - SLOW_RATIO) * early and best > SLOW_SIGMAS**2 * scatter
    return found + 1 if slower and found + 1 < count else None


def _log_likelihood(marked: int, count: int) -> float:
    """Return the logarithm of the maximum likelihood of `marked` marked parts among `count` parts."""
    return sum(each * math.log(each / count) for each in (marked, count - marked) if each)
