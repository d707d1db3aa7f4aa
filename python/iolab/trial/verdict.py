"""What limited a load trial, by the figures that show it; where none does, "unexplained" and never a guess. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iolab.lab.packets.placement import Way
from iolab.record.balance import Balance, Drop
from iolab.record.load import Shaper
from iolab.record.search import LoadResult
from iolab.record.verdict import BUSY_RATIO, CpuUse, Limit, Thread, Verdict
from iolab.trial.drops import DAMAGED, OVERRUNS, RECEIVER, decided, merged, worst_of
from iolab.trial.flow_losses import DeadFlows, explains
from iolab.trial.guest_limits import guest_verdict, starved_guest
from iolab.trial.shapers import Suspect, suspect, suspected
from iolab.trial.site import Ceilings
from iolab.trial.starved import joined, shared, starved

UNKNOWN = Ceilings()
UNSENT_RATIO = 1e-3
"""From which share of unsent frames on the generator is the limit (trial/search Goal.unsent_ratio)."""
AT_CEILING_RATIO = 0.98
"""From which share of a calibrated ceiling on the instrument is at it: calibrations differ by as much."""
FEWEST_LOST = 5
"""Frames that the calm part of a trial must be expected to lose before its loss tells something."""
BESIDE_RATIO = 0.1
"""From which share of the loss on another place is told of."""
CLEAR_RATIO = 0.5
"""Of what the instrument's threads had of a device's CPU, what others may have had while it is clear who took it."""
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen of a load trial, beside its frames."""

    balances: Sequence[Balance] = ()
    """Where they went, per direction."""
    cpus: Sequence[CpuUse] = ()
    """What CPUs did."""
    threads: Sequence[Thread] = ()
    """What threads did."""
    ceilings: Ceilings = UNKNOWN
    """What the instrument can do in one direction, as calibrated."""
    held_ns: int = 0
    """For how long the host held threads of the instrument up (`stalls.held_up_ns`) [ns]."""
    shapers: Sequence[Shaper] = ()
    """Shapers on the ways."""
    directions: Sequence[Way] = ()
    """The ways."""
    dead: DeadFlows | None = None
    """Flows of which nothing arrived."""
    begun_again: Sequence[str] = ()
    """Ports of which a queue's counters began again."""


def judge(result: LoadResult, goal_ratio: float, seen: Evidence) -> Verdict:
    """Return what limited a trial whose loss should be at most `goal_ratio`, with what else lost much.

    A shaper that is at its rate comes first: its own counters show that no more could pass. The host explains as many
    frames as were due while it held threads up, and as many again that came in one burst afterwards, but nothing that
    was dropped by a decision, or as often while all was calm. Beyond that the cause is looked for where the frames were
    lost. A load above the generator's ceiling cannot be sent, whatever disturbed the host meanwhile, and a receiver
    that takes all it can may be why frames were lost before it.
    """
    drops = merged(drop for balance in seen.balances for drop in balance.drops)
    worst = worst_of(drops, result.lost_frames)
    found = _cause(result, goal_ratio, seen, worst)
    if found.limit in (Limit.NONE, Limit.GENERATOR):
        return found
    others = [
        f"beside, {drop.frames} were dropped at {drop.place} ({drop.reason})"
        for drop in drops
        if drop.frames >= BESIDE_RATIO * result.lost_frames
        and worst is not None
        and drop.place != worst.place
    ]
    doubt = found.doubt or _uncounted(seen.begun_again)
    if worst is not None and not doubt:
        doubt = (worst.doubt if worst.place == found.place else "") or _foreign(result, worst)
        if not doubt and found.limit in (Limit.CPU, Limit.THREAD, Limit.RECEIVER, Limit.HOP):
            doubt = suspected(seen.shapers, seen.directions, worst)
    return replace(found, text="; ".join((found.text, *others)), doubt=doubt)


def _cause(result: LoadResult, goal_ratio: float, seen: Evidence, worst: Drop | None) -> Verdict:
    lost = result.offered_frames > 0 and result.loss_ratio > goal_ratio
    shaped = suspect(result, seen.shapers, seen.directions, worst) if lost else None
    if shaped is not None:
        return _shaped(result, shaped, worst)
    by_host = 2 * seen.held_ns * result.intended_fps / NS_PER_S if result.perturbed else 0.0
    beyond = seen.ceilings.generator_fps is not None and result.intended_fps > seen.ceilings.generator_fps
    if result.short_ratio > UNSENT_RATIO and (beyond or result.unsent_frames > by_host):
        return _generator(result, seen.ceilings)
    if result.offered_frames and not lost:
        text = f"{result.lost_frames} of {result.offered_frames} frames lost: within the goal"
        return Verdict(Limit.NONE, "; ".join((text, *result.perturbations)))
    if seen.dead is not None and explains(seen.dead, result):
        return _dead(result, seen.dead, worst)
    most = worst is not None and worst.frames * 2 >= result.lost_frames
    if worst is not None and most and decided(worst):
        return _decided(result, worst)
    if result.perturbed and result.lost_frames <= by_host and _in_stalls(result):
        return replace(_host(result, worst, seen.cpus, seen.threads), doubt=_too_short(result))
    if worst is None or not most:
        found = _unexplained(result, seen.balances, worst)
    elif worst.place == RECEIVER:
        text = f"the receiving port lost {worst.frames} of {result.lost_frames} frames itself: {worst.reason}"
        return Verdict(Limit.RECEIVER, text, RECEIVER, {"dropped_frames": float(worst.frames)})
    else:
        found = _hop(result, worst, seen.cpus, seen.threads)
    if found.limit in (Limit.CPU, Limit.HOP, Limit.UNEXPLAINED):
        return _at_receivers_ceiling(result, seen.ceilings, found) or found
    return found


def _in_stalls(result: LoadResult) -> bool:
    """Tell whether frames were lost because of stalls: at least twice as often as while all was calm.

    True also where too little was calm to tell.
    """
    if _too_short(result):
        return True
    return 2 * result.calm_lost_frames * result.offered_frames <= result.lost_frames * result.calm_frames


def _too_short(result: LoadResult) -> str:
    """Return that the calm part of a trial was too short to tell the device's loss from that of stalls."""
    if result.calm_frames * result.loss_ratio >= FEWEST_LOST:
        return ""
    return (
        f"only {result.calm_frames} of {result.offered_frames} frames were sent while the host was calm, "
        "too few to tell whether frames are lost then"
    )


def _shaped(result: LoadResult, shaped: Suspect, worst: Drop | None) -> Verdict:
    """Return the verdict where a shaper let no more through."""
    if worst is None:
        lost, doubt = f"{result.lost_frames} frames were lost", "no counter tells where frames were lost"
    else:
        lost, doubt = _lost(result, worst), ""
    figures = {**shaped.figures, "lost_frames": float(result.lost_frames)}
    return Verdict(
        Limit.SHAPER, f"{shaped.text}; {lost}", shaped.shaper.place, figures, shaped.doubt or doubt
    )


def _dead(result: LoadResult, dead: DeadFlows, worst: Drop | None) -> Verdict:
    """Return the verdict where single flows lost everything."""
    named = joined([str(flow) for flow in dead.flows])
    text = (
        f"all {dead.frames} frames of {len(dead.flows)} of {dead.of} flows were lost (flow {named}, counted from 0), "
        f"and {max(0, result.lost_frames - dead.frames)} of the others"
    )
    figures = {"dead_flows": float(len(dead.flows)), "lost_frames": float(result.lost_frames)}
    if worst is None:
        return Verdict(Limit.FLOWS, f"{text}; no counter tells where", "", figures)
    return Verdict(Limit.FLOWS, f"{text}; {_lost(result, worst)}", worst.place, figures)


def _decided(result: LoadResult, worst: Drop) -> Verdict:
    """Return the verdict where frames were dropped, or changed, by a decision and for no want of time or room."""
    figures = {"dropped_frames": float(worst.frames), "lost_frames": float(result.lost_frames)}
    if worst.reason == DAMAGED:
        text = (
            f"{worst.frames} of {result.lost_frames} lost frames arrived with other contents than they were sent "
            "with: a device on the way damages them"
        )
        return Verdict(Limit.DAMAGE, text, worst.place, figures)
    return Verdict(Limit.RULE, _lost(result, worst), worst.place, figures)


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
    if thread.role in ("napi", "receiver"):
        return _far_end(thread, lost, figures)
    figures["thread_busy_ratio"] = thread.busy_ratio
    if thread.busy_ratio >= BUSY_RATIO:
        text = f"{thread.name} ran {thread.busy_ratio:.0%} of the time; {lost}"
        return Verdict(Limit.THREAD, text, worst.place, figures)
    short = starved(result, thread, cpus, threads) or shared(thread, cpus, threads)
    if short is None:
        return Verdict(Limit.HOP, lost, worst.place, figures)
    beside = [one for one in threads if one.cpu == thread.cpu and one.role in ("napi", "receiver")]
    ours_ratio = sum(one.busy_ratio for one in beside)
    text, figures = f"{short.text}; {lost}", {**figures, **short.figures}
    if ours_ratio > max(thread.busy_ratio, short.others_ratio):
        others = (
            f"{short.others_ratio:.0%} of its CPU went to work that is not known, which may be why as well"
        )
        doubt = others if short.others_ratio > CLEAR_RATIO * ours_ratio else ""
        return Verdict(Limit.RECEIVER, text, beside[0].place, figures, doubt)
    return Verdict(Limit.CPU, text, worst.place, figures)


def _taking_in(worst: Drop, threads: Sequence[Thread]) -> Thread | None:
    """Return the thread that takes frames in at a port, if what was lost there is what it had no time for."""
    if worst.reason not in OVERRUNS:
        return None
    return next((one for one in threads if one.place == worst.place and one.role != "generator"), None)


def _lost(result: LoadResult, worst: Drop) -> str:
    ours = min(worst.frames, result.lost_frames)
    return f"{ours} of {result.lost_frames} lost frames were dropped at {worst.place} ({worst.reason})"


def _foreign(result: LoadResult, worst: Drop) -> str:
    """Return that a counter tells of more than is missing; nothing: it does not."""
    if worst.frames <= result.lost_frames:
        return ""
    return (
        f"{worst.place} dropped {worst.frames} frames and {result.lost_frames} of ours are missing: "
        "other traffic was dropped there too, and the counter does not tell whose frames they were"
    )


def _uncounted(begun_again: Sequence[str]) -> str:
    """Return that drops of queues are not known; nothing: they are."""
    if not begun_again:
        return ""
    return (
        f"the counters of the queue at {joined(begun_again)} began again in the middle, "
        "so what was dropped there before is not known"
    )


def _far_end(thread: Thread, lost: str, figures: dict[str, float]) -> Verdict:
    """Return the verdict where frames were lost at the ring of the receiving port: the instrument's side."""
    figures["thread_busy_ratio"] = thread.busy_ratio
    return Verdict(Limit.RECEIVER, f"{lost}, which is where they are received", thread.place, figures)


def _unexplained(result: LoadResult, balances: Sequence[Balance], worst: Drop | None) -> Verdict:
    """Return the verdict where no one place lost most: several did, or no counter tells."""
    missing = sum(max(0, balance.unexplained_frames) for balance in balances)
    figures = {"unexplained_frames": float(missing)}
    if worst is not None and 2 * missing < result.lost_frames:
        doubt = "frames were lost at several places, and most of them at none"
        return Verdict(Limit.HOP, _lost(result, worst), worst.place, figures, doubt)
    text = f"{result.lost_frames} frames were lost; no counter tells of {missing} of them"
    return Verdict(Limit.UNEXPLAINED, text, figures=figures)
