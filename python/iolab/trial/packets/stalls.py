"""Determine the effect of host stalls: whether a trial was disturbed, which frames could not be sent, and which part
was undisturbed. Pure.

A stall explains losses during the stall and shortly afterwards. Losses in the undisturbed part are the device's own,
however often the host stalls. Programs may also wait for the CPU of a busy-polling sender: a real-time thread keeps its
CPU from a program under test until the kernel moves the program, which takes milliseconds. While a program waits for a
sender's CPU, no frame is lost and no thread of the instrument stalls: only the latency tail shows the waiting.
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
"""Minimum lateness that shows that the host did not run a thread [ns]: a hundred times the lateness on an idle host."""
STEAL_NS = 10_000_000
"""One kernel clock tick: the minimum steal that /proc/stat shows [ns]."""


def perturbations(
    senders: Sequence[SenderReport], receivers: Sequence[ReceiverReport], steal_ns: int
) -> tuple[Disturbance, ...]:
    """Return the host disturbances during a trial; empty if the host was not disturbed."""
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
    """Return the time in which the host did not run threads of the instrument [ns]: stalls and CPU steal."""
    logs = [report.stalls for report in senders] + [report.stalls for report in receivers]
    return steal_ns + sum(stall.late_ns for log in logs for stall in log if _disturbed(stall))


def logged_ns(ran: TrafficRan, steal_ns: int) -> int:
    """Return the time in which threads of the instrument stalled, including short logged stalls [ns].

    A device with a short queue loses frames in a stall of 100 us on its CPU, which does not count as a disturbance.
    """
    logs = [*(one.stalls for one in ran.senders), *(one.stalls for one in ran.receivers)]
    return steal_ns + sum(stall.late_ns for log in logs for stall in log if stall.cause == "not_asked")


def excused_frames(sender: SenderReport) -> int:
    """Return the number of unsent frames that were due during a stall of the sender.

    A logged stall shortens the schedule but does not change its rate. Only a limited share is excused: frames with long
    gaps are not a load of the intended rate, even if the device forwards all of them.
    """
    held_ns = sum(stall.slipped_ns for stall in sender.stalls if stall.cause == "not_asked")
    span_ns = max(1, sender.end_ns - sender.begin_ns)
    held = round(sender.intended_frames * min(EXCUSED_RATIO, held_ns / span_ns))
    return min(held, max(0, sender.intended_frames - offered_frames(sender)))


def calm_frames(ran: TrafficRan, duration_ns: int, begin_ratio: float = 0.0) -> tuple[int, int]:
    """Return the number of frames sent in hundredths of the trial without stalls, and how many of these frames were
    lost, over all directions.

    Only the part after `begin_ratio` of the trial counts: a device loses nothing before it reaches its limit. Both
    counts are 0 if the agent does not report frames per part.
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
            # A queue that a stall filled is still draining in the next slice.
            if any(
                begin_ns < end_ns + width_ns and begin_ns + width_ns > start_ns for start_ns, end_ns in held
            ):
                continue
            sent_frames += sent
            lost_frames += sent - received
    return sent_frames, max(0, lost_frames)


def _held(ran: TrafficRan) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each stall of a thread, including the burst that follows the stall and takes about as
    long."""
    logs = [*(one.stalls for one in ran.senders), *(one.stalls for one in ran.receivers)]
    for stall in (stall for log in logs for stall in log):
        if stall.cause == "not_asked":
            yield stall.begin_ns, stall.end_ns + stall.late_ns


def _disturbed(stall: Stall) -> bool:
    return stall.cause == "not_asked" and stall.late_ns >= STALL_NS


AWAKE_RATIO = 0.5
"""If a sender is busy for at least this share of the time, it keeps other processes from its CPU [ratio]."""
OTHERS_RATIO = 0.02
"""If other processes use at least this share of a sender's CPU, they are assumed to have waited for more [ratio].

Processes that used no CPU time may have waited too: unless a shaper delayed frames, a long tail has no other known
cause.
"""
TAIL_NS = 1_000_000
"""Minimum difference between p99 and median that waiting for a sender's CPU may cause [ns]: a kernel moves a waiting
program after milliseconds."""


@dataclass(frozen=True, slots=True)
class KeptWaiting:
    """A CPU that processes may have needed at the same time as a sender."""

    cpu: int
    """CPU number."""
    sender: Thread
    """Sending thread that used most of the CPU."""
    others_ratio: float
    """Share of the CPU's time during the trial that threads outside the trial used [ratio]."""


def kept_waiting(record: LoadRecord) -> KeptWaiting | None:
    """Return the CPU on which processes waited for a sender, if their waiting may explain the latency tail; else
    None."""
    latency, result = record.latency, record.result
    if latency is None or latency.p99 - latency.p50 < TAIL_NS:
        return None
    shaped = any(shaper.held_back for shaper in record.shapers)
    # Counters are read before and after the trial: CPU time outside the trial may have been used to read the counters.
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
