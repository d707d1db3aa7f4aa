"""What a reader of the summary wants to know: which level changes what, by how much, under which
conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iolab.analysis.correction import holm
from iolab.analysis.effects import Difference, Model, difference, interaction, joint_p_value
from iolab.analysis.types import Finding

MainDifferences = Mapping[tuple[int, int], Difference]
"""(factor, level) to its difference over all other factors."""

MOST = 12
"""Findings in a summary: what fits on one screen."""
MOST_PER_FACTOR = 3
"""Of one factor of one measure, when there are more findings than MOST."""
LEAST_NONE = 3
"""Findings of 'no difference shown' that keep their place when there are more than MOST."""
CORRECTED_P = 0.05
STRONG_P = 0.001
"""An interaction counts as strong only below this (Holm-corrected over the pairs of the measure) ..."""
STRONG_SHARE = 0.25
"""... and when it changes the factor's largest effect by at least this share of it."""
SIZES = frozenset({"frame_size"})
"""Last parts of factors that set how much a frame carries: that larger frames change a rate is arithmetic, not news.
How other factors act at each size is told where they act differently, and the charts have sizes as their axis."""
RATES = ("_fps", "_bps")
"""Endings of metrics that are rates."""
MOST_CONDITIONS = 12
"""Levels of the other factor up to which a factor is told apart by them."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A comparison that may become a finding."""

    model: Model
    """Its measure's model."""
    factor: int
    """What was changed."""
    level: int
    """To what."""
    conditions: Mapping[int, int]
    """Factor to level."""
    difference: Difference
    """The effect."""


def findings_of(
    models: Sequence[Model], mains: Mapping[str, MainDifferences], detectable: Mapping[str, float]
) -> tuple[Finding, ...]:
    """Compare every level with its reference, per measure; corrected over all comparisons of the run."""
    candidates = [
        own for model in models for own in _candidates(model, mains[model.table.measure], detectable)
    ]
    corrected = holm(np.array([candidate.difference.p_value for candidate in candidates]))
    found = [
        _finding(candidate, float(p_value), detectable)
        for candidate, p_value in zip(candidates, corrected, strict=True)
    ]
    return _select(found)


def _candidates(model: Model, main: MainDifferences, detectable: Mapping[str, float]) -> list[_Candidate]:
    found = []
    partners = {factor: _partner(model, factor, main, detectable) for factor in model.design.references}
    for (factor, level), over_all in main.items():
        if model.metric.endswith(RATES) and model.table.factors[factor].rpartition(".")[2] in SIZES:
            continue
        partner = partners[factor]
        if partner is None:
            found.append(_Candidate(model, factor, level, {}, over_all))
            continue
        for at in sorted({int(own) for own in model.levels[:, partner]}):
            own = difference(model, factor, level, {partner: at})
            if own is not None:
                found.append(_Candidate(model, factor, level, {partner: at}, own))
    return found


def _partner(model: Model, factor: int, main: MainDifferences, detectable: Mapping[str, float]) -> int | None:
    """The factor it interacts with most, where that is strong enough to forbid one figure over all."""
    pairs = sorted({term.factors for term in model.design.terms if len(term.factors) == 2})
    corrected = holm(np.array([joint_p_value(model, *pair) for pair in pairs]))
    effect = max((abs(own.value) for (of, _), own in main.items() if of == factor), default=0.0)
    least = max(STRONG_SHARE * effect, np.log1p(detectable.get(model.table.measure, 0.0)))
    best, strength = None, least
    for pair, p_value in zip(pairs, corrected.tolist(), strict=True):
        if factor not in pair or not p_value < STRONG_P:
            continue
        other = pair[0] if pair[1] == factor else pair[1]
        own = np.unique(model.levels[:, other])
        if len(own) > MOST_CONDITIONS or own[0] < 0:
            continue
        size = _largest_interaction(model, pair)
        if size >= strength:
            best, strength = other, size
    return best


def _largest_interaction(model: Model, pair: tuple[int, ...]) -> float:
    columns = [c for c in model.fit.kept.tolist() if model.design.terms[c].factors == pair]
    return max(abs(interaction(model, column).value) for column in columns)


def _finding(candidate: _Candidate, p_value: float, detectable: Mapping[str, float]) -> Finding:
    model, table = candidate.model, candidate.model.table
    labels = table.labels[candidate.factor]
    own = candidate.difference
    least = detectable.get(table.measure)
    large = least is not None and abs(own.value) >= np.log1p(least)
    return Finding(
        measure=table.measure,
        metric=model.metric,
        factor=table.factors[candidate.factor],
        level=labels[candidate.level],
        reference=labels[model.design.references[candidate.factor]],
        conditions={table.factors[f]: table.labels[f][at] for f, at in candidate.conditions.items()},
        ratio=own.ratio,
        ci=own.interval,
        shown=large and p_value < CORRECTED_P,
    )


def _select(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Largest shown differences first, then one 'no difference shown' per factor (and condition) that shows
    none."""
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
    """What a finding speaks of: the factor under its conditions."""
    conditions = (f"{name}={label}" for name, label in finding.conditions.items())
    alone = (finding.level,) if finding.ci is None else ()  # without an interval nothing ranks the levels
    return (finding.measure, finding.factor, *alone, *conditions)


def _thin(ranked: Sequence[Finding]) -> list[Finding]:
    """The largest few of each factor of each measure."""
    seen: dict[tuple[str, str], int] = {}
    kept = []
    for finding in ranked:
        of = (finding.measure, finding.factor)
        seen[of] = seen.get(of, 0) + 1
        if seen[of] <= MOST_PER_FACTOR:
            kept.append(finding)
    return kept
