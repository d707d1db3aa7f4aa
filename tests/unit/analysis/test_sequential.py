"""Betting e-processes and the decisions of a gate: edge cases, and validity at any stopping time by simulation."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from iolab.analysis import sequential
from iolab.analysis.sequential import Outcome, Rule

Floats = NDArray[np.float64]
RULE = Rule()


def test_log_ratio_is_zero_if_both_values_are_zero_and_bounded_if_one_is_zero() -> None:
    """Check the pairs 0/0, 0/2, 3/0 and 6/3."""
    found = sequential.log_ratios(np.array([0.0, 0.0, 3.0, 6.0]), np.array([0.0, 2.0, 0.0, 3.0]))
    assert found.tolist() == [
        0.0,
        -sequential.LARGEST_LOG,
        sequential.LARGEST_LOG,
        pytest.approx(math.log(2)),
    ]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_log_ratio_refuses_values_without_a_logarithm(wrong: float) -> None:
    """Refuse NaN, infinity and negative values, instead of a silent NaN."""
    with pytest.raises(ValueError, match="log-ratio-undefined"):
        sequential.log_ratios(np.array([1.0, wrong]), np.array([1.0, 1.0]))


def test_scale_of_a_pair_is_estimated_from_earlier_pairs_only() -> None:
    """Change pairs from the eighth on: the scales until the eighth stay, the ninth moves."""
    values = np.random.default_rng(1).normal(size=12)
    changed = values.copy()
    changed[7:] += 100.0
    assert np.array_equal(sequential.scales(values)[:8], sequential.scales(changed)[:8])
    assert sequential.scales(values)[8] != sequential.scales(changed)[8]
    assert sequential.scales(values)[:2].tolist() == [0.0, 0.0]


def test_evidence_decreases_with_the_assumed_centre() -> None:
    """Check monotony, on which the confidence sequence depends, over outliers and ties."""
    values = np.round(np.random.default_rng(2).standard_t(2, 20), 1)
    centres = np.linspace(-8, 8, 401)
    found = sequential.log_evidence(values, centres[:, None])
    assert (np.diff(found, axis=0) <= 1e-12).all()


def test_constant_pairs_without_a_difference_are_judged_equivalent_after_eight_pairs() -> None:
    """Bet on signs where the scale is 0."""
    decision = sequential.decide([np.zeros(8)], RULE)[0]
    assert decision.outcome is Outcome.EQUIVALENT
    assert decision.low <= 1.0 <= decision.high
    assert sequential.decide([np.zeros(4)], RULE)[0].outcome is Outcome.OPEN


def test_step_of_the_same_size_in_every_pair_is_judged_changed() -> None:
    """Bet on signs where the scale is 0: 14 equal pairs suffice at alpha 0.001, 10 do not."""
    assert sequential.decide([np.full(14, 0.05)], RULE)[0].outcome is Outcome.CHANGED
    assert sequential.decide([np.full(10, 0.05)], RULE)[0].outcome is Outcome.OPEN


def test_one_outlier_neither_causes_nor_hides_a_change() -> None:
    """Put an outlier of e^20 against the result."""
    quiet = np.random.default_rng(3).normal(0, 0.002, 20)
    quiet[6] = -20.0
    assert sequential.decide([quiet], RULE)[0].outcome is Outcome.EQUIVALENT
    stepped = np.random.default_rng(3).normal(-0.06, 0.01, 24)
    stepped[6] = 20.0
    assert sequential.decide([stepped], RULE)[0].outcome is Outcome.CHANGED


def test_step_between_both_margins_is_never_judged_both_changed_and_equivalent() -> None:
    """Check constant steps of 0.4, 1.2 and 3 % at once, at margin 2 %."""
    decisions = sequential.decide([np.full(40, 0.004), np.full(40, 0.012), np.full(40, 0.03)], RULE)
    assert [one.outcome for one in decisions] == [Outcome.EQUIVALENT, Outcome.EQUIVALENT, Outcome.CHANGED]


def test_undecided_cell_ends_at_the_maximum_number_of_pairs_or_when_further_pairs_are_futile() -> None:
    """Check wide noise (futile) and a difference too unsteady to decide (cap)."""
    wide = np.random.default_rng(5).normal(0, 0.2, 40)
    ended = sequential.decide([wide], RULE)[0]
    assert (ended.outcome, ended.futile) == (Outcome.NOT_DECIDED, True)
    between = np.tile([0.03, 0.02, -0.01], 14)[:40]
    assert sequential.decide([between[:30]], RULE)[0].outcome is Outcome.OPEN
    assert sequential.decide([between], RULE)[0].outcome is Outcome.NOT_DECIDED
    assert sequential.decide([between[:3]], RULE, last=True)[0].outcome is Outcome.NOT_DECIDED


def test_cell_without_pairs_is_undecided_with_an_unbounded_interval() -> None:
    """Check a cell whose pairs are all void."""
    decision = sequential.decide([np.zeros(0)], RULE)[0]
    assert (decision.outcome, decision.pairs, decision.low, decision.high) == (Outcome.OPEN, 0, 0.0, math.inf)


def test_evidence_at_the_ends_of_the_confidence_sequence_equals_the_threshold() -> None:
    """Invert the evidence: at an end it equals 1 over half of alpha."""
    values = np.random.default_rng(7).normal(0.03, 0.02, 30)
    assert sequential.confidence_sequence(values[:4], 0.05) == (-math.inf, math.inf)
    low, high = sequential.confidence_sequence(values, 0.05)
    need = math.log(2 / 0.05)
    assert sequential.log_evidence(values, low).max() == pytest.approx(need, abs=1e-6)
    assert sequential.log_evidence(-values, -high).max() == pytest.approx(need, abs=1e-6)
    assert low < 0.03 < high
    earlier = sequential.confidence_sequence(values[:15], 0.05)
    assert earlier[0] <= low
    assert high <= earlier[1]


def test_empty_intersection_of_confidence_intervals_is_reported_as_one_point() -> None:
    """Check pairs whose centre moves far, which no single centre explains."""
    low, high = sequential.confidence_sequence(np.concatenate([np.full(20, -1.0), np.full(80, 1.0)]), 0.05)
    assert low == high


def test_e_bh_procedure_rejects_the_largest_e_values_only() -> None:
    """Compare with the definition at alpha 0.05: 4 values; thresholds 80, 40, 26.7 and 20."""
    logs = [math.log(value) for value in (100, 30, 27, 1)]
    assert sequential.e_bh(logs, 0.05) == {0, 1, 2}
    assert sequential.e_bh([math.log(79), *logs[3:], 0.0, 0.0], 0.05) == frozenset()
    assert sequential.e_bh([], 0.05) == frozenset()


def test_changed_cell_needs_more_evidence_among_many_unchanged_cells() -> None:
    """Add 10 quiet cells to one that alone is changed."""
    random = np.random.default_rng(19)
    stepped, quiet = np.full(13, 0.05), [random.normal(0, 0.05, 13) for _ in range(10)]
    assert sequential.decide([stepped], RULE)[0].outcome is Outcome.CHANGED
    assert sequential.decide([stepped, *quiet], RULE)[0].outcome is Outcome.OPEN


def test_number_of_needed_pairs_is_extrapolated_from_the_growth_of_the_evidence() -> None:
    """Check growing, reached and falling evidence."""
    assert sequential.pairs_needed(1.5, 5, 0.05) == math.ceil((math.log(20) - 1.5) / 0.3)
    assert sequential.pairs_needed(5.0, 5, 0.05) == 0
    assert sequential.pairs_needed(-0.1, 5, 0.05) is None


def test_false_alarms_stay_below_alpha_at_any_stopping_time() -> None:
    """Simulate 1000 A/A series with outliers, looked at after each of 40 pairs, at alpha 0.05.

    A fixed order in which the second run is 0.7 sd slower is the counterexample: it exceeds alpha, so the test can
    fail.
    """
    random = np.random.default_rng(11)
    runs = random.normal(size=(2, 1000, 40)) - (random.random((2, 1000, 40)) < 0.1) * 10.0
    values = runs[0] - runs[1]
    alarms = (sequential.log_evidence(values, 0.0) >= math.log(20)).any(axis=1).mean()
    assert 0.01 <= alarms <= 0.05
    fixed_order = sequential.log_evidence(values + 0.7, 0.0)
    assert (fixed_order >= math.log(20)).any(axis=1).mean() > 0.2


def test_runs_after_a_step_are_suspects_and_one_outlier_is_not() -> None:
    """Check a quiet history, one outlier, a step of 4 sd, and constant runs."""
    runs = np.random.default_rng(13).normal(100, 1, 60)
    assert sequential.suspects(runs) == ()
    outlier = runs.copy()
    outlier[40] = 0.0
    assert sequential.suspects(outlier) == ()
    stepped = runs - 4 * (np.arange(60) >= 40)
    assert 41 <= sequential.suspects(stepped)[0] <= 44
    assert sequential.suspects(np.full(60, 5.0)) == ()


def test_level_measured_by_a_gate_without_a_change_becomes_the_reference_level() -> None:
    """Check a level shift that a gate explains as the host's."""
    runs = np.random.default_rng(17).normal(100, 1, 60) - 6 * (np.arange(60) >= 40)
    assert len(sequential.suspects(runs, lambda _: 94.0)) < len(sequential.suspects(runs))
