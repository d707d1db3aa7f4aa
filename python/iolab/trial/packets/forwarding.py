"""Measure the highest rate with acceptable loss, then latency at shares of this rate; a strategy requests the load
trials.

The package trial/search chooses the loads; load.py runs one load trial.
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
"""Metrics that are lower bounds if the instrument was the limit."""
BOUNDED_WITH_BURST = (
    "with_burst_fps",
    "conditional_fps",
    "search_min_fps",
    "search_mean_fps",
    "search_max_fps",
)
"""Metrics of the rate that the search found, including bursts; they are lower bounds if the instrument was the
limit."""
NEAR_RATIO = 1.25
"""Maximum ratio of a load to the rate that was found, at which the verdict on the load also explains the rate."""
IDLE_FPS = 1000.0
"""Load at which latency equals that of an idle device: one frame per millisecond [frames/s]."""
LOWEST_FPS = 1000.0
"""Minimum load of a search; below it a trial of 10/loss_ratio frames takes minutes [frames/s]."""
UNKNOWN_CEILING_FPS = 5e6
"""Maximum load if neither a line rate nor a calibration limits it: more than one CPU can send through the kernel
[frames/s]."""
CURVE_LIMIT_NS = 20 * NS_PER_S
"""Time limit of the search for the 100 % rate of a load curve: twice its duration on an idle host [ns]."""
CUT_SHORT: Mapping[StopReason, Literal["line-limited", "nothing-passed"]] = {
    StopReason.LINE: "line-limited",
    StopReason.NOTHING_PASSES: "nothing-passed",
}
"""Warning code by stop reason of a search; all other reasons have the code for a search that did not reach its goal."""
CEILING_SLACK = 1.1
"""Factor by which a load may exceed a calibrated ceiling: at the ceiling, the generator may or may not be the limit."""


def measure_forwarding(site: Site, measure: Forwarding) -> Measured:
    """Find the highest rate with acceptable loss, then measure latency at shares of this rate.

    Raises:
        TrialFailed: the ports could not be opened, or a load trial could not run.
        AgentError: the connection to the agent is lost.
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
    """Return the search strategy of a measure."""
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
    """Return the maximum useful load in one direction: the line rate, or the generator's ceiling."""
    size = int(mean_bytes(sizes_of(measure)))
    ceiling = site.calibration.ceiling_fps(measure.path, size) if site.calibration is not None else None
    known = UNKNOWN_CEILING_FPS if ceiling is None else ceiling * CEILING_SLACK * site.senders
    line = line_fps(measure)
    return max(LOWEST_FPS * 2, min(known, line if line is not None else known))


def search(bench: LoadBench, strategy: Strategy) -> tuple[list[LoadRecord], Found]:
    """Run the load trials that a strategy requests; return their records and the conclusion."""
    records: list[LoadRecord] = []
    while isinstance(trial := strategy.propose([record.result for record in records]), LoadTrial):
        records.append(bench.run(trial, "search"))
    return records, strategy.conclude([record.result for record in records])


def searched_rate(bench: LoadBench, measure: LoadCurve) -> tuple[list[LoadRecord], Found, Strategy]:
    """Find the 100 % rate of a load curve."""
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
    # A rate that was not found is unknown.
    unknown = 0.0 if found.reason is StopReason.NOTHING_PASSES else None
    rates = {
        "forwarded_fps": found.rate_fps or unknown,
        "forwarded_strict_fps": _strict_fps(found) or unknown,
    }
    if found.taken_up:
        rates |= {"sustained_fps": found.sustained_fps, "with_burst_fps": found.robust_fps}
    else:  # if there was a burst, these metrics include it
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
    """Return the strict throughput without the burst that a queue absorbed."""
    if found.rate_fps is None or found.strict_fps is None or not found.taken_up:
        return found.strict_fps
    return min(found.rate_fps, found.strict_fps)


def limited_by(found: Found, records: Sequence[LoadRecord]) -> str:
    """Return the instrument limit that makes the rate a lower bound; empty if the device was the limit.

    A sustained rate was measured with the device at its limit, however the search ended. A sustained rate is a lower
    bound only if other processes used the device's CPUs.
    """
    limit = found_limit(found, records)
    return limit if not found.taken_up or limit == Limit.HOST.value else ""


def found_limit(found: Found, records: Sequence[LoadRecord]) -> str:
    """Return the instrument limit of the rate that a search found, including bursts; empty if the instrument was not
    the limit.

    The stop reason shows that the generator, the line rate or the time limit ended the search before any load failed.
    The verdicts of failed loads close to the rate show limits of the receiver, and interference from other processes.
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
    """Return a warning if the rate that was found exceeds the sustained rate; the warning states the latter, summed
    over all directions."""
    if not found.taken_up or found.sustained_fps is None:
        return ()
    burst_frames = round(bench.over_all(found.burst_frames or 0))
    return (QueueTookUp(sustained_fps=bench.over_all(found.sustained_fps), burst_frames=burst_frames),)


def _ended(found: Found, ceilings: Ceilings) -> tuple[TrialWarning, ...]:
    """Return the warning that corresponds to the stop reason of a search."""
    if found.reason is StopReason.NARROW:
        return ()
    if found.reason is StopReason.GENERATOR:
        return (GeneratorLimited(ended=found.seen, more=_more(ceilings)),)
    return (SearchCutShort(code=CUT_SHORT.get(found.reason, "search-partial"), ended=found.seen),)


def _more(ceilings: Ceilings) -> More:
    """Return advice for sending a higher rate."""
    live, now = ceilings.live_fps, ceilings.generator_fps
    if live is None or now is None or live <= now:
        return MoreSenders()
    return MoreByLiveFrames(live_fps=live, now_fps=now)
