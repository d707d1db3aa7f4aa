"""The part of a trial in which the device was at its limit: what it forwards then it forwards without end. Pure.

A queue or the credit of a token bucket takes up frames at first, so that a trial is better than the device. When the
credit is used up, frames are lost from there to the end. While a queue fills, fewer frames arrive than are sent, and
not even the fastest is as fast as at first. Either leaves a mark in the hundredths of a trial.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from iolab.results.search import Steady

STANDING_NS = 100_000
"""A queue stands where the fastest frame of a part takes so much longer than the fastest at first: ten times what the
latency of an idle veth differs by [ns]."""
FIRST_RATIO = 0.25
"""The beginning of a trial, in which some frame finds the queue empty."""
LEAST_RATIO = 0.1
"""A shorter part of a trial at the limit is too short to tell a rate."""
CLEAR_GAIN = 6.0
"""Logarithm of how much likelier a change must be than none: chance alone finds that in one of a hundred trials."""
SLOW_RATIO = 0.05
"""A rate that falls by less within a trial is the same: the noise of a host."""
SLOW_SIGMAS = 6.0
"""How many standard deviations a fall must be: frames come in batches, and a trial has a hundred places for it."""
SLOW_PARTS = 10
"""A fall that lasts for fewer parts may be a stall."""
SENT_RATIO = 0.8
"""A part with fewer frames, of the middle one's, is one in which the sender was held up."""
HELD_RATIO = 0.25
"""A part with fewer arrivals, of the mean, is one in which they were held up: what was held arrives with the next."""
HELD_PARTS = 10
"""Arrivals that are held up for longer are a device that stands still."""
MOSTLY = 0.8
"""Share of parts in which a queue stands, or that have a sign at all, for it to be so in all."""


@dataclass(frozen=True, slots=True)
class Parts:
    """One direction of a trial, in equal parts of its time."""

    sent_frames: Sequence[int]
    """Frames sent in each part."""
    received_frames: Sequence[int]
    """Of those, the ones that came out, whenever that was."""
    arrived_frames: Sequence[int]
    """Frames that came out in each part, whenever they were sent."""
    least_latency_ns: Sequence[int | None]
    """The fastest of those [ns]; None: none came out."""

    def was_sent(self, at: int) -> bool:
        """Return whether a part has about as many frames as the others."""
        return self.sent_frames[at] >= SENT_RATIO * statistics.median(self.sent_frames)

    def standing(self) -> list[bool]:
        """Return in which parts a queue stood: not even the fastest frame came through at once."""
        first = self.least_latency_ns[: max(1, round(FIRST_RATIO * len(self.least_latency_ns)))]
        least = min((each for each in first if each is not None), default=None)
        if least is None:
            return [False] * len(self.least_latency_ns)
        # Where nothing came out at all, what was sent and came out later had to wait.
        return [
            got > 0 if each is None else each > least + STANDING_NS
            for each, got in zip(self.least_latency_ns, self.received_frames, strict=True)
        ]

    def lossy(self) -> list[bool]:
        """Return in which parts a frame was sent that was lost."""
        return [sent > got for sent, got in zip(self.sent_frames, self.received_frames, strict=True)]


def find_steady(directions: Sequence[Parts]) -> Steady | None:
    """Return the part of a trial at the device's limit, from where its signs began to the end.

    None where there is no sign. A `share_ratio` of 0: it began so late that only a longer trial can show a rate. Parts
    in which a sender was held up were no such load, and are left out.
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
    # A burst may have been used up within that part: no change shows in one.
    window = without_credit(used[max(first + 1, 2) :], signs)
    while slower := slowdown([arrived[at] for at in window]):
        window = window[slower:]  # a bottleneck before the bucket lost frames from the beginning
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
    """Return from which part on there are signs: the likeliest change from few to many, or 0 where none is clear.

    None where there is no sign.
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
    """Return the parts of a window in which the device was at its limit, where its sender was held up meanwhile.

    A bucket saves up credit while nothing is sent, and a queue empties. What passes then without a sign is no rate of
    the device, for the parts in which it saved that up are not counted: the limit begins again with the next sign.
    """
    parts: list[int] = []
    quiet: list[int] = []
    before, recovers = None, False
    for at in window:
        recovers = recovers or (before is not None and at > before + 1)
        (quiet if recovers else parts).append(at)
        recovers = recovers and not signs[at]
        before = at
    # Where signs are rare, a few parts without one tell nothing.
    clear = sum(signs[at] for at in parts) >= MOSTLY * len(parts)
    return parts if clear else sorted([*parts, *quiet])


def without_release(arrived_frames: Sequence[int], window: Sequence[int]) -> Sequence[int]:
    """Return a window that does not begin with frames that were held up before it.

    A device's timer often holds up everything on its CPU just when the limit is reached; the frames of that time come
    out together in the next part. A device that stands still for longer forwards so much less.
    """
    least = HELD_RATIO * sum(arrived_frames[at] for at in window) / max(1, len(window))
    moving = (min(arrived_frames[at - 1 : at + 1]) >= least for at in window[:HELD_PARTS])
    return window[next((place for place, moves in enumerate(moving) if moves), 0) :]


def pace(arrived_frames: Sequence[int]) -> float:
    """Return the frames per part at which arrivals grow: the slope of their sum (least squares).

    A shaper's timer lets many frames go at once, as many as 64: at the ends of a short trial that is 2 % of all, and
    in the middle nothing.
    """
    sums = list(accumulate(arrived_frames))
    middle = (len(sums) - 1) / 2
    spread = sum((at - middle) ** 2 for at in range(len(sums)))
    return sum((at - middle) * each for at, each in enumerate(sums)) / spread if spread else float(sum(sums))


def slowdown(arrived_frames: Sequence[int]) -> int | None:
    """Return the part after which clearly fewer frames came out to the end than before; None: there is none.

    A device with a bucket behind a bottleneck loses frames from the beginning, and more when its credit is used up.
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
    """Return the logarithm of the highest probability of so many marks."""
    return sum(each * math.log(each / count) for each in (marked, count - marked) if each)
