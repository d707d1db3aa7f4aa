"""What limited a load trial, by the figures that show it; where none does, "unexplained" and never a guess. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from iolab.agent.traffic import ReceiverReport, SenderReport, Stall
from iolab.trial.balance import BETWEEN, OVERRUNS, QDISC, RECEIVER, RING_FULL, UNREAD, Balance, Drop
from iolab.trial.search.types import LoadResult
from iolab.trial.site import Ceilings

UNKNOWN = Ceilings()
BUSY_RATIO = 0.95
"""A thread, or a CPU, that ran so much of the time had no time left: 5 % are sleeps too short to be used."""
UNSENT_RATIO = 1e-3
"""From which share of unsent frames on the generator is the limit (trial/search Goal.unsent_ratio)."""
AT_CEILING_RATIO = 0.98
"""From which share of a calibrated ceiling on the instrument is at it: calibrations differ by as much."""
GUEST = "guest"
"""Role of a virtual machine's threads; their place is the machine."""
WAITING_RATIO = 0.3
"""A thread that waited for its CPU so much of the time did not get what it needed."""
STOPPED_RATIO = 0.001
"""A guest whose busiest thread ran no more was stopped: an idle one's timers run more."""
BEYOND_RATIO = 0.9
"""Of a busy CPU's time, what its known threads must have if nobody else is to be told of."""
STALL_NS = 1_000_000
"""A thread that is so late was not run by the host: a hundred times what a calm one is late [ns]."""
NS_PER_S = 1_000_000_000
STEAL_NS = 10_000_000
"""One tick of the kernel's clock: the least steal that /proc/stat shows [ns]."""


class Limit(StrEnum):
    """What limited a trial."""

    NONE = "none"
    """Nothing was lost beyond the goal."""
    HOST = "host"
    """The host was disturbed."""
    GENERATOR = "generator"
    """The sender could not send more."""
    RECEIVER = "receiver"
    """The receiving port itself lost the frames."""
    THREAD = "thread"
    """A thread of the system under test had no time left."""
    CPU = "cpu"
    """The CPU of a thread of the system under test had no time left; others used it too."""
    HOP = "hop"
    """Most frames were lost at one place."""
    UNEXPLAINED = "unexplained"
    """Frames were lost, and no figure says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limited a trial, and what shows it."""

    limit: Limit
    """What."""
    text: str
    """In words, with figures."""
    place: str = ""
    """Where: machine.port, cpuN or the like; empty: nowhere in particular."""
    figures: dict[str, float] = field(default_factory=dict)
    """By name, with the unit in it."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """One CPU during a trial."""

    cpu: int
    """Its number."""
    busy_ratio: float
    """Time that it was not idle, of all."""
    softirq_ratio: float
    """Time in soft interrupts."""
    steal_ratio: float
    """Time that the hypervisor took."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread during a trial."""

    name: str
    """As the kernel calls it; of ours: generator, receiver."""
    role: str
    """device, guest, generator, receiver or arrivals (taking frames in for the receiver)."""
    place: str
    """The port it works for; of a guest's threads the machine."""
    cpu: int | None
    """The CPU it is kept on."""
    busy_ratio: float
    """Time that it ran, of one CPU."""
    wait_ratio: float = 0.0
    """Time that it was ready, and had no CPU; told of guests' threads only."""


def perturbations(
    senders: Sequence[SenderReport], receivers: Sequence[ReceiverReport], steal_ns: int
) -> tuple[str, ...]:
    """Return what disturbed the host during a trial, a sentence each; nothing: it was calm."""
    found: list[str] = []
    for what, reports in (("sender", senders), ("receiver", receivers)):
        for report in reports:
            long = [stall for stall in report.stalls if _disturbed(stall)]
            if long:
                worst = max(long, key=lambda stall: stall.late_ns)
                found.append(
                    f"the {what} at {report.port} was held up {len(long)} times by 1 ms or more, "
                    f"the longest by {worst.late_ns / 1e6:.1f} ms"
                )
    if steal_ns >= STEAL_NS:
        found.append(f"the hypervisor took {steal_ns / 1e6:.0f} ms of CPU time")
    return tuple(found)


def held_up_ns(senders: Sequence[SenderReport], receivers: Sequence[ReceiverReport], steal_ns: int) -> int:
    """Return for how long the host kept threads of the instrument from running [ns]: stalls and stolen time."""
    logs = [report.stalls for report in senders] + [report.stalls for report in receivers]
    return steal_ns + sum(stall.late_ns for log in logs for stall in log if _disturbed(stall))


def judge(
    result: LoadResult,
    goal_ratio: float,
    balances: Sequence[Balance],
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
    ceilings: Ceilings = UNKNOWN,
    held_ns: int = 0,
) -> Verdict:
    """Return what limited a trial whose loss should be at most `goal_ratio`; `held_ns` is from `held_up_ns`.

    A host that held threads up explains as many frames as were due meanwhile, and as many again that came in one
    burst afterwards; beyond that the cause is looked for where the frames were lost. The ceilings are those of one
    direction, as calibrated: a load above the generator's cannot be sent, whatever disturbed the host meanwhile, and a
    receiver that takes all it can may be why frames were lost before it.
    """
    beyond = ceilings.generator_fps is not None and result.intended_fps > ceilings.generator_fps
    by_host = 2 * held_ns * result.intended_fps / NS_PER_S if result.perturbed else 0.0
    if result.unsent_ratio > UNSENT_RATIO and (beyond or result.unsent_frames > by_host):
        return _generator(result, ceilings)
    if result.offered_frames and result.loss_ratio <= goal_ratio:
        text = f"{result.lost_frames} of {result.offered_frames} frames lost: within the goal"
        return Verdict(Limit.NONE, "; ".join((text, *result.perturbations)))
    if result.perturbed and result.lost_frames <= by_host:
        return Verdict(Limit.HOST, "; ".join(result.perturbations), figures={"loss_ratio": result.loss_ratio})
    worst = _worst(balances, result.lost_frames)
    if worst is not None and worst.frames * 2 >= result.lost_frames:
        if worst.place == RECEIVER:
            text = f"the receiving port lost {worst.frames} of {result.lost_frames} frames itself: {worst.reason}"
            return Verdict(Limit.RECEIVER, text, RECEIVER, {"dropped_frames": float(worst.frames)})
        found = _hop(result, worst, cpus, threads)
    else:
        found = _unexplained(result, balances)
    if found.limit in (Limit.CPU, Limit.HOP, Limit.UNEXPLAINED):
        return _at_receivers_ceiling(result, ceilings, found) or found
    return found


def _generator(result: LoadResult, ceilings: Ceilings) -> Verdict:
    text = (
        f"{result.unsent_frames} of {result.intended_frames} frames could not be sent: "
        f"{result.offered_fps:.0f} of {result.intended_fps:.0f} frames/s"
    )
    figures = {"unsent_ratio": result.unsent_ratio, "offered_fps": result.offered_fps}
    if ceilings.generator_fps is not None:
        text += f"; the calibrated ceiling is {ceilings.generator_fps:.0f}"
        figures["ceiling_fps"] = ceilings.generator_fps
    return Verdict(Limit.GENERATOR, text, "generator", figures)


def _at_receivers_ceiling(result: LoadResult, ceilings: Ceilings, found: Verdict) -> Verdict | None:
    """Return the verdict where as much arrived as the receiver can take; None: it could have taken more."""
    ceiling = ceilings.receiver_fps
    if ceiling is None or result.forwarded_fps < AT_CEILING_RATIO * ceiling:
        return None
    text = f"{result.forwarded_fps:.0f} frames/s arrived, and the receiver takes {ceiling:.0f} by calibration"
    figures = {**found.figures, "forwarded_fps": result.forwarded_fps, "ceiling_fps": ceiling}
    return Verdict(Limit.RECEIVER, f"{text}; {found.text}", RECEIVER, figures)


def _hop(result: LoadResult, worst: Drop, cpus: Sequence[CpuUse], threads: Sequence[Thread]) -> Verdict:
    """Return the verdict where most frames were lost at one place: its thread, its CPU, or the place alone."""
    lost = (
        f"{worst.frames} of {result.lost_frames} lost frames were dropped at {worst.place} ({worst.reason})"
    )
    figures = {"dropped_frames": float(worst.frames), "lost_frames": float(result.lost_frames)}
    guest = _guest(result, worst, lost, figures, cpus, threads)
    if guest is not None:
        return guest
    thread = next((one for one in threads if one.place == worst.place and one.role != "generator"), None)
    if worst.reason not in OVERRUNS:
        return Verdict(Limit.HOP, lost, worst.place, figures)
    if thread is not None and thread.role in ("arrivals", "receiver"):
        return _far_end(thread, lost, figures)
    if thread is not None:
        figures["thread_busy_ratio"] = thread.busy_ratio
        if thread.busy_ratio >= BUSY_RATIO:
            text = f"{thread.name} ran {thread.busy_ratio:.0%} of the time; {lost}"
            return Verdict(Limit.THREAD, text, worst.place, figures)
        cpu = next((one for one in cpus if one.cpu == thread.cpu), None)
        others = [
            one.name
            for one in threads
            if one.cpu == thread.cpu and one is not thread and one.busy_ratio > 0.02
        ]
        if cpu is not None and cpu.busy_ratio >= BUSY_RATIO and others:
            figures["cpu_busy_ratio"] = cpu.busy_ratio
            beside = [
                one for one in threads if one.cpu == thread.cpu and one.role in ("arrivals", "receiver")
            ]
            ours = sum(one.busy_ratio for one in beside)
            text = (
                f"CPU {cpu.cpu} was {cpu.busy_ratio:.0%} busy, {thread.name} having {thread.busy_ratio:.0%} of it "
                f"beside {', '.join(others)}; {lost}"
            )
            return Verdict(
                Limit.RECEIVER if ours > thread.busy_ratio else Limit.CPU, text, worst.place, figures
            )
    return Verdict(Limit.HOP, lost, worst.place, figures)


def _guest(
    result: LoadResult,
    worst: Drop,
    lost: str,
    figures: dict[str, float],
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
) -> Verdict | None:
    """Return the verdict where frames were lost at a guest whose threads on the parent had, or got, no time left."""
    machine = worst.place.partition(" ")[0].partition(".")[0]
    own = [one for one in threads if one.role == GUEST and one.place == machine]
    busiest = max(own, key=lambda one: one.busy_ratio, default=None)
    if busiest is None or not _may_be_overrun(worst.reason):
        return None
    figures = {**figures, "thread_busy_ratio": busiest.busy_ratio}
    if busiest.busy_ratio >= BUSY_RATIO:
        idle = sum(1 - cpu.busy_ratio for cpu in cpus) / len(cpus) if cpus else 0.0
        text = (
            f"thread {busiest.name} of {machine} ran {busiest.busy_ratio:.0%} of the time, on CPU {busiest.cpu}, "
            f"while the host's CPUs were {idle:.0%} idle; {lost}"
        )
        return Verdict(Limit.THREAD, text, worst.place, {**figures, "idle_ratio": idle})
    if busiest.busy_ratio < STOPPED_RATIO:
        text = f"{lost}; no thread of {machine} ran meanwhile: is its hypervisor stopped?"
        return Verdict(Limit.HOP, text, worst.place, figures)
    if not result.forwarded_frames:
        return None  # a slow guest passes some on: one that passes none is not set up to
    return _starved_guest(worst, lost, figures, cpus, threads, busiest)


def _starved_guest(
    worst: Drop,
    lost: str,
    figures: dict[str, float],
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
    busiest: Thread,
) -> Verdict | None:
    """Return the verdict where the CPU of a guest's busiest thread was busy with other work; None: it was not."""
    cpu = next((one for one in cpus if one.cpu == busiest.cpu), None)
    if cpu is None or cpu.busy_ratio < BUSY_RATIO or busiest.wait_ratio < WAITING_RATIO:
        return None
    if not worst.reason.startswith((RING_FULL, UNREAD, BETWEEN)):
        return None  # what is lost inside the guest is lost while it runs
    beside = [one for one in threads if one.cpu == cpu.cpu and one is not busiest and one.busy_ratio > 0.02]
    names = ", ".join(f"{one.name} {one.busy_ratio:.0%}" for one in beside)
    known = busiest.busy_ratio + sum(one.busy_ratio for one in beside)
    others = f"beside {names}" if names else "beside"
    if known < BEYOND_RATIO * cpu.busy_ratio:
        others += f"{' and' if names else ''} {max(0.0, cpu.busy_ratio - known):.0%} of work that is not of this trial"
    text = (
        f"CPU {cpu.cpu} was {cpu.busy_ratio:.0%} busy, {busiest.name} of {busiest.place} having "
        f"{busiest.busy_ratio:.0%} of it, and waiting for it {busiest.wait_ratio:.0%} of the time, {others}; {lost}"
    )
    figures = {**figures, "cpu_busy_ratio": cpu.busy_ratio, "thread_wait_ratio": busiest.wait_ratio}
    return Verdict(Limit.CPU, text, worst.place, figures)


def _may_be_overrun(reason: str) -> bool:
    """Tell whether frames are lost for this reason where a guest has no time for them; others are decisions."""
    return reason.startswith((*OVERRUNS, QDISC, UNREAD, BETWEEN))


def _far_end(thread: Thread, lost: str, figures: dict[str, float]) -> Verdict:
    """Return the verdict where frames were lost at the ring of the receiving port: the instrument's side."""
    figures["thread_busy_ratio"] = thread.busy_ratio
    return Verdict(Limit.RECEIVER, f"{lost}, which is where they are received", thread.place, figures)


def _worst(balances: Sequence[Balance], lost_frames: int) -> Drop | None:
    """Return the place and reason with most drops over all directions.

    Where no reason has half of them, those of a place are told of together.
    """
    sums: dict[tuple[str, str], int] = {}
    for balance in balances:
        for drop in balance.drops:
            sums[drop.place, drop.reason] = sums.get((drop.place, drop.reason), 0) + drop.frames
    if not sums:
        return None
    (place, reason), frames = max(sums.items(), key=lambda item: item[1])
    if frames * 2 >= lost_frames:
        return Drop(place, reason, frames)
    places: dict[str, int] = {}
    for (at, _), several in sums.items():
        places[at] = places.get(at, 0) + several
    place = max(places, key=lambda at: places[at])
    reasons = sorted((reason for at, reason in sums if at == place), key=lambda one: -sums[place, one])
    return Drop(place, ", ".join(f"{reason} {sums[place, reason]}" for reason in reasons), places[place])


def _unexplained(result: LoadResult, balances: Sequence[Balance]) -> Verdict:
    missing = sum(balance.unexplained_frames for balance in balances)
    text = (
        f"{result.lost_frames} frames were lost; no counter tells of {missing} of them, and no place of most"
    )
    return Verdict(Limit.UNEXPLAINED, text, figures={"unexplained_frames": float(missing)})


def _disturbed(stall: Stall) -> bool:
    return stall.cause == "not_asked" and stall.late_ns >= STALL_NS
