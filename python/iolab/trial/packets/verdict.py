"""Determine the limit of a load trial from its counters; "unexplained" if no counter shows the limit, never a guess.
Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from iolab.lab.packets.placement import Way
from iolab.messages.caveats import (
    CalmTooShort,
    CauseUnsure,
    Caveat,
    GeneratorWaited,
    OthersDropped,
    OthersOnCpu,
    QueueBeganAgain,
)
from iolab.messages.evidence import (
    CameLate,
    Evidence,
    FlowsLost,
    FramesDamaged,
    GeneratorCeiling,
    GeneratorShort,
    LostAt,
    LostBeside,
    LostByReceiver,
    LostSomewhere,
    LostUnexplained,
    OfPlace,
    ReceiverCeiling,
    ThreadRan,
    WithinGoal,
)
from iolab.messages.places import AtPort, PlainPlace
from iolab.results.packets import Balance, Drop, Shaper
from iolab.results.search import LoadResult
from iolab.results.verdict import BUSY_RATIO, CpuUse, Limit, Thread, Verdict
from iolab.trial.counters.cpu_waits import guest_verdict, shared, starved, starved_guest
from iolab.trial.counters.drops import (
    DAMAGED,
    OVERRUNS,
    RECEIVER,
    DeadFlows,
    decided,
    explains,
    merged,
    worst_of,
)
from iolab.trial.counters.shapers import Suspect, suspect, suspected
from iolab.trial.lab_access import Ceilings
from iolab.units import NS_PER_S

UNKNOWN = Ceilings()
UNSENT_RATIO = 1e-3
"""Minimum share of unsent frames that shows that the generator is the limit (trial/search Goal.unsent_ratio)."""
AT_CEILING_RATIO = 0.98
"""Minimum share of its calibrated ceiling at which the instrument is the limit; calibrations vary by 2 %."""
FEWEST_LOST = 5
"""Minimum expected loss in the undisturbed part of a trial at which this part allows a conclusion [frames]."""
BESIDE_RATIO = 0.1
"""Minimum share of the loss at which an additional place is named [ratio]."""
CLEAR_RATIO = 0.5
"""Maximum CPU use of processes outside the trial, relative to the instrument's threads, at which a verdict is not
doubtful [ratio]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReadings:
    """Readings of a load trial in addition to its frame counts."""

    balances: Sequence[Balance] = ()
    """Frame balance per direction."""
    cpus: Sequence[CpuUse] = ()
    """CPU use per CPU."""
    threads: Sequence[Thread] = ()
    """CPU use per thread."""
    ceilings: Ceilings = UNKNOWN
    """Calibrated ceilings of the instrument in one direction."""
    held_ns: int = 0
    """Time in which the host stalled threads of the instrument (`stalls.held_up_ns`) [ns]."""
    shapers: Sequence[Shaper] = ()
    """Shapers on the paths."""
    directions: Sequence[Way] = ()
    """Path of each direction."""
    late_frames: Sequence[int] = ()
    """Frames that arrived after the end of the trial, per direction."""
    credit_bytes: Mapping[str, int] = field(default_factory=dict)
    """Burst of each shaper beyond its rate [bytes], by its port."""
    dead: DeadFlows | None = None
    """Flows of which no frame arrived."""
    begun_again: Sequence[str] = ()
    """Ports on which a queue's counters were reset."""


def judge(result: LoadResult, goal_ratio: float, seen: LoadReadings) -> Verdict:
    """Return the limit of a trial whose loss goal is `goal_ratio`, and name other places of large losses.

    A shaper at its rate takes precedence: its counters show that it could not pass more, even if its queue absorbed the
    excess without loss. The host explains as many losses as there were frames due during its stalls, and the same
    number again in the burst that follows. The host does not explain deliberate drops, nor losses that are equally
    frequent without stalls. Otherwise the cause is determined at the place of the loss. A load above the generator's
    ceiling cannot be sent, with or without host disturbances; a receiver at its ceiling may cause losses before it.
    """
    drops = merged(drop for balance in seen.balances for drop in balance.drops)
    worst = worst_of(drops, result.lost_frames)
    found = _cause(result, goal_ratio, seen, worst)
    if found.limit in (Limit.NONE, Limit.GENERATOR):
        return found
    others = [
        LostBeside(frames=drop.frames, place=drop.place, reason=drop.reason)
        for drop in drops
        if drop.frames >= BESIDE_RATIO * result.lost_frames
        and worst is not None
        and drop.place != worst.place
    ]
    doubt = found.doubt or _uncounted(seen.begun_again)
    if worst is not None and (not doubt or isinstance(doubt, OthersOnCpu)):
        nearer = (worst.doubt if worst.place == found.place else None) or _foreign(result, worst)
        if not nearer and found.limit in (Limit.CPU, Limit.THREAD, Limit.RECEIVER, Limit.HOP):
            nearer = suspected(seen.shapers, seen.directions, worst)
        doubt = nearer or doubt
    return replace(found, seen=(*found.seen, *others), doubt=doubt)


def _cause(result: LoadResult, goal_ratio: float, seen: LoadReadings, worst: Drop | None) -> Verdict:
    lost = result.offered_frames > 0 and result.loss_ratio > goal_ratio
    beyond_it = lost or (result.offered_frames > 0 and result.sustained_loss_ratio > goal_ratio)
    shaped = (
        suspect(result, seen.shapers, seen.directions, worst, seen.late_frames, seen.credit_bytes)
        if beyond_it
        else None
    )
    if shaped is not None:
        return _shaped(result, shaped, worst)
    by_host = 2 * seen.held_ns * result.intended_fps / NS_PER_S if result.perturbed else 0.0
    beyond = seen.ceilings.generator_fps is not None and result.intended_fps > seen.ceilings.generator_fps
    if result.short_ratio > UNSENT_RATIO and (beyond or result.unsent_frames > by_host):
        return _generator(result, seen)
    if result.offered_frames and not lost:
        within = WithinGoal(lost_frames=result.lost_frames, offered_frames=result.offered_frames)
        return Verdict(Limit.NONE, (within, *result.perturbations))
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
        own = LostByReceiver(frames=worst.frames, lost_frames=result.lost_frames, reason=worst.reason)
        return Verdict(Limit.RECEIVER, (own,), RECEIVER)
    else:
        found = _hop(result, worst, seen.cpus, seen.threads)
    if found.limit in (Limit.CPU, Limit.HOP, Limit.UNEXPLAINED):
        return _at_receivers_ceiling(result, seen.ceilings, found) or found
    return found


def _in_stalls(result: LoadResult) -> bool:
    """Whether stalls caused the losses: the loss ratio is at least twice that of the undisturbed part.

    The result is also true if the undisturbed part is too short for a conclusion.
    """
    if _too_short(result) is not None:
        return True
    calm_frames, calm_lost = result.calm_frames or 0, result.calm_lost_frames or 0
    return 2 * calm_lost * result.offered_frames <= result.lost_frames * calm_frames


def _too_short(result: LoadResult) -> Caveat | None:
    """Return a caveat if the undisturbed part is too short to tell the device's losses from losses caused by stalls."""
    calm_frames = result.calm_frames or 0
    if calm_frames * result.loss_ratio >= FEWEST_LOST:
        return None
    return CalmTooShort(calm_frames=calm_frames, offered_frames=result.offered_frames)


def _shaped(result: LoadResult, shaped: Suspect, worst: Drop | None) -> Verdict:
    """Return the verdict if a shaper limited the rate: it dropped the excess, or its queue absorbed it."""
    if not result.lost_frames:
        late = CameLate(late_frames=result.late_frames or 0, offered_frames=result.offered_frames)
        return Verdict(Limit.SHAPER, (shaped.seen, late), AtPort(port=shaped.shaper.place), shaped.doubt)
    lost = LostSomewhere(lost_frames=result.lost_frames) if worst is None else _lost(result, worst)
    doubt = shaped.doubt or (CauseUnsure(code="place-unknown") if worst is None else None)
    return Verdict(Limit.SHAPER, (shaped.seen, lost), AtPort(port=shaped.shaper.place), doubt)


def _dead(result: LoadResult, dead: DeadFlows, worst: Drop | None) -> Verdict:
    """Return the verdict if individual flows lost all frames."""
    seen = FlowsLost(
        flows=dead.flows,
        dead=len(dead.flows),
        of=dead.of,
        frames=dead.frames,
        others_lost_frames=max(0, result.lost_frames - dead.frames),
    )
    if worst is None:
        return Verdict(Limit.FLOWS, (seen, LostSomewhere(lost_frames=result.lost_frames)))
    return Verdict(Limit.FLOWS, (seen, _lost(result, worst)), worst.place)


def _decided(result: LoadResult, worst: Drop) -> Verdict:
    """Return the verdict for frames that were damaged, or dropped deliberately, not for lack of time or buffer
    space."""
    if worst.reason == DAMAGED:
        damaged = FramesDamaged(frames=worst.frames, lost_frames=result.lost_frames)
        return Verdict(Limit.DAMAGE, (damaged,), worst.place)
    return Verdict(Limit.RULE, (_lost(result, worst),), worst.place)


def _generator(result: LoadResult, seen: LoadReadings) -> Verdict:
    ceiling_fps = seen.ceilings.generator_fps
    clauses: list[Evidence] = [
        GeneratorShort(
            unsent_frames=result.unsent_frames,
            intended_frames=result.intended_frames,
            offered_fps=result.offered_fps,
            intended_fps=result.intended_fps,
        )
    ]
    if ceiling_fps is not None:
        clauses.append(GeneratorCeiling(ceiling_fps=ceiling_fps))
    beyond = ceiling_fps is not None and result.intended_fps > ceiling_fps
    return Verdict(
        Limit.GENERATOR,
        tuple(clauses),
        PlainPlace(code="generator"),
        None if beyond else _waited(result, seen.threads),
    )


def _waited(result: LoadResult, threads: Sequence[Thread]) -> Caveat | None:
    """Return a caveat if a sender waited for its CPU for at least half of the time that sending the unsent frames
    takes."""
    wait_ratio = max((one.waited for one in threads if one.role == "generator"), default=0.0)
    return GeneratorWaited(wait_ratio=wait_ratio) if 2 * wait_ratio >= result.unsent_ratio else None


def _at_receivers_ceiling(result: LoadResult, ceilings: Ceilings, found: Verdict) -> Verdict | None:
    """Return the verdict if the receiver was at its ceiling; None if it was not."""
    ceiling = ceilings.receiver_fps
    if ceiling is None or result.forwarded_fps < AT_CEILING_RATIO * ceiling:
        return None
    seen = ReceiverCeiling(forwarded_fps=result.forwarded_fps, ceiling_fps=ceiling)
    return Verdict(Limit.RECEIVER, (seen, *found.seen), RECEIVER)


def _host(
    result: LoadResult, worst: Drop | None, cpus: Sequence[CpuUse], threads: Sequence[Thread]
) -> Verdict:
    """Return the verdict if the host was disturbed; it names a place if a thread waited for its CPU there."""
    # A counter that exceeds the missing frames includes other traffic.
    if worst is not None and worst.frames <= result.lost_frames <= worst.frames * 2:
        thread = _taking_in(worst, threads)
        short = starved_guest(result, worst, cpus, threads)
        if short is None and thread is not None:
            short = starved(result, thread, cpus, threads)
        if short is not None:
            seen = (*short.seen, _lost(result, worst), *result.perturbations)
            return Verdict(Limit.HOST, seen, worst.place)
    return Verdict(Limit.HOST, result.perturbations)


def _hop(result: LoadResult, worst: Drop, cpus: Sequence[CpuUse], threads: Sequence[Thread]) -> Verdict:
    """Return the verdict if most of the lost frames were lost at one place: a thread, a CPU, or only the place."""
    lost = _lost(result, worst)
    guest = guest_verdict(result, worst, lost, cpus, threads)
    if guest is not None:
        return guest
    thread = _taking_in(worst, threads)
    if thread is None:
        return Verdict(Limit.HOP, (lost,), worst.place)
    if thread.role in ("napi", "receiver"):
        return Verdict(
            Limit.RECEIVER, (lost, OfPlace(code="received-there", place=thread.place)), worst.place
        )
    if thread.busy_ratio >= BUSY_RATIO:
        ran = ThreadRan(thread=thread.name, busy_ratio=thread.busy_ratio)
        return Verdict(Limit.THREAD, (ran, lost), worst.place)
    short = starved(result, thread, cpus, threads) or shared(thread, cpus, threads)
    if short is None:
        return Verdict(Limit.HOP, (lost,), worst.place)
    beside = [one for one in threads if one.cpu == thread.cpu and one.role in ("napi", "receiver")]
    ours_ratio = sum(one.busy_ratio for one in beside)
    if ours_ratio > max(thread.busy_ratio, short.others_ratio):
        unclear = short.others_ratio > CLEAR_RATIO * ours_ratio
        doubt = OthersOnCpu(others_ratio=short.others_ratio) if unclear else None
        return Verdict(Limit.RECEIVER, (*short.seen, lost), AtPort(port=beside[0].place), doubt)
    return Verdict(Limit.CPU, (*short.seen, lost), worst.place, short.doubt)


def _taking_in(worst: Drop, threads: Sequence[Thread]) -> Thread | None:
    """Return the thread that receives frames on a port, if frames were lost there because of overruns; else None."""
    if worst.reason not in OVERRUNS:
        return None
    return next(
        (one for one in threads if AtPort(port=one.place) == worst.place and one.role != "generator"), None
    )


def _lost(result: LoadResult, worst: Drop) -> LostAt:
    ours = min(worst.frames, result.lost_frames)
    return LostAt(frames=ours, lost_frames=result.lost_frames, place=worst.place, reason=worst.reason)


def _foreign(result: LoadResult, worst: Drop) -> Caveat | None:
    """Return a caveat if a counter exceeds the missing frames; else None."""
    if worst.frames <= result.lost_frames:
        return None
    return OthersDropped(place=worst.place, dropped_frames=worst.frames, lost_frames=result.lost_frames)


def _uncounted(begun_again: Sequence[str]) -> Caveat | None:
    """Return a caveat if drop counters of queues were reset; else None."""
    return QueueBeganAgain(places=tuple(begun_again)) if begun_again else None


def _unexplained(result: LoadResult, balances: Sequence[Balance], worst: Drop | None) -> Verdict:
    """Return the verdict if no single place accounts for most of the lost frames: they were lost at several places, or
    no drop counter accounts for them."""
    missing = sum(max(0, balance.unexplained_frames) for balance in balances)
    if worst is not None and 2 * missing < result.lost_frames:
        return Verdict(Limit.HOP, (_lost(result, worst),), worst.place, CauseUnsure(code="several-places"))
    seen = LostUnexplained(lost_frames=result.lost_frames, unexplained_frames=missing)
    return Verdict(Limit.UNEXPLAINED, (seen,))
