"""The part of a trial in which the device was at its limit: what it forwards then it forwards without end. Pure.

A queue or the credit of a token bucket takes up frames at first, so that a trial is better than the device. When the
credit is used up, frames are lost from there to the end. While a queue fills, fewer frames arrive than are sent, and
not even the fastest is as fast as at first. Either leaves a mark in the hundredths of a trial.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

STANDING_NS = 100_000
"""A queue stands where the fastest frame of a part takes so much longer than the fastest at first: ten times what the
latency of an idle veth differs by [ns]."""
FIRST_RATIO = 0.25
"""The beginning of a trial, in which some frame finds the queue empty."""
LEAST_RATIO = 0.1
"""A shorter part of a trial at the limit is too short to tell a rate."""
CLEAR_GAIN = 6.0
"""Logarithm of how much likelier a change must be than none: chance alone finds that in one of a hundred trials."""
MOSTLY = 0.8
"""Share of parts in which a queue stands, for it to stand in all."""


@dataclass(frozen=True, slots=True)
class Steady:
    """What came out while the device was at its limit; sums over directions."""

    share_ratio: float
    """That time, per duration of the trial."""
    offered_frames: int
    """Frames sent in it."""
    forwarded_frames: int
    """Frames that came out in it."""

    @property
    def loss_ratio(self) -> float:
        """Return what was lost or kept back, per frame offered; never negative."""
        if not self.offered_frames:
            return 0.0
        return max(0.0, 1.0 - self.forwarded_frames / self.offered_frames)


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

    def standing(self) -> list[bool]:
        """Return in which parts a queue stood: not even the fastest frame came through at once."""
        first = self.least_latency_ns[: max(1, round(FIRST_RATIO * len(self.least_latency_ns)))]
        least = min((each for each in first if each is not None), default=None)
        if least is None:
            return [False] * len(self.least_latency_ns)
        return [each is not None and each > least + STANDING_NS for each in self.least_latency_ns]

    def lossy(self) -> list[bool]:
        """Return in which parts a frame was sent that was lost."""
        return [sent > got for sent, got in zip(self.sent_frames, self.received_frames, strict=True)]


def find_steady(directions: Sequence[Parts]) -> Steady | None:
    """Return the part of a trial at the device's limit, from where its signs began to the end.

    None where there is no sign. A `share_ratio` of 0: it began so late that only a longer trial can show a rate.
    """
    count = min((len(each.sent_frames) for each in directions), default=0)
    if not count or any(len(each.arrived_frames) != count for each in directions):
        return None
    standing = [each.standing() for each in directions]
    lost = any(any(each.lossy()) for each in directions)
    signs = [
        any(stands[at] for stands in standing)
        or any(each.sent_frames[at] > each.received_frames[at] for each in directions)
        for at in range(count)
    ]
    first = onset(signs)
    if first is None:
        return None
    begin = max(
        first + 1, 2
    )  # a burst may have been used up within that part, and one part before it is no clear change
    share = (count - begin) / count
    if share < LEAST_RATIO:
        return Steady(0.0, 0, 0) if lost else None
    offered = forwarded = 0
    for each, stands in zip(directions, standing, strict=True):
        queued = sum(stands[begin:]) >= MOSTLY * (count - begin)
        offered += sum(each.sent_frames[begin:])
        forwarded += sum((each.arrived_frames if queued else each.received_frames)[begin:])
    return Steady(share, offered, forwarded)


def onset(signs: Sequence[bool]) -> int | None:
    """Return from which part on there are signs: the likeliest change from few to many, or 0 where none is clear.

    None where there is no sign, or fewer at the end than before.
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
    return begin if few / begin < many / (count - begin) else None


def _log_likelihood(marked: int, count: int) -> float:
    """Return the logarithm of the highest probability of so many marks."""
    return sum(each * math.log(each / count) for each in (marked, count - marked) if each)
