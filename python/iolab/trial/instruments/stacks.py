"""What a profiler saw, from the text that its folding script prints: which thread was in which function. Pure.

A line per stack, as flame graphs are drawn from: the number of samples, a tab, the thread, and its functions from the
outermost to the one that ran, with semicolons between.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.results.dimensions import Dimensions
from iolab.results.metric import Metric

MOST_FUNCTIONS = 10
"""Of a kernel, that are figures; the file beside the samples has all."""
LEAST_RATIO = 0.002
"""Of a CPU: less is chance [ratio]."""
IDLE = "swapper"
"""What the kernel calls the thread of an idle CPU."""
HIDDEN = "[kernel]"
"""In the place of a function whose name the kernel hides."""
UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
MOST_LOCKS = 5
"""Callers that waited longest."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """The samples of one kernel."""

    counts: Mapping[tuple[str, ...], int]
    """Thread, then its functions from the outermost to the one that ran, to the number of samples."""
    lost: int
    """Samples that the kernel had no room for."""
    span_ns: int
    """From the first sample to the last [ns]."""

    @property
    def samples(self) -> int:
        """Return how many there are."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Waited:
    """Waits for locks in one place of the kernel."""

    caller: str
    """The function that waited."""
    kind: str
    """Of lock: spinlock, mutex, rwsem:R, ..."""
    contended: int
    """Times that it had to wait."""
    total_ns: float
    """All waits together [ns]."""


def stacks_in(text: str) -> Stacks:
    """Return the samples of a folded profile; its first line has what is known of all of them."""
    head, *lines = text.splitlines() or ["# 0 0"]
    numbers = head.lstrip("# ").split()
    lost, span_ns = (int(float(each)) for each in [*numbers, "0", "0"][:2])
    counts: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        count, _, stack = line.partition("\t")
        if count.isdecimal() and stack:
            counts[tuple(stack.split(";"))] += int(count)
    return Stacks(counts, lost, span_ns)


def functions(found: Stacks, frequency_hz: int) -> list[tuple[str, str, float]]:
    """Return thread, function and the part of a CPU that it ran itself, the most first; idle CPUs are left out."""
    own: Counter[tuple[str, str]] = Counter()
    for (thread, *stack), count in found.counts.items():
        if not thread.startswith(IDLE):
            own[thread, stack[-1] if stack else thread] += count
    whole = frequency_hz * found.span_ns / 1e9
    ranked = sorted(own.items(), key=lambda each: (-each[1], each[0]))
    return [(*of, count / whole) for of, count in ranked] if whole > 0 else []


def function_metrics(machine: str, found: Stacks, frequency_hz: int) -> Iterator[Metric]:
    """Yield what the profile of a kernel comes to."""
    about = machine or None
    for thread, function, ratio in functions(found, frequency_hz)[:MOST_FUNCTIONS]:
        if ratio >= LEAST_RATIO:
            of = Dimensions(machine=about, thread=thread, part=function)
            yield Metric.of("profile_self_ratio", ratio, of)
    yield Metric.of("profile_samples", found.samples, Dimensions(machine=about))
    yield Metric.of("profile_lost_samples", found.lost, Dimensions(machine=about))


def hidden_ratio(found: Stacks) -> float:
    """Return the part of the samples in the kernel whose function has no name."""
    own = [(stack[-1], count) for stack, count in found.counts.items() if len(stack) > 1]
    kernel = sum(count for function, count in own if function.endswith("_[k]") or function == HIDDEN)
    return sum(count for function, count in own if function == HIDDEN) / kernel if kernel else 0.0


def waits_in(text: str) -> list[Waited]:
    """Return the waits for locks that `perf lock contention` lists, the longest first."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 9 or not words[0].isdecimal() or words[2] not in UNITS_NS:  # a head, or a note
            continue
        caller = words[8].partition("+0x")[0]
        found.append(Waited(caller, words[7], int(words[0]), float(words[1]) * UNITS_NS[words[2]]))
    return sorted(found, key=lambda one: -one.total_ns)


def wait_metrics(machine: str, found: Sequence[Waited]) -> Iterator[Metric]:
    """Yield where a kernel waited for locks."""
    about = machine or None
    yield Metric.of("lock_wait_ns", sum(one.total_ns for one in found), Dimensions(machine=about))
    by_place: Counter[str] = Counter()
    for one in found:
        by_place[f"{one.caller} ({one.kind})"] += round(one.total_ns)
    for place, total in by_place.most_common(MOST_LOCKS):
        yield Metric.of("lock_wait_ns", total, Dimensions(machine=about, part=place))
