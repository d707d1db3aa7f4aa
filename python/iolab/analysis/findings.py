"""Derive the findings of the summary: the effect of a level, its size, and the conditions under which it applies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iolab.analysis.cell_means import Pairs, average, for_each, parts
from iolab.analysis.effects import Difference, detectable_ratio
from iolab.analysis.forwarding import BOTH_WAYS, ONE_WAY
from iolab.analysis.intervals import holm
from iolab.analysis.table import Table
from iolab.analysis.types import Finding

MOST = 12
"""Maximum number of findings in a summary, to fit one screen."""
MOST_PER_FACTOR = 3
"""Maximum number of findings per factor and measure if there are more findings than MOST."""
LEAST_NONE = 3
"""Number of findings without a significant change that are kept if there are more findings than MOST."""
CORRECTED_P = 0.05
ALIKE = 0.02
"""Tolerance within which the sum of both directions counts as twice one direction."""
OFFERED = "rate"
"""Last component of the name of the factor that sets the offered load."""
SIZES = frozenset({"frame_size"})
"""Last components of factor names that set the frame size.

A rate change with frame size is expected and not reported. If the effect of a different factor depends on the frame
size, this effect is reported per size. Charts use the size as their axis.
"""
RATES = ("_fps", "_bps")
"""Suffixes of metrics that are rates."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A comparison that may become a finding."""

    each_direction: bool
    """Whether the comparison uses the mean of the directions."""

    whole: Pairs
    """The comparison over all cells."""
    pairs: Pairs
    """Cells that the candidate covers."""
    over_all: Difference
    """Mean effect over the cells, with the error that decides whether an effect exists."""
    for_each: Difference
    """Mean effect, with an error wide enough to cover the effect in each cell; the summary shows the interval of this
    mean."""


def detectable_changes(compared: Mapping[str, Sequence[Pairs]]) -> dict[str, float]:
    """Return the smallest detectable change per measure: that of the level with the largest error over all cells."""
    least = {measure: detectable_ratio([average(each) for each in own]) for measure, own in compared.items()}
    return {measure: ratio for measure, ratio in least.items() if ratio is not None}


def findings_of(
    compared: Mapping[str, Sequence[Pairs]], detectable: Mapping[str, float]
) -> tuple[Finding, ...]:
    """Return the findings: each level against its reference, per measure, with p-values corrected over all comparisons
    of the run."""
    candidates = [
        own for measure, every in compared.items() for own in _candidates(every, detectable.get(measure, 0.0))
    ]
    corrected = holm(np.array([candidate.over_all.p_value for candidate in candidates]))
    found: dict[int, list[Finding]] = {}
    for candidate, p_value in zip(candidates, corrected.tolist(), strict=True):
        found.setdefault(id(candidate.whole), []).append(_finding(candidate, p_value, detectable))
    for candidate in {id(each.whole): each for each in candidates}.values():
        own, whole = found[id(candidate.whole)], candidate.whole
        if len(own) > 1 and not any(finding.shown for finding in own):
            # parts without a significant change become one finding, whose interval covers the effect in each cell
            together = _Candidate(candidate.each_direction, whole, whole, average(whole), for_each(whole))
            found[id(whole)] = [_finding(together, 1.0, detectable)]
    return _select([finding for own in found.values() for finding in own])


def _candidates(compared: Sequence[Pairs], detectable: float) -> Iterator[_Candidate]:
    """Yield one candidate per level and group of cells in which the level has the same effect.

    If the load of each direction is set, twice the rate in both directions is expected; the rates per direction are
    then compared.
    """
    for found in compared:
        model = found.of.model
        if model.metric.name.endswith(RATES) and _offers(
            model.table.factors[found.factor], model.table.measure
        ):
            continue
        twice = _twice(found)
        each_direction = twice is not None and _loads_set(found)
        whole = found
        if twice is not None and each_direction:
            whole, twice = replace(found, values=found.values - twice), 0.0
        for part in parts(whole, float(np.log1p(detectable))):
            if twice is None or not bool((np.abs(part.values - twice) < ALIKE).all()):
                yield _Candidate(each_direction, whole, part, average(part), for_each(part))


def _offers(factor: str, measure: str) -> bool:
    """Whether a factor sets the offered load or the frame size, so a rate change is expected."""
    of, _, key = factor.rpartition(".")
    return key in SIZES or (key == OFFERED and of in (measure, "*"))


def _twice(found: Pairs) -> float | None:
    """Return the log ratio of two directions to one direction: log 2 or -log 2; None if the level does not change the
    number of directions."""
    model = found.of.model
    levels = [
        _directions(model.table, found.factor, level)
        for level in (found.level, model.design.references[found.factor])
    ]
    if not model.metric.name.endswith(RATES) or sorted(map(sorted, levels)) != [[BOTH_WAYS], [ONE_WAY]]:
        return None
    return float(np.log(2) if BOTH_WAYS in levels[0] else -np.log(2))


def _loads_set(found: Pairs) -> bool:
    """Whether every cell of a comparison sets the load of each direction."""
    table = found.of.model.table
    levels = (found.level, found.of.model.design.references[found.factor])
    rows = np.flatnonzero(np.isin(table.levels[:, found.factor], levels))
    return all(table.each_load_set[row] for row in rows)


def _directions(table: Table, factor: int, level: int) -> set[str]:
    """Return the directions of the measure at a level of a factor."""
    pairs = zip(table.levels[:, factor].tolist(), table.directions, strict=False)
    return {direction for at, direction in pairs if at == level}


def _finding(candidate: _Candidate, p_value: float, detectable: Mapping[str, float]) -> Finding:
    pairs, model = candidate.pairs, candidate.pairs.of.model
    table, labels = model.table, model.table.labels[candidate.pairs.factor]
    own = candidate.for_each
    least = detectable.get(table.measure)
    large = least is not None and abs(own.value) >= np.log1p(least)
    interval = own.interval
    apart = interval is not None and not interval.low <= 1 <= interval.high
    return Finding(
        measure=table.measure,
        metric=model.metric,
        factor=table.factors[pairs.factor],
        level=labels[pairs.level],
        reference=labels[model.design.references[pairs.factor]],
        conditions={table.factors[f]: table.labels[f][at] for f, at in pairs.conditions.items()},
        ratio=own.ratio,
        ci=interval,
        shown=large and apart and p_value < CORRECTED_P,
        each_direction=candidate.each_direction,
        better=table.columns[model.metric].better,
    )


def _select(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the significant differences, largest first, then one finding per factor (and condition) without a
    significant difference."""
    ranked = sorted(found, key=lambda finding: -abs(float(np.log(finding.ratio))))
    shown = [finding for finding in ranked if finding.shown]
    speaking = {_subject(finding) for finding in shown}
    none: dict[tuple[str, ...], Finding] = {}
    for finding in ranked:
        if _subject(finding) not in speaking:
            none.setdefault(_subject(finding), finding)
    if len(shown) + len(none) > MOST:
        shown = _thin(shown)[: MOST - min(len(none), LEAST_NONE)]
    return (*shown, *none.values())[:MOST]


def _subject(finding: Finding) -> tuple[str, ...]:
    """Return the subject of a finding: its measure, factor and conditions."""
    conditions = (f"{name}={label}" for name, label in finding.conditions.items())
    alone = (finding.level,) if finding.ci is None else ()  # without an interval the levels cannot be ranked
    return (finding.measure, finding.factor, *alone, *conditions)


def _thin(ranked: Sequence[Finding]) -> list[Finding]:
    """Return only the few largest findings of each factor and measure."""
    seen: dict[tuple[str, str], int] = {}
    kept = []
    for finding in ranked:
        of = (finding.measure, finding.factor)
        seen[of] = seen.get(of, 0) + 1
        if seen[of] <= MOST_PER_FACTOR:
            kept.append(finding)
    return kept
