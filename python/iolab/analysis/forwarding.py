"""What is concluded about measures that send frames: ratios of directions, curves, verdicts, balance sheets. Pure.

Reads no file: raw samples come from a function that is an argument, and only as many as fit.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from iolab.analysis.bounds import ratio_bound
from iolab.analysis.forwarding_types import (
    BalanceSheet,
    CellTruth,
    Curve,
    CurvePoint,
    DirectionRatio,
    Drop,
    Forwarding,
    PacketKind,
    SharedCpu,
    UsedPath,
    Verdict,
)
from iolab.analysis.load_trials import LoadTrial, Port, Sample, decode
from iolab.analysis.types import Estimate
from iolab.errors import StoreError
from iolab.plan.types import Plan
from iolab.record.trial import Status
from iolab.statements.instrument import Sharing
from iolab.statements.notes import SamplesUnreadable
from iolab.statements.warnings import Warning
from iolab.store.records import TrialRecord

Reader = Callable[[str], object | None]
"""A trial's key to its raw samples; may raise StoreError."""
CellKey = frozenset[tuple[str, str]]

MOST_SAMPLES = 250
"""Trials whose samples are read for one measure, some 30 ms each; of more, the first blocks of every cell."""
NEAR_RATIO = 1.25
"""Losses at loads up to this factor from the rate count for the verdict: far above, anything may break."""
INSTRUMENT = frozenset({"generator", "unexplained"})
"""Causes that say nothing of the device."""
ONE_WAY, BOTH_WAYS = "one-way", "both-ways"
_KINDS = (
    ("rate_fps", PacketKind.LOAD_CURVE),
    ("latency_p50_ns", PacketKind.LATENCY),
    ("forwarded_strict_fps", PacketKind.FORWARDING),
    ("lower_fps", PacketKind.FORWARDING),
)
"""The metric that tells a kind from the others."""
_JUDGED = {
    PacketKind.FORWARDING: "search",
    PacketKind.LOAD_CURVE: "curve",
    PacketKind.LATENCY: "latency",
}
"""Purpose of the load trials that a verdict is about."""
_STEP = re.compile(r"([a-z0-9_]+)\[([0-9.]+) ?%(?: (.+))?\]")
"""A metric at one step: cpu_busy_ratio[110 % cpu1]."""


def forwarding_of(
    trials: Sequence[TrialRecord], plan: Plan, estimates: Sequence[Estimate], samples: Reader
) -> tuple[tuple[Forwarding, ...], tuple[Warning, ...]]:
    """Conclude about every measure that sends frames; the warnings say which samples could not be read."""
    by_measure: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        by_measure.setdefault(estimate.measure, []).append(estimate)
    found = []
    damaged: list[str] = []

    def reader(key: str) -> object | None:
        try:
            return samples(key)
        except StoreError as error:
            damaged.append(str(error))
            return None

    for measure, own in by_measure.items():
        metrics = {estimate.metric for estimate in own}
        kind = next((kind for metric, kind in _KINDS if metric in metrics), None)
        if kind is not None:
            unsorted = {_key(estimate.cell): estimate.cell for estimate in own}
            cells = {_key(cell): cell for cell in plan.in_order(unsorted.values())}
            found.append(_conclude(measure, kind, own, _counted(trials, measure, cells), cells, reader))
    return tuple(found), _unreadable(damaged)


def _unreadable(damaged: Sequence[str]) -> tuple[Warning, ...]:
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
    read: dict[CellKey, list[Sample]] = {}
    for trial in trials[:MOST_SAMPLES]:
        sample = decode(samples(trial.key))
        if sample is not None:
            read.setdefault(_key(trial.cell), []).append(sample)
    everything = [sample for own in read.values() for sample in own]
    return Forwarding(
        measure=measure,
        kind=kind,
        ratios=direction_ratios([each for each in estimates if each.metric == "forwarded_fps"]),
        curves=curves(estimates),
        cells=tuple(_truth(kind, cell, read[key]) for key, cell in cells.items() if key in read),
        paths=_paths(port for sample in everything for port in set(sample.ports)),
        shared=_shared(one for sample in everything for one in set(sample.shared)),
        samples_read=len(everything),
        samples_total=len(trials),
    )


def _key(cell: Mapping[str, str]) -> CellKey:
    return frozenset(cell.items())


def _counted(
    trials: Sequence[TrialRecord], measure: str, cells: Mapping[CellKey, Mapping[str, str]]
) -> list[TrialRecord]:
    """The last record of each key that is ok, block by block, so that a cut leaves every cell some."""
    last = {trial.key: trial for trial in trials if trial.measure == measure}
    good = [each for each in last.values() if each.result.status is Status.OK and _key(each.cell) in cells]
    return sorted(good, key=lambda trial: trial.block)


def direction_ratios(estimates: Sequence[Estimate]) -> tuple[DirectionRatio, ...]:
    """Both ways over one way of mean, smallest and largest trial, for every configuration that has both."""
    pairs: dict[CellKey, dict[str, Estimate]] = {}
    cells: dict[CellKey, Mapping[str, str]] = {}
    for estimate in estimates:
        for factor, label in estimate.cell.items():
            if label in (ONE_WAY, BOTH_WAYS):
                rest = {name: level for name, level in estimate.cell.items() if name != factor}
                cells.setdefault(_key(rest), rest)
                pairs.setdefault(_key(rest), {})[label] = estimate
                break
    return tuple(
        _ratio(cells[key], pair[BOTH_WAYS], pair[ONE_WAY]) for key, pair in pairs.items() if len(pair) == 2
    )


def _ratio(cell: Mapping[str, str], both: Estimate, one: Estimate) -> DirectionRatio:
    mean, least, most = (
        above / below if below else None
        for above, below in ((both.mean, one.mean), (both.min, one.min), (both.max, one.max))
    )
    n = min(both.n, one.n)
    if both.bounds and one.bounds:
        return DirectionRatio(cell, n, None, None, None)
    return DirectionRatio(cell, n, mean, least, most, ratio_bound(bool(both.bounds), bool(one.bounds)))


def curves(estimates: Sequence[Estimate]) -> tuple[Curve, ...]:
    """Gather the metrics that were stored per step of load into curves, cell by cell."""
    gathered: dict[tuple[CellKey, str, str], list[tuple[float, Estimate]]] = {}
    for estimate in estimates:
        step = _STEP.fullmatch(estimate.metric)
        if step is not None:
            key = (_key(estimate.cell), step[1], step[3] or "")
            gathered.setdefault(key, []).append((float(step[2]), estimate))
    return tuple(
        Curve(
            cell=found[0][1].cell,
            metric=metric,
            component=component,
            unit=found[0][1].unit,
            points=tuple(
                CurvePoint(share, each.median, each.values)
                for share, each in sorted(found, key=lambda item: item[0])
            ),
        )
        for (_, metric, component), found in gathered.items()
    )


def _truth(kind: PacketKind, cell: Mapping[str, str], samples: Sequence[Sample]) -> CellTruth:
    """A curve may have searched for its rate first: that search counts for the balance, not for the verdict."""
    load_trials = [trial for sample in samples for trial in sample.load_trials]
    judged = [trial for trial in load_trials if trial.purpose == _JUDGED[kind]]
    rates = [sample.rate_fps for sample in samples if sample.rate_fps is not None]
    rate_fps = fmean(rates) if rates and kind is PacketKind.FORWARDING else None
    return CellTruth(cell, len(samples), verdict(judged or load_trials, rate_fps), balance_sheet(load_trials))


def verdict(load_trials: Sequence[LoadTrial], rate_fps: float | None = None) -> Verdict:
    """Name the commonest cause among the losses closest to the rate, or else to the lowest load that lost.

    The instrument's causes are named only where the device shows none there, the host's only where there is no other.
    """
    limited = [trial for trial in load_trials if trial.limit != "none"]
    own = [trial for trial in limited if trial.limit != "host"] or limited
    if not own:
        calmest = max(load_trials, key=lambda trial: trial.intended_fps, default=None)
        return _verdict("none", "", calmest, 0, 0)
    near = _near(own, rate_fps) or _near(own, min(trial.intended_fps for trial in own))
    shown = [trial for trial in near if trial.limit not in INSTRUMENT] or near
    (limit, place), count = Counter((trial.limit, trial.place) for trial in shown).most_common(1)[0]
    alike = [trial for trial in shown if (trial.limit, trial.place) == (limit, place)]
    stands = min(alike, key=lambda trial: (trial.doubt is not None, trial.intended_fps))
    return _verdict(limit, place, stands, count, len(near))


def _near(trials: Sequence[LoadTrial], fps: float | None) -> list[LoadTrial]:
    """Return the trials at loads close to a rate."""
    if fps is None:
        return []
    return [trial for trial in trials if fps / NEAR_RATIO <= trial.intended_fps <= fps * NEAR_RATIO]


def _verdict(limit: str, place: str, trial: LoadTrial | None, count: int, total: int) -> Verdict:
    busy = trial.cpu_busy if trial is not None else {}
    cpu = max(busy, key=lambda number: busy[number], default=None)
    return Verdict(
        limit=limit,
        place=place,
        seen=trial.seen if trial is not None else (),
        doubt=trial.doubt if trial is not None else None,
        count=count,
        total=total,
        cpu=cpu,
        cpu_busy_ratio=busy[cpu] if cpu is not None else 0.0,
        idle_ratio=1 - sum(busy.values()) / len(busy) if busy else 0.0,
    )


def balance_sheet(load_trials: Sequence[LoadTrial]) -> BalanceSheet:
    """Add up where the frames went, over all load trials and directions."""
    sheets = [sheet for trial in load_trials for sheet in trial.balance]
    named: Counter[tuple[str, str]] = Counter()
    for sheet in sheets:
        for place, reason, frames in sheet.drops:
            named[place, reason] += frames
    closed = sum(all(sheet.unexplained_frames == 0 for sheet in trial.balance) for trial in load_trials)
    return BalanceSheet(
        offered_frames=sum(sheet.offered_frames for sheet in sheets),
        forwarded_frames=sum(sheet.forwarded_frames for sheet in sheets),
        drops=tuple(Drop(*where, frames) for where, frames in named.most_common() if frames),
        unexplained_frames=sum(sheet.unexplained_frames for sheet in sheets),
        load_trials=len(load_trials),
        closed_trials=closed,
    )


def _paths(seen: Iterable[Port]) -> tuple[UsedPath, ...]:
    counts = sorted(Counter(seen).items(), key=lambda item: (item[0].port, item[0].path))
    return tuple(UsedPath(one.port, one.path, one.reasons, count) for one, count in counts)


def _shared(seen: Iterable[Sharing]) -> tuple[SharedCpu, ...]:
    counts = sorted(Counter(seen).items(), key=lambda item: item[0].model_dump_json())
    return tuple(SharedCpu(one, count) for one, count in counts)
