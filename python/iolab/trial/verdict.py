"""What limited a load trial, by the figures that show it; where none does, "unexplained" and never a guess. Pure."""

from collections.abc import Sequence

from iolab.trial.balance import OVERRUNS, RECEIVER, Balance, Drop
from iolab.trial.guest_limits import guest_verdict, starved_guest
from iolab.trial.limits import BUSY_RATIO, CpuUse, Limit, Thread, Verdict
from iolab.trial.search.types import LoadResult
from iolab.trial.site import Ceilings
from iolab.trial.starved import shared, starved

UNKNOWN = Ceilings()
UNSENT_RATIO = 1e-3
"""From which share of unsent frames on the generator is the limit (trial/search Goal.unsent_ratio)."""
AT_CEILING_RATIO = 0.98
"""From which share of a calibrated ceiling on the instrument is at it: calibrations differ by as much."""
NS_PER_S = 1_000_000_000


def judge(
    result: LoadResult,
    goal_ratio: float,
    balances: Sequence[Balance],
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
    ceilings: Ceilings = UNKNOWN,
    held_ns: int = 0,
) -> Verdict:
    """Return what limited a trial whose loss should be at most `goal_ratio`; `held_ns` is from `stalls.held_up_ns`.

    A host that held threads up explains as many frames as were due meanwhile, and as many again that came in one
    burst afterwards; beyond that the cause is looked for where the frames were lost. The ceilings are those of one
    direction, as calibrated: a load above the generator's cannot be sent, whatever disturbed the host meanwhile, and a
    receiver that takes all it can may be why frames were lost before it.
    """
    beyond = ceilings.generator_fps is not None and result.intended_fps > ceilings.generator_fps
    by_host = 2 * held_ns * result.intended_fps / NS_PER_S if result.perturbed else 0.0
    if result.short_ratio > UNSENT_RATIO and (beyond or result.unsent_frames > by_host):
        return _generator(result, ceilings)
    if result.offered_frames and result.loss_ratio <= goal_ratio:
        text = f"{result.lost_frames} of {result.offered_frames} frames lost: within the goal"
        return Verdict(Limit.NONE, "; ".join((text, *result.perturbations)))
    in_stalls = (
        2 * result.calm_lost_frames <= result.lost_frames
    )  # else the device loses while all is calm, too
    worst = _worst(balances, result.lost_frames)
    if result.perturbed and in_stalls and result.lost_frames <= by_host:
        return _host(result, worst, cpus, threads)
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


def _host(
    result: LoadResult, worst: Drop | None, cpus: Sequence[CpuUse], threads: Sequence[Thread]
) -> Verdict:
    """Return the verdict where the host was disturbed: with the place, if a thread waited there for its CPU."""
    disturbed, figures = "; ".join(result.perturbations), {"loss_ratio": result.loss_ratio}
    # A counter that tells of more than is missing tells of other frames as well.
    if worst is not None and worst.frames <= result.lost_frames <= worst.frames * 2:
        thread = _taking_in(worst, threads)
        short = starved_guest(result, worst, cpus, threads)
        if short is None and thread is not None:
            short = starved(result, thread, cpus, threads)
        if short is not None:
            text = f"{short.text}; {_lost(result, worst)}; {disturbed}"
            return Verdict(Limit.HOST, text, worst.place, {**figures, **short.figures})
    return Verdict(Limit.HOST, disturbed, figures=figures)


def _hop(result: LoadResult, worst: Drop, cpus: Sequence[CpuUse], threads: Sequence[Thread]) -> Verdict:
    """Return the verdict where most frames were lost at one place: its thread, its CPU, or the place alone."""
    lost = _lost(result, worst)
    figures = {"dropped_frames": float(worst.frames), "lost_frames": float(result.lost_frames)}
    guest = guest_verdict(result, worst, lost, figures, cpus, threads)
    if guest is not None:
        return guest
    thread = _taking_in(worst, threads)
    if thread is None:
        return Verdict(Limit.HOP, lost, worst.place, figures)
    if thread.role in ("arrivals", "receiver"):
        return _far_end(thread, lost, figures)
    figures["thread_busy_ratio"] = thread.busy_ratio
    if thread.busy_ratio >= BUSY_RATIO:
        text = f"{thread.name} ran {thread.busy_ratio:.0%} of the time; {lost}"
        return Verdict(Limit.THREAD, text, worst.place, figures)
    short = starved(result, thread, cpus, threads) or shared(thread, cpus, threads)
    if short is None:
        return Verdict(Limit.HOP, lost, worst.place, figures)
    beside = [one for one in threads if one.cpu == thread.cpu and one.role in ("arrivals", "receiver")]
    ours_ratio = sum(one.busy_ratio for one in beside)
    by_us = ours_ratio > max(thread.busy_ratio, short.others_ratio)
    limit = Limit.RECEIVER if by_us else Limit.CPU
    return Verdict(limit, f"{short.text}; {lost}", worst.place, {**figures, **short.figures})


def _taking_in(worst: Drop, threads: Sequence[Thread]) -> Thread | None:
    """Return the thread that takes frames in at a port, if what was lost there is what it had no time for."""
    if worst.reason not in OVERRUNS:
        return None
    return next((one for one in threads if one.place == worst.place and one.role != "generator"), None)


def _lost(result: LoadResult, worst: Drop) -> str:
    return (
        f"{worst.frames} of {result.lost_frames} lost frames were dropped at {worst.place} ({worst.reason})"
    )


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
