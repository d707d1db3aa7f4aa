"""Analyse packet measures: direction ratios, load curves, verdicts, frame accounting. Pure.

The module reads no file: a function argument supplies raw samples, and their number is limited.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from iolab.analysis.bounds import ratio_bound
from iolab.analysis.forwarding_types import (
    BalanceSheet,
    CellTruth,
    Curve,
    CurvePoint,
    DirectionRatio,
    Forwarding,
    PacketKind,
    SharedCpu,
    UsedPath,
    Verdict,
)
from iolab.analysis.types import CellKey, Estimate, Estimates, cell_key
from iolab.errors import IolabError, StoreError
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Section
from iolab.experiment.model.packets import Packets
from iolab.messages.drop_reasons import DropReason
from iolab.messages.instrument import PathReason, Sharing
from iolab.messages.notes import SamplesUnreadable
from iolab.messages.places import Place
from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan
from iolab.results.metric import Quantity
from iolab.results.packets import Drop, LoadRecord, PacketTrial, PortUse
from iolab.results.trial import Status
from iolab.results.verdict import Limit
from iolab.store.records import TrialRecord

Reader = Callable[[str], PacketTrial | None]
"""Function that returns the load trials of a trial for the trial's key; may raise StoreError."""
_PACKET_KINDS = frozenset(PacketKind)

MOST_SAMPLES = 250
"""Maximum number of trials per measure whose samples are read, at about 30 ms each; the first blocks of every cell are
preferred."""
NEAR_RATIO = 1.25
"""Maximum ratio of load to rate at which losses count for the verdict; at loads far above the rate, limits appear
that are unrelated to the rate."""
INSTRUMENT = frozenset({"generator", "unexplained"})
"""Codes of limits that are caused by the instrument, not by the device under test."""
ONE_WAY, BOTH_WAYS = "one-way", "both-ways"
RATE = Quantity("forwarded_fps")
_JUDGED = {
    PacketKind.FORWARDING: "search",
    PacketKind.LOAD_CURVE: "curve",
    PacketKind.LATENCY: "latency",
}
"""Purpose of the load trials that determine a verdict, by kind of measure."""


def forwarding_of(
    trials: Sequence[TrialRecord], plan: Plan, estimates: Estimates, samples: Reader
) -> tuple[tuple[Forwarding, ...], tuple[TrialWarning, ...]]:
    """Analyse every packet measure; return warnings about unreadable samples."""
    found = []
    damaged: list[str] = []

    def reader(key: str) -> PacketTrial | None:
        try:
            return samples(key)
        except StoreError as error:
            damaged.append(str(error))
            return None

    for (measure, kind), counted in _packet_trials(trials).items():
        known = {cell_key(trial.cell) for trial in counted}
        metrics = estimates.of_measure(measure).values()
        own = [each for metric in metrics for each in metric.of_cells(known).values()]
        cells = {
            cell_key(cell): cell
            for cell in plan.in_order({cell_key(each.cell): each.cell for each in own}.values())
        }
        kept = [trial for trial in counted if cell_key(trial.cell) in cells]
        if own:
            found.append(_conclude(measure, kind, own, kept, cells, reader))
    return tuple(found), _unreadable(damaged)


def _packet_trials(trials: Sequence[TrialRecord]) -> dict[tuple[str, PacketKind], list[TrialRecord]]:
    """Return the valid trials of packet measures, sorted by block, so that a limit on their number leaves trials in
    every cell."""
    found: dict[tuple[str, PacketKind], list[TrialRecord]] = {}
    for trial in {trial.key: trial for trial in trials if trial.kind in _PACKET_KINDS}.values():
        if trial.result.status is Status.OK:
            found.setdefault((trial.measure, PacketKind(trial.kind)), []).append(trial)
    return {of: sorted(own, key=lambda trial: trial.block) for of, own in found.items()}


def _unreadable(damaged: Sequence[str]) -> tuple[TrialWarning, ...]:
    if not damaged:
        return ()
    return (SamplesUnreadable(trials=len(damaged), first=damaged[0]),)


def _conclude(
    measure: str,
    kind: PacketKind,
    estimates: Sequence[Estimate],
    trials: Sequence[TrialRecord],
    cells: Mapping[CellKey, Mapping[str, str]],
    samples: Reader,
) -> Forwarding:
    read: dict[CellKey, list[PacketTrial]] = {}
    for trial in trials[:MOST_SAMPLES]:
        sample = samples(trial.key)
        if sample is not None:
            read.setdefault(cell_key(trial.cell), []).append(sample)
    everything = [sample for own in read.values() for sample in own]
    return Forwarding(
        measure=measure,
        kind=kind,
        ratios=direction_ratios(
            [each for each in estimates if each.metric == RATE],
            {cell_key(trial.cell): trial.rest for trial in trials},
        ),
        curves=curves(estimates),
        cells=tuple(_truth(kind, cell, read[key]) for key, cell in cells.items() if key in read),
        paths=_paths(
            path for sample in everything for path in {_path(port, sample) for port in sample.ports}
        ),
        shared=_shared(one for sample in everything for one in set(sample.placed.shared)),
        samples_read=len(everything),
        samples_total=len(trials),
    )


def direction_ratios(
    estimates: Sequence[Estimate], rests: Mapping[CellKey, str]
) -> tuple[DirectionRatio, ...]:
    """Return the ratio of both directions to one direction, for mean, minimum and maximum, in each configuration that
    has both.

    `rests` maps a cell to its configuration without the direction; the cells of a pair differ in nothing else.
    """
    groups: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        groups.setdefault(rests.get(cell_key(estimate.cell), ""), []).append(estimate)
    return tuple(
        _ratio(dict(cell_key(both.cell) & cell_key(one.cell)), both, one)
        for rest, alike in groups.items()
        if rest
        for both, one in _pairs(alike)
    )


def _pairs(alike: Sequence[Estimate]) -> Iterator[tuple[Estimate, Estimate]]:
    """Yield pairs of a both-ways and a one-way estimate; of several one-way cells, use the one with the most labels in
    common with the both-ways cell."""
    free = [each for each in alike if each.direction == ONE_WAY]
    for both in alike:
        if both.direction == BOTH_WAYS and free:
            one = min(free, key=lambda each: len(cell_key(each.cell) ^ cell_key(both.cell)))
            free.remove(one)
            yield both, one


def _ratio(cell: Mapping[str, str], both: Estimate, one: Estimate) -> DirectionRatio:
    mean, least, most = (
        above / below if below else None
        for above, below in ((both.mean, one.mean), (both.min, one.min), (both.max, one.max))
    )
    n = min(both.n, one.n)
    if both.method != one.method or both.bounds or one.bounds:
        bound = ratio_bound(bool(both.bounds), bool(one.bounds))
        return DirectionRatio(cell, n, None, None, None, bound)
    return DirectionRatio(cell, n, mean, least, most)


def curves(estimates: Sequence[Estimate]) -> tuple[Curve, ...]:
    """Gather the metrics that were measured at several loads into one curve per cell."""
    gathered: dict[tuple[CellKey, Quantity], list[tuple[float, Estimate]]] = {}
    for estimate in estimates:
        of = estimate.metric
        if of.dimensions.load_ratio is not None:
            key = cell_key(estimate.cell), Quantity(of.name, replace(of.dimensions, load_ratio=None))
            gathered.setdefault(key, []).append((of.dimensions.load_ratio, estimate))
    return tuple(
        Curve(
            cell=found[0][1].cell,
            metric=metric,
            unit=found[0][1].unit,
            points=tuple(
                CurvePoint(load_ratio, each.median, each.values)
                for load_ratio, each in sorted(found, key=lambda item: item[0])
            ),
        )
        for (_, metric), found in gathered.items()
    )


def _truth(kind: PacketKind, cell: Mapping[str, str], samples: Sequence[PacketTrial]) -> CellTruth:
    """Return the verdict and the frame accounting of a cell.

    If a curve searched for its rate first, the load trials of the search count for the frame accounting, not for the
    verdict.
    """
    load_trials = [trial for sample in samples for trial in sample.load_trials]
    judged = [trial for trial in load_trials if trial.purpose == _JUDGED[kind]]
    rates = [sample.rate_fps for sample in samples if sample.rate_fps is not None]
    rate_fps = fmean(rates) if rates and kind is PacketKind.FORWARDING else None
    return CellTruth(cell, len(samples), verdict(judged or load_trials, rate_fps), balance_sheet(load_trials))


def verdict(load_trials: Sequence[LoadRecord], rate_fps: float | None = None) -> Verdict:
    """Return the most common limit among the losses closest to the rate, or to the lowest load with loss if no rate is
    known.

    Limits of the instrument are reported only if the device has no limit there, and limits of the host only if there is
    no other limit.
    """
    limited = [trial for trial in load_trials if trial.verdict.limit is not Limit.NONE]
    own = [trial for trial in limited if trial.verdict.limit is not Limit.HOST] or limited
    if not own:
        calmest = max(load_trials, key=lambda trial: trial.intended_fps, default=None)
        return _verdict("none", None, calmest, 0, 0)
    near = _near(own, rate_fps) or _near(own, min(trial.intended_fps for trial in own))
    shown = [trial for trial in near if trial.verdict.limit not in INSTRUMENT] or near
    causes = Counter((trial.verdict.limit, trial.verdict.place) for trial in shown)
    (limit, place), count = causes.most_common(1)[0]
    alike = [trial for trial in shown if (trial.verdict.limit, trial.verdict.place) == (limit, place)]
    stands = min(alike, key=lambda trial: (trial.verdict.doubt is not None, trial.intended_fps))
    return _verdict(limit, place, stands, count, len(near))


def _near(trials: Sequence[LoadRecord], fps: float | None) -> list[LoadRecord]:
    """Return the trials whose load is within a factor of NEAR_RATIO of a rate."""
    if fps is None:
        return []
    return [trial for trial in trials if fps / NEAR_RATIO <= trial.intended_fps <= fps * NEAR_RATIO]


def _verdict(limit: str, place: Place | None, trial: LoadRecord | None, count: int, total: int) -> Verdict:
    busy = {} if trial is None else {use.cpu: use.busy_ratio for use in trial.cpus}
    cpu = max(busy, key=lambda number: busy[number], default=None)
    return Verdict(
        limit=limit,
        place=place,
        seen=trial.verdict.seen if trial is not None else (),
        doubt=trial.verdict.doubt if trial is not None else None,
        count=count,
        total=total,
        cpu=cpu,
        cpu_busy_ratio=busy[cpu] if cpu is not None else 0.0,
        idle_ratio=1 - sum(busy.values()) / len(busy) if busy else 0.0,
    )


def balance_sheet(load_trials: Sequence[LoadRecord]) -> BalanceSheet:
    """Add up the frame counts over all load trials and directions."""
    sheets = [sheet for trial in load_trials for sheet in trial.balances]
    named: Counter[tuple[Place, DropReason]] = Counter()
    for sheet in sheets:
        for drop in sheet.drops:
            named[drop.place, drop.reason] += drop.frames
    closed = sum(all(sheet.unexplained_frames == 0 for sheet in trial.balances) for trial in load_trials)
    return BalanceSheet(
        offered_frames=sum(sheet.offered_frames for sheet in sheets),
        forwarded_frames=sum(sheet.forwarded_frames for sheet in sheets),
        drops=tuple(Drop(*where, frames) for where, frames in named.most_common() if frames),
        unexplained_frames=sum(sheet.unexplained_frames for sheet in sheets),
        load_trials=len(load_trials),
        closed_trials=closed,
    )


_Path = tuple[str, str, tuple[PathReason, ...]]
"""Port with its half (send or receive), the path that this half used, and the reasons for the path."""


def _path(use: PortUse, trial: PacketTrial) -> _Path:
    chosen = trial.path_choice.reasons if trial.path_choice is not None and use.half == "send" else ()
    return f"{use.port}, {use.half}", use.path, (*use.fallbacks, *chosen)


def _paths(seen: Iterable[_Path]) -> tuple[UsedPath, ...]:
    counts = sorted(Counter(seen).items(), key=lambda item: item[0][:2])
    return tuple(UsedPath(*path, count) for path, count in counts)


def _shared(seen: Iterable[Sharing]) -> tuple[SharedCpu, ...]:
    counts = sorted(Counter(seen).items(), key=lambda item: item[0].model_dump_json())
    return tuple(SharedCpu(one, count) for one, count in counts)


GAP_BYTES = 20
"""Preamble, start frame delimiter and minimum interframe gap (IEEE 802.3) [bytes]."""
_RATES = ("forwarded_fps", "forwarded_bps_l1", "forwarded_bps_l2")


def line_limits(
    estimates: Sequence[Estimate], experiment: Experiment
) -> Mapping[frozenset[tuple[str, str]], float]:
    """Return the maximum possible value of a rate per cell, if the measure declares its line rate.

    The value is in the metric's unit and, like the metric, summed over the directions.
    """
    if not estimates or estimates[0].metric not in map(Quantity, _RATES):
        return {}
    resolver = resolver_of(experiment)
    section = Section("measure", estimates[0].measure)
    if section not in resolver.sections:
        return {}
    found = {}
    for estimate in estimates:
        try:
            model = resolver.model(section, estimate.cell)
        except IolabError:
            continue
        if isinstance(model, Packets) and model.line_rate is not None:
            limit = _limit(estimate.metric.name, model)
            if limit is not None:
                found[frozenset(estimate.cell.items())] = limit
    return found


def _limit(metric: str, model: Packets) -> float | None:
    """Return the line-rate limit of a metric; None if frame sizes are mixed and the metric is not in bits on the
    line."""
    directions = (2 if model.direction == "both-ways" else 1) * (1 + len(model.pairs))
    line_bps = float(model.line_rate or 0) * directions
    if metric == "forwarded_bps_l1":
        return line_bps
    if not isinstance(model.frame_size, int):
        return None
    frames_per_s = line_bps / (8 * (model.frame_size + GAP_BYTES))
    return frames_per_s if metric == "forwarded_fps" else frames_per_s * 8 * model.frame_size
