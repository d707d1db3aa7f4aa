"""The highest rate with acceptable loss: a strategy asks for load trials until it knows; then latency at shares of it.

How loads are chosen is in trial/search; what one load trial is, in trial/load.
"""

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Literal

from iolab.experiment.model.packets import Forwarding, LoadCurve, Packets
from iolab.lab.packets.frames import bps_l1, bps_l2, fps_of, line_fps, mean_bytes, sizes_of
from iolab.messages.warnings import (
    GeneratorLimited,
    More,
    MoreByLiveFrames,
    MoreSenders,
    QueueTookUp,
    SearchCutShort,
    SearchDisturbed,
    TrialWarning,
)
from iolab.registry.searches import SEARCHES
from iolab.results.metric import Metric
from iolab.results.packets import LoadRecord, SearchRecord
from iolab.results.search import Found, Goal, StopReason
from iolab.results.verdict import Limit
from iolab.trial.interference.disturbed import is_interference, judged
from iolab.trial.lab_access import Ceilings, Site
from iolab.trial.measurement import Measured
from iolab.trial.packets.figures import (
    balance_metrics,
    latency_metrics,
    mean_loss,
    measured,
    use_metrics,
)
from iolab.trial.packets.load import LoadBench
from iolab.trial.packets.paths import settled
from iolab.trial.search.evidence import find_change
from iolab.trial.search.fast import Fast
from iolab.trial.search.types import LoadTrial, Strategy
from iolab.units import NS_PER_S

BOUNDED = ("forwarded_fps", "forwarded_strict_fps")
"""Figures that are lower bounds where the instrument was the limit."""
BOUNDED_WITH_BURST = (
    "with_burst_fps",
    "conditional_fps",
    "search_min_fps",
    "search_mean_fps",
    "search_max_fps",
)
"""The same, of the rate as the search found it, bursts included."""
NEAR_RATIO = 1.25
"""Loads up to this factor from the rate tell what limited it."""
IDLE_FPS = 1000.0
"""Load at which latency is that of an idle device: a frame each millisecond [frames/s]."""
LOWEST_FPS = 1000.0
"""Lowest load of a search: below it a trial of 10/loss_ratio frames takes minutes [frames/s]."""
UNKNOWN_CEILING_FPS = 5e6
"""Highest load where neither a line nor a calibration sets one: more than one CPU sends through a kernel [frames/s]."""
CURVE_LIMIT_NS = 20 * NS_PER_S
"""Longest search for what 100 % of a load curve is: twice what one takes on a calm host [ns]."""
CUT_SHORT: Mapping[StopReason, Literal["line-limited", "nothing-passed"]] = {
    StopReason.LINE: "line-limited",
    StopReason.NOTHING_PASSES: "nothing-passed",
}
"""Ends of a search to codes of the warning; others are partial."""
CEILING_SLACK = 1.1
"""A calibrated ceiling is where the generator may be the limit, not where it must be."""


def measure_forwarding(site: Site, measure: Forwarding) -> Measured:
    """Find the rate, then measure latency at shares of it.

    Raises:
        TrialFailed: the ports could not be opened, or a load trial could not be run.
        AgentError: the agent is gone.
    """
    measure = settled(site, measure)
    strategy = make_strategy(measure, site)
    with LoadBench(site, measure, measure.loss_ratio) as bench:
        records, found = search(bench, strategy)
        rate_fps = found.rate_fps or 0.0
        at_rate: list[LoadRecord] = []
        if rate_fps:
            for share in dict.fromkeys(measure.latency_at):
                fps = max(IDLE_FPS, rate_fps * share)
                trial = LoadTrial(intended_fps=fps, duration_ns=measure.trial)
                at_rate.append(bench.run(trial, "at-rate", share))
        taken = bench.taken([*records, *at_rate])
        records, at_rate = judged(records, taken), judged(at_rate, taken)
        everything = [*records, *at_rate]
        metrics = _metrics(bench, found, records)
        for record in at_rate:
            metrics += latency_metrics([record], record.share_ratio)
        changed = find_change([record.result for record in records])
        warnings = (*_warnings(bench, found), *((changed,) if changed else ()), *taken)
        searched = SearchRecord(measure.search, strategy.goal, found)
        return measured(bench, everything, metrics, warnings, search=searched, rate_fps=rate_fps or None)


def make_strategy(measure: Forwarding, site: Site) -> Strategy:
    """Return the search of a measure."""
    goal = Goal(
        loss_ratio=measure.loss_ratio,
        relative_width=measure.width,
        min_fps=LOWEST_FPS,
        max_fps=highest_fps(measure, site),
        trial_ns=measure.trial,
        reruns=measure.reruns,
        limit_ns=measure.limit,
    )
    row = SEARCHES[measure.search]
    more: dict[str, object] = {"searches": measure.trials}
    more["start_fps"] = None if measure.start is None else fps_of(measure.start, measure, "start")
    strategy: Strategy = resolve_name(row.strategy)(goal=goal, **{key: more[key] for key in row.takes})
    return strategy


def highest_fps(measure: Packets, site: Site) -> float:
    """Return the highest load that makes sense in one direction: the line, or what the generator can do."""
    size = int(mean_bytes(sizes_of(measure)))
    ceiling = site.calibration.ceiling_fps(measure.path, size) if site.calibration is not None else None
    known = UNKNOWN_CEILING_FPS if ceiling is None else ceiling * CEILING_SLACK * site.senders
    line = line_fps(measure)
    return max(LOWEST_FPS * 2, min(known, line if line is not None else known))


def search(bench: LoadBench, strategy: Strategy) -> tuple[list[LoadRecord], Found]:
    """Run load trials as a strategy wants them; return them and what they say."""
    records: list[LoadRecord] = []
    while isinstance(trial := strategy.propose([record.result for record in records]), LoadTrial):
        records.append(bench.run(trial, "search"))
    return records, strategy.conclude([record.result for record in records])


def searched_rate(bench: LoadBench, measure: LoadCurve) -> tuple[list[LoadRecord], Found, Strategy]:
    """Find the rate that a load curve refers to."""
    goal = Goal(
        loss_ratio=measure.loss_ratio,
        relative_width=0.01,
        min_fps=LOWEST_FPS,
        max_fps=highest_fps(measure, bench.site),
        limit_ns=CURVE_LIMIT_NS,
    )
    strategy = Fast(goal)
    return (*search(bench, strategy), strategy)


def _metrics(bench: LoadBench, found: Found, records: Sequence[LoadRecord]) -> list[Metric]:
    each_fps = found.rate_fps or 0.0
    sizes, rate_fps = sizes_of(bench.measure), bench.over_all(each_fps)
    end_ns = records[-1].begin_ns + records[-1].result.duration_ns
    at_lower = [records[place] for place in found.lower_trials]
    unknown = 0.0 if found.reason is StopReason.NOTHING_PASSES else None  # what was not found is no zero
    rates = {
        "forwarded_fps": found.rate_fps or unknown,
        "forwarded_strict_fps": _strict_fps(found) or unknown,
    }
    if found.taken_up:
        rates |= {"sustained_fps": found.sustained_fps, "with_burst_fps": found.robust_fps}
    else:  # with a burst these are of the rate with it
        rates |= {
            "lower_fps": found.lower_fps or unknown,
            "upper_fps": found.upper_fps,
            "conditional_fps": found.conditional_fps,
        }
        if found.interval_fps is not None:
            rates["ci_low_fps"], rates["ci_high_fps"] = found.interval_fps
    if len(found.searches_fps) > 1:
        rates["search_min_fps"] = min(found.searches_fps)
        rates["search_mean_fps"] = sum(found.searches_fps) / len(found.searches_fps)
        rates["search_max_fps"] = max(found.searches_fps)
    limit, limit_with_burst = limited_by(found, records), found_limit(found, records)
    limits = dict.fromkeys(BOUNDED, limit) | dict.fromkeys(BOUNDED_WITH_BURST, limit_with_burst)
    metrics = [
        Metric.of(name, bench.over_all(fps), limited_by=limits.get(name, ""))
        for name, fps in rates.items()
        if fps is not None
    ]
    if rates["forwarded_fps"] is not None:
        metrics += [
            Metric.of("forwarded_per_direction_fps", each_fps, limited_by=limit),
            Metric.of("forwarded_bps_l1", bps_l1(rate_fps, sizes), limited_by=limit),
            Metric.of("forwarded_bps_l2", bps_l2(rate_fps, sizes), limited_by=limit),
        ]
    metrics += [
        Metric.of("search_seconds", (end_ns - records[0].begin_ns) / NS_PER_S),
        Metric.of("load_trials", float(found.trials)),
        Metric.of("perturbed_trials", float(found.perturbed_trials)),
    ]
    loss = mean_loss(at_lower)
    if loss is not None:
        metrics.append(Metric.of("loss_ratio", loss))
    return [*metrics, *balance_metrics(records), *use_metrics(at_lower)]


def _strict_fps(found: Found) -> float | None:
    """Return the strict figure; what a burst absorbed is no part of it."""
    if found.rate_fps is None or found.strict_fps is None or not found.taken_up:
        return found.strict_fps
    return min(found.rate_fps, found.strict_fps)


def limited_by(found: Found, records: Sequence[LoadRecord]) -> str:
    """Return what of the instrument limited the rate, so that it is a lower bound; empty: the device was the limit.

    A sustained rate was seen with the device at its limit, however the search ended; where others had the device's CPUs
    it is a bound all the same.
    """
    limit = found_limit(found, records)
    return limit if not found.taken_up or limit == Limit.HOST.value else ""


def found_limit(found: Found, records: Sequence[LoadRecord]) -> str:
    """Return what of the instrument limited the rate that a search found, bursts included; empty: nothing.

    The search says so of the generator, the line, and of time that ended before any load failed; the verdicts of the
    loads that failed closest to the rate say so of the receiver, and of other programs that had the device's CPUs.
    """
    if found.robust_fps is None:
        return ""
    known = {StopReason.GENERATOR: Limit.GENERATOR.value, StopReason.LINE: "line"}
    if found.reason in known:
        return known[found.reason]
    if found.upper_fps is None:
        return "time" if found.reason in (StopReason.TIME, StopReason.UNSTEADY) else ""
    around = [
        record
        for record in records
        if found.robust_fps / NEAR_RATIO <= record.result.intended_fps <= found.robust_fps * NEAR_RATIO
        and record.verdict.limit is not Limit.NONE
    ]
    near = [one.verdict.limit for one in around if one.verdict.limit is not Limit.HOST]
    by_others = [one for one in around if is_interference(one)]
    if len(by_others) > len(near):
        return Limit.HOST.value
    own = [limit for limit in near if limit is Limit.RECEIVER]
    return Limit.RECEIVER.value if 2 * len(own) > len(near) else ""


def _warnings(bench: LoadBench, found: Found) -> tuple[TrialWarning, ...]:
    ended = (*_taken_up(bench, found), *_ended(found, bench.ceilings()))
    if not found.disturbed_loads:
        return ended
    return (*ended, SearchDisturbed(loads=found.disturbed_loads))


def _taken_up(bench: LoadBench, found: Found) -> tuple[TrialWarning, ...]:
    """Return that the found rate is more than the device sustains, with what it sustains, all directions together."""
    if not found.taken_up or found.sustained_fps is None:
        return ()
    burst_frames = round(bench.over_all(found.burst_frames or 0))
    return (QueueTookUp(sustained_fps=bench.over_all(found.sustained_fps), burst_frames=burst_frames),)


def _ended(found: Found, ceilings: Ceilings) -> tuple[TrialWarning, ...]:
    """Return what the end of a search means for its rate."""
    if found.reason is StopReason.NARROW:
        return ()
    if found.reason is StopReason.GENERATOR:
        return (GeneratorLimited(ended=found.seen, more=_more(ceilings)),)
    return (SearchCutShort(code=CUT_SHORT.get(found.reason, "search-partial"), ended=found.seen),)


def _more(ceilings: Ceilings) -> More:
    """Return what sends more than was sent."""
    live, now = ceilings.live_fps, ceilings.generator_fps
    if live is None or now is None or live <= now:
        return MoreSenders()
    return MoreByLiveFrames(live_fps=live, now_fps=now)
