"""What stalls of the host explain: disturbed trials, frames that could not be sent, and the part that was calm. Pure.

A stall explains what was lost in it and shortly after. What is lost in the calm part is the device's own loss, however
often the host stalls. Programs may also wait for the CPU of a sender that waits awake: a real-time thread keeps its CPU
from a program under test until the kernel finds the program another one, which takes milliseconds. Nothing was lost
then, and no thread of the instrument was held up: only the tail of latency shows it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iolab.agent.messages import ReceiverReport, SenderReport, Stall
from iolab.agent.traffic import TrafficRan
from iolab.messages.evidence import CpuStolen, Disturbance, HeldUp
from iolab.results.packets import LoadRecord
from iolab.results.search import EXCUSED_RATIO
from iolab.results.verdict import SENDERS, Thread
from iolab.trial.packets.balance import offered_frames

STALL_NS = 1_000_000
"""A thread that is so late was not run by the host: a hundred times what a calm one is late [ns]."""
STEAL_NS = 10_000_000
"""One tick of the kernel's clock: the least steal that /proc/stat shows [ns]."""


def perturbations(
    senders: Sequence[SenderReport], receivers: Sequence[ReceiverReport], steal_ns: int
) -> tuple[Disturbance, ...]:
    """Return what disturbed the host during a trial; nothing: it was calm."""
    found: list[Disturbance] = []
    reports: tuple[SenderReport | ReceiverReport, ...] = (*senders, *receivers)
    for report in reports:
        late_ns = [stall.late_ns for stall in report.stalls if _disturbed(stall)]
        if late_ns:
            found.append(
                HeldUp(
                    code="sender-held-up" if isinstance(report, SenderReport) else "receiver-held-up",
                    port=report.port,
                    times=len(late_ns),
                    longest_ns=max(late_ns),
                )
            )
    if steal_ns >= STEAL_NS:
        found.append(CpuStolen(stolen_ns=steal_ns))
    return tuple(found)


def held_up_ns(senders: Sequence[SenderReport], receivers: Sequence[ReceiverReport], steal_ns: int) -> int:
    """Return for how long the host kept threads of the instrument from running [ns]: stalls and stolen time."""
    logs = [report.stalls for report in senders] + [report.stalls for report in receivers]
    return steal_ns + sum(stall.late_ns for log in logs for stall in log if _disturbed(stall))


def logged_ns(ran: TrafficRan, steal_ns: int) -> int:
    """Return for how long threads of the instrument were held up, by every stall that was logged, however short [ns].

    A device with a short queue loses frames in a stall of 100 us on its CPU, which nobody would call a disturbance.
    """
    logs = [*(one.stalls for one in ran.senders), *(one.stalls for one in ran.receivers)]
    return steal_ns + sum(stall.late_ns for log in logs for stall in log if stall.cause == "not_asked")


def excused_frames(sender: SenderReport) -> int:
    """Return how many of the unsent frames were due while the host held the sender up.

    A schedule that was shifted by a logged stall is that much shorter, and its rate is as intended otherwise. Only a
    part of it is excused so: frames with long gaps are no load of that rate, whatever the device forwards of them.
    """
    held_ns = sum(stall.slipped_ns for stall in sender.stalls if stall.cause == "not_asked")
    span_ns = max(1, sender.end_ns - sender.begin_ns)
    held = round(sender.intended_frames * min(EXCUSED_RATIO, held_ns / span_ns))
    return min(held, max(0, sender.intended_frames - offered_frames(sender)))


def calm_frames(ran: TrafficRan, duration_ns: int, begin_ratio: float = 0.0) -> tuple[int, int]:
    """Return the frames of all directions sent in calm hundredths of the trial, and how many of them were lost.

    Only from `begin_ratio` of the trial on: before its limit a device loses nothing, calm or not. Nothing is calm where
    the agent does not tell what was sent when.
    """
    held = list(_held(ran))
    sent_frames = lost_frames = 0
    for receiver in ran.receivers:
        sender = ran.senders[receiver.of]
        slices = list(zip(sender.slices_frames, receiver.slices_frames, strict=False))
        width_ns = duration_ns / max(1, len(slices))
        for number, (sent, received) in enumerate(slices):
            if number < begin_ratio * len(slices):
                continue
            begin_ns = sender.begin_ns + number * width_ns
            # A queue that a stall filled is still being emptied in the next slice.
            if any(
                begin_ns < end_ns + width_ns and begin_ns + width_ns > start_ns for start_ns, end_ns in held
            ):
                continue
            sent_frames += sent
            lost_frames += sent - received
    return sent_frames, max(0, lost_frames)


def _held(ran: TrafficRan) -> Iterator[tuple[int, int]]:
    """Yield when threads were held up, each time with the burst that follows, which is about as long."""
    logs = [*(one.stalls for one in ran.senders), *(one.stalls for one in ran.receivers)]
    for stall in (stall for log in logs for stall in log):
        if stall.cause == "not_asked":
            yield stall.begin_ns, stall.end_ns + stall.late_ns


def _disturbed(stall: Stall) -> bool:
    return stall.cause == "not_asked" and stall.late_ns >= STALL_NS


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
