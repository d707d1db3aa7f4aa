"""Compute the evenness of frames outside logged stalls; benches/truth/pacer.py judges a shaper by it.

A stall is a time in which the host kept the pacer's thread from its CPU. The thread's log contains a stall if two clock
readings without work between them are far apart, or if a kernel call took much longer than usual. A pacer then catches
up by shorter gaps, for a time that follows from the length of the stall alone. The frames between two such times are a
stretch and are judged; all other frames are only counted.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

NS_PER_S, US = 1_000_000_000, 1000
CLOSEST, MOST_CLOSER_NS = 4 / 5, 8 * US
"""Catch-up constants of the pacer (crates/engine/src/impairment/catch_up.rs)."""
SAME_NS = 20 * US
"""Minimum length of stalls that are counted in the same way, whatever the thread did."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which the thread had no CPU."""

    begin_ns: int
    """Time on the clock of the timestamps."""
    end_ns: int
    """Time on the clock of the timestamps."""
    called: bool
    """Whether the thread was in a system call, and not busy-waiting."""


@dataclass(frozen=True, slots=True)
class Evenness:
    """Evenness over some time, seen at the far end."""

    frames: int
    """Judged frames."""
    train: int
    """Longest train of frames with gaps below half of the even gap [frames]."""
    sigma: float
    """Smallest token bucket at the rate to which the frames conform [frames]."""
    p99_ns: float
    """p99 of the gap error [ns]."""


def stretches(stamps: Sequence[int], stalls: Sequence[Stall], frame_ns: float) -> Iterator[list[int]]:
    """Yield the frames of each stretch: the frames before, between and after the stalls and their catch-up times."""
    spans = held(stalls, 1 + caught_up(frame_ns))
    begins, ends = [span[0] for span in spans], [0.0, *(span[1] for span in spans)]

    def place(at: int) -> tuple[int, bool]:
        number = bisect_right(begins, at)
        return number, at > ends[number]

    yield from (list(frames) for (_, calm), frames in groupby(stamps, place) if calm)


def caught_up(frame_ns: float) -> float:
    """Return the time to catch up after a stall, beyond the stall itself."""
    closer = min(frame_ns * (1 - CLOSEST), MOST_CLOSER_NS)
    return (frame_ns - closer) / closer


def held(stalls: Iterable[Stall], factor: float) -> list[tuple[float, float]]:
    """Return the time ranges from each stall to the end of its catch-up, with earlier stalls taken into account."""
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
    """Return the smallest bucket, in frames, that drains one frame in `frame_ns`."""
    level, most, last = 0.0, 0.0, stamps[0]
    for at in stamps:
        level = max(0.0, level - (at - last) / frame_ns) + 1
        most, last = max(most, level), at
    return most
