"""Programs that may want the CPU of a sender that waits awake: what they forward waits with them. Pure.

A real-time thread keeps its CPU from a program under test until the kernel finds the program another one, which takes
milliseconds. Nothing was lost then, and no thread of the instrument was held up: only the tail of latency shows it.
"""

from dataclasses import dataclass

from iolab.results.load import LoadRecord
from iolab.results.verdict import SENDERS, Thread

AWAKE_RATIO = 0.5
"""A sender that has its CPU for so much of the time keeps others from it [ratio]."""
OTHERS_RATIO = 0.02
"""Others that had so much of its CPU nevertheless were kept waiting for the rest [ratio].

Others that had nothing of it may have waited all the same: where no shaper held frames back either, nothing else is
known to make a long tail."""
TAIL_NS = 1_000_000
"""A 99th percentile less far above the median is not theirs: a kernel moves a program that waits after milliseconds."""


@dataclass(frozen=True, slots=True)
class KeptWaiting:
    """A CPU that programs may have wanted beside a sender."""

    cpu: int
    """Its number."""
    sender: Thread
    """The thread that had most of it."""
    others_ratio: float
    """What was left to threads that the trial does not know, of the trial's time."""


def kept_waiting(record: LoadRecord) -> KeptWaiting | None:
    """Return where programs waited for a sender, if the tail of latency may come from that."""
    latency, result = record.latency, record.result
    if latency is None or latency.p99 - latency.p50 < TAIL_NS:
        return None
    shaped = any(shaper.held_back for shaper in record.shapers)
    # Counters are read before and after: what ran then may have been the reading.
    around = result.overhead_ns / max(1, result.duration_ns)
    for sender in record.threads:
        use = next((one for one in record.cpus if (one.kernel, one.cpu) == (SENDERS, sender.cpu)), None)
        if sender.role != "generator" or sender.busy_ratio < AWAKE_RATIO or use is None:
            continue
        known = sum(
            one.busy_ratio for one in record.threads if (one.kernel, one.cpu) == (SENDERS, sender.cpu)
        )
        busy = (use.busy_ratio - use.softirq_ratio - use.steal_ratio) * (1 + around)
        others_ratio = max(0.0, busy - known - around)
        if others_ratio >= OTHERS_RATIO or not shaped:
            return KeptWaiting(use.cpu, sender, others_ratio)
    return None
