"""Test a typical log ratio after every pair of runs with betting e-processes, and compute the confidence sequence that
results from inverting these tests.

A pair is one run of each of two subjects; its value is y = ln(candidate / base). Every function is pure, and accepts
arrays whose last axis is the pair, in order of measurement. The results are valid at any stopping time: a check after
every pair does not increase the error rates.

Sources: Ville (1939) for the bound P(sup E >= 1/a) <= a of a non-negative martingale that starts at 1;
Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting, J. R. Statist. Soc. B 86:1-27;
Wang and Ramdas (2022), False discovery rate control with e-values, J. R. Statist. Soc. B 84:822-852 (e-BH). The
procedure, its assumptions and its simulated error rates are in docs/method/gate.md.
"""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from iolab.frozen import frozen

Floats = NDArray[np.float64]

STEEPNESS = (1.0, 3.0)
"""Factors that multiply the standardised value within tanh; the mixture of bets has every combination with `STAKES`."""
STAKES = (0.6, 0.9)
"""Fractions of the capital that a bet may lose; below 1, so that no pair loses everything."""
ROBUST_SD = 1.4826
"""Ratio of the standard deviation of a normal distribution to its median absolute deviation."""
LARGEST_LOG = 20.0
"""Bound of |y|: the log ratio if one side of a pair is 0."""
BISECTIONS = 60
"""Number of bisection steps that locate an endpoint of the confidence sequence; the error is 2^-60 of the range of the
values."""
REFERENCE_RUNS, LATEST_RUNS = 20, 3
"""Number of runs with which a run is compared, and number of the latest runs before it that are left out, because they
may already include the step."""
CLIP_SD, SLACK_SD, TRIGGER_SD = 2.5, 0.75, 3.0
"""Maximum deviation that one run adds, deviation that is subtracted for each run, and sum of deviations above which a
run is suspect [sd]."""


class Outcome(StrEnum):
    """Result of a test of one cell."""

    CHANGED = "changed"
    EQUIVALENT = "equivalent"
    NOT_DECIDED = "not-decided"
    OPEN = "open"
    """Not decided yet; more pairs are needed."""


@frozen(kw_only=True)
class Rule:
    """Margins, error rates and limits of a gate."""

    margin: float = 0.02
    """Maximum relative difference that counts as equivalent [ratio]."""
    alpha: float = 0.001
    """Error rate of the result "changed"."""
    equivalent_alpha: float = 0.05
    """Error rate of the result "equivalent"."""
    max_pairs: int = 40
    """Number of pairs after which the measurement of a cell ends even if the cell is not decided."""
    futile_pairs: int = 12
    """Number of pairs after which the measurement of a cell ends if the cell shows no difference and is far from
    "equivalent"."""

    @property
    def outer(self) -> float:
        """Equivalence margin as a log ratio."""
        return math.log1p(self.margin)

    @property
    def inner(self) -> float:
        """Log ratio that a change must exceed: a quarter of the margin, because an interval outside the whole margin
        needs a step far above it."""
        return self.outer / 4


@frozen
class Decision:
    """State of one cell after its pairs."""

    outcome: Outcome
    """The result."""
    pairs: int
    """Number of pairs on which the result is based."""
    low: float
    """Lower end of the confidence sequence of the ratio [ratio]; 0 if unbounded."""
    high: float
    """Upper end of the confidence sequence of the ratio [ratio]; infinite if unbounded."""
    futile: bool = False
    """Whether the futility rule ended the cell."""


def log_ratios(candidate: Floats, base: Floats) -> Floats:
    """Return ln(candidate / base) per pair, bounded by `LARGEST_LOG`; 0 if both are 0.

    Raises:
        ValueError: a value is negative or not finite.
    """
    both = np.stack([np.asarray(candidate, float), np.asarray(base, float)])
    if not (np.isfinite(both) & (both >= 0)).all():
        raise ValueError("log-ratio-undefined")
    with np.errstate(divide="ignore"):
        above, below = np.log(both)
    same = both[0] == both[1]
    return np.where(same, 0.0, np.clip(above - np.where(same, 0.0, below), -LARGEST_LOG, LARGEST_LOG))


def scales(values: Floats) -> Floats:
    """Return the scale for each pair: the robust sd of the pairs before it, 0 for the first two; shape of `values`.

    The scale is predictable (it does not use its own pair) and does not depend on the tested centre, so that the
    evidence decreases as the centre increases. A scale of 0 turns the bet into a bet on the sign.
    """
    found = np.zeros(values.shape)
    for pair in range(2, values.shape[-1]):
        before = values[..., :pair]
        centre = np.median(before, axis=-1, keepdims=True)
        found[..., pair] = ROBUST_SD * np.median(np.abs(before - centre), axis=-1)
    return found


def log_evidence(values: Floats, centre: float | Floats, scale: Floats | None = None) -> Floats:
    """Return ln E after each pair, where E is the evidence that the typical value is above `centre`.

    E is the mean over bets of the product of 1 + stake tanh(steepness (y - centre) / scale). If y is symmetric about
    any value of at most `centre`, given the pairs before it, E is a supermartingale that starts at 1. `centre` may be
    an array that broadcasts with `values`. For evidence that the typical value is below `centre`, negate `values` and
    `centre`.
    """
    scale = scales(values) if scale is None else scale
    distance = values - centre
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = np.where(scale > 0, distance / scale, np.sign(distance) * np.inf)
    z = np.where(distance == 0, 0.0, z)
    bets = [
        np.cumsum(np.log1p(stake * np.tanh(steepness * z)), axis=-1)
        for steepness in STEEPNESS
        for stake in STAKES
    ]
    mixed: Floats = np.logaddexp.reduce(bets, axis=0)
    return mixed - math.log(len(bets))


def confidence_sequence(values: Floats, alpha: float) -> tuple[float, float]:
    """Return the endpoints of the 1 - `alpha` confidence sequence of the typical value after the last pair.

    The interval is the intersection of the intervals after each pair; with probability 1 - `alpha`, all of these
    intervals contain the typical value. An endpoint is infinite until there are enough pairs. If the intersection is
    empty (no value is typical of all pairs), both endpoints are equal to the lower one.
    """
    low = _lower_end(values, alpha / 2)
    return low, max(low, -_lower_end(-values, alpha / 2))


def _lower_end(values: Floats, alpha: float) -> float:
    """Return the largest centre for which the evidence that the typical value is above it reaches 1 / `alpha` after any
    pair."""
    scale = scales(values)
    need = -math.log(alpha)

    def is_rejected(centre: float) -> bool:
        return bool((log_evidence(values, centre, scale) >= need).any())

    span = float(values.max(initial=0.0) - values.min(initial=0.0)) + float(scale.max(initial=0.0))
    below = float(values.min(initial=0.0)) - 100.0 * span - 1e-9
    above = float(values.max(initial=0.0)) + 1e-9
    if not is_rejected(below):
        return -math.inf
    for _ in range(BISECTIONS):
        middle = (below + above) / 2
        below, above = (middle, above) if is_rejected(middle) else (below, middle)
    return below


def e_bh(evidence: Sequence[float], alpha: float) -> frozenset[int]:
    """Return the indices of the log e-values that are rejected at false discovery rate `alpha` (e-BH).

    Of k values, the j largest are rejected, where j is the largest number for which the j-th largest value is at least
    k / (alpha j). The values may depend on each other in any way.
    """
    order = sorted(range(len(evidence)), key=lambda at: -evidence[at])
    for j in range(len(order), 0, -1):
        if evidence[order[j - 1]] >= math.log(len(order) / (alpha * j)):
            return frozenset(order[:j])
    return frozenset()


def change_evidence(values: Floats, rule: Rule) -> Floats:
    """Return ln of the two-sided evidence, after each pair, that the typical log ratio is outside +-`rule.inner`."""
    scale = scales(values)
    up, down = log_evidence(values, rule.inner, scale), log_evidence(-values, rule.inner, scale)
    return np.logaddexp(up, down) - math.log(2)


def equivalent_after(values: Floats, rule: Rule) -> NDArray[np.bool_]:
    """Return for each pair whether there is evidence, after this pair, that the typical log ratio is within
    +-`rule.outer`.

    There may be evidence against a larger ratio after one pair, and against a smaller ratio after a different pair.
    """
    need, scale = -math.log(rule.equivalent_alpha), scales(values)
    below_upper = np.maximum.accumulate(log_evidence(-values, -rule.outer, scale), axis=-1) >= need
    above_lower = np.maximum.accumulate(log_evidence(values, -rule.outer, scale), axis=-1) >= need
    return below_upper & above_lower


def futile_after(values: Floats, rule: Rule) -> NDArray[np.bool_]:
    """Return for each pair whether the pairs after it are unlikely to decide anything.

    From pair `rule.futile_pairs` on, this holds if there is no evidence of a difference in either direction, and if the
    evidence of equivalence, at its growth so far, would need more than half of `rule.max_pairs`. Stopping early adds no
    false alarm.
    """
    pairs, scale = np.arange(1, values.shape[-1] + 1), scales(values)
    none = (log_evidence(values, 0.0, scale) < 0) & (log_evidence(-values, 0.0, scale) < 0)
    equal = np.minimum(log_evidence(-values, -rule.outer, scale), log_evidence(values, -rule.outer, scale))
    slow = equal / pairs * (rule.max_pairs / 2) < -math.log(rule.equivalent_alpha)
    found: NDArray[np.bool_] = none & slow & (pairs >= rule.futile_pairs)
    return found


def decide(cells: Sequence[Floats], rule: Rule, *, last: bool = False) -> tuple[Decision, ...]:
    """Return the state of every cell of a gate, from the log ratios of its pairs.

    "Changed" is decided over all cells at once by e-BH, on the present evidence. A cell that was equivalent or futile
    before it changed keeps this result. `last` is set if no further pair follows, so open cells end as not decided.
    """
    evidence = [change_evidence(values, rule) for values in cells]
    ends = [_first(equivalent_after(values, rule)) for values in cells]
    futile = [_first(futile_after(values, rule)) for values in cells]
    first_changed: dict[int, int] = {}
    present: frozenset[int] = frozenset()
    for pair in range(max((len(values) for values in cells), default=0)):
        now = [float(own[min(pair, len(own) - 1)]) if len(own) else 0.0 for own in evidence]
        present = e_bh(now, rule.alpha)
        for cell in present:
            first_changed.setdefault(cell, pair)
    return tuple(
        _state(values, rule, first_changed[cell] if cell in present else None, ends[cell], futile[cell], last)
        for cell, values in enumerate(cells)
    )


def _first(reached: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(reached)) if reached.any() else None


def _state(
    values: Floats, rule: Rule, changed: int | None, equivalent: int | None, futile: int | None, last: bool
) -> Decision:
    reached = [
        (pair, order, outcome)
        for order, (pair, outcome) in enumerate(
            (
                (changed, Outcome.CHANGED),
                (equivalent, Outcome.EQUIVALENT),
                (futile, Outcome.NOT_DECIDED),
            )
        )
        if pair is not None
    ]
    outcome = min(reached)[2] if reached else Outcome.OPEN
    ended = futile is not None and outcome is Outcome.NOT_DECIDED
    if outcome is Outcome.OPEN and (last or len(values) >= rule.max_pairs):
        outcome = Outcome.NOT_DECIDED
    alpha = rule.alpha if outcome is Outcome.CHANGED else rule.equivalent_alpha
    low, high = confidence_sequence(values, alpha)
    return Decision(outcome, len(values), math.exp(low), math.exp(high), ended)


def pairs_needed(log_e: float, pairs: int, alpha: float) -> int | None:
    """Return the number of further pairs until the evidence reaches 1 / `alpha` if it grows as before; None if it does
    not grow."""
    if log_e <= 0 or pairs == 0:
        return None
    return max(0, math.ceil((-math.log(alpha) - log_e) / (log_e / pairs)))


def suspects(runs: Floats, fresh_level: Callable[[int], float | None] = lambda _: None) -> tuple[int, ...]:
    """Return the indices of the runs after which a series is suspected of a step; `runs` has one figure per run.

    A CUSUM of robust deviations: each run is compared with the median of the `REFERENCE_RUNS` before the last
    `LATEST_RUNS`, its deviation is clipped, and both sums restart after a suspect. At each suspect, `fresh_level` is
    called; it may return the level of the runs of a gate that found no change; until there are enough newer runs, this
    level is the reference. A suspect is not a result: only a gate with new pairs decides. Page (1954), Continuous
    inspection schemes, Biometrika 41:100-115.
    """
    found: list[int] = []
    up = down = 0.0
    level: float | None = None
    for at in range(REFERENCE_RUNS + LATEST_RUNS, len(runs)):
        before = runs[at - LATEST_RUNS - REFERENCE_RUNS : at - LATEST_RUNS]
        centre = float(np.median(before))
        sd = ROBUST_SD * float(np.median(np.abs(before - centre)))
        if level is not None and at - found[-1] <= REFERENCE_RUNS + LATEST_RUNS:
            centre = level
        distance = float(runs[at]) - centre
        z = distance / sd if sd > 0 else math.copysign(math.inf, distance) if distance else 0.0
        z = min(max(z, -CLIP_SD), CLIP_SD)
        up, down = max(0.0, up + z - SLACK_SD), max(0.0, down - z - SLACK_SD)
        if max(up, down) > TRIGGER_SD:
            found.append(at)
            up = down = 0.0
            level = fresh_level(at)
    return tuple(found)
