"""How even frames are outside of stalls that somebody else logged: what benches/truth/pacer.py judges a shaper by.

A stall is a time in which the host kept the pacer's thread from its CPU, by the thread's own log of clock readings with
nothing of its own between them, or of calls of the kernel that took much longer than they do. A pacer then catches up
by shorter gaps, for a time that follows from the length of the stall alone. Frames between two such times are a
stretch, and judged; all others are counted, and left out.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

NS_PER_S, US = 1_000_000_000, 1000
CLOSEST, MOST_CLOSER_NS = 4 / 5, 8 * US
"""As the pacer has them (crates/engine/src/impairment/catch_up.rs)."""
SAME_NS = 20 * US
"""Stalls so long are counted alike, whatever the thread was doing."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which the thread was kept from its CPU."""

    begin_ns: int
    """On the clock of the stamps."""
    end_ns: int
    """On the clock of the stamps."""
    called: bool
    """In a call of the kernel; False: while it waited awake."""


@dataclass(frozen=True, slots=True)
class Evenness:
    """What the far end saw in some time."""

    frames: int
    """Frames that are judged."""
    train: int
    """Longest train: gaps below half of the even one [frames]."""
    sigma: float
    """Smallest bucket at the rate [frames]."""
    p99_ns: float
    """Of the error of gaps [ns]."""


def stretches(stamps: Sequence[int], stalls: Sequence[Stall], frame_ns: float) -> Iterator[list[int]]:
    """Yield the frames of each stretch: those before, between and after stalls and the catching up."""
    spans = held(stalls, 1 + caught_up(frame_ns))
    begins, ends = [span[0] for span in spans], [0.0, *(span[1] for span in spans)]

    def place(at: int) -> tuple[int, bool]:
        number = bisect_right(begins, at)
        return number, at > ends[number]

    yield from (list(frames) for (_, calm), frames in groupby(stamps, place) if calm)


def caught_up(frame_ns: float) -> float:
    """Return how much longer than a stall the catching up takes."""
    closer = min(frame_ns * (1 - CLOSEST), MOST_CLOSER_NS)
    return (frame_ns - closer) / closer


def held(stalls: Iterable[Stall], factor: float) -> list[tuple[float, float]]:
    """Return the times from each stall to when it is caught up, behind what had to be caught up before."""
    found: list[tuple[float, float]] = []
    for one in sorted(stalls, key=lambda one: one.begin_ns):
        begin, cost = float(one.begin_ns), (one.end_ns - one.begin_ns) * factor
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], found[-1][1] + cost)
        else:
            found.append((begin, begin + cost))
    return found


def judged(parts: Sequence[Sequence[int]], frame_ns: float) -> Evenness:
    """Judge stretches of frames together: the longest train, the largest bucket, all gaps."""
    errors: list[float] = []
    longest, most = 1, 0.0
    for part in parts:
        train = 1
        for before, after in pairwise(part):
            gap = after - before
            errors.append(abs(gap - frame_ns))
            train = train + 1 if gap < frame_ns / 2 else 1
            longest = max(longest, train)
        most = max(most, sigma(part, frame_ns))
    errors.sort()
    p99_ns = errors[len(errors) * 99 // 100] if errors else float("nan")
    return Evenness(sum(map(len, parts)), longest, most, p99_ns)


def sigma(stamps: Sequence[int], frame_ns: float) -> float:
    """Return the smallest bucket, in frames, that drains one in `frame_ns`."""
    level, most, last = 0.0, 0.0, stamps[0]
    for at in stamps:
        level = max(0.0, level - (at - last) / frame_ns) + 1
        most, last = max(most, level), at
    return most
