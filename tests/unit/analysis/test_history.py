"""Suspected changes in the medians of runs."""

import random

import pytest

from iolab.analysis.history import MIN_REFERENCE, suspects


def runs(seed: int, count: int, step: float = 0.0, at: int = 0) -> list[float]:
    """Return normal run medians with a step [standard deviations] at one run."""
    chance = random.Random(seed)
    return [100 + chance.gauss(0, 1) + (step if number >= at else 0) for number in range(count)]


def test_step_of_three_standard_deviations_is_detected_within_five_runs() -> None:
    """Find at least 95 of 100 steps."""
    noticed = 0
    for seed in range(100):
        noticed += any(40 <= each.noticed < 45 for each in suspects(runs(seed, 45, step=3, at=40)))
    assert noticed >= 95


def test_few_changes_are_suspected_in_a_series_without_a_change() -> None:
    """Suspect at most 2.5 per 100 runs: suspects are measured again before they count."""
    assert sum(len(suspects(runs(seed, 120))) for seed in range(50)) <= 0.025 * 50 * 120


def test_lasting_step_is_reported_once() -> None:
    """Ignore triggers while most reference runs are older than the step."""
    values = [100.0 + number * 7 % 5 for number in range(30)] + [
        90.0 + number * 7 % 5 for number in range(30)
    ]
    found = suspects(values)
    assert [each.begin for each in found] == [30]
    assert found[0].before == 102
    assert 90 <= found[0].after <= 94


@pytest.mark.parametrize("outlier", [50.0, 1e9, -1e9])
def test_single_outlier_is_not_a_suspect(outlier: float) -> None:
    """Clip its deviation."""
    values = [100.0 + number % 3 for number in range(30)]
    values[20] = outlier
    assert not suspects(values)


def test_change_in_a_series_without_variance_is_suspected() -> None:
    """Accept constants, and suspect two runs that leave the constant."""
    assert not suspects([0.0] * 50)
    assert suspects([0.0] * 20 + [0.1, 0.1])[0].begin == 20


def test_short_series_has_no_suspects() -> None:
    """Judge nothing with few reference runs."""
    assert not suspects([1.0] * (MIN_REFERENCE - 1) + [100.0] * 2)
    assert not suspects([])
