"""Steady state: the last five rounds are alike and do not drift, or it is said that they are not."""

import pytest

from iolab.trial.disk.fio_report import steadiness


def test_five_rounds_alike_are_steady() -> None:
    """What came before them does not matter."""
    seen = steadiness([1000, 500, 100, 101, 99, 100, 102])
    assert seen is not None
    assert seen.reached


@pytest.mark.parametrize(
    "rounds",
    [[100, 100, 100, 100, 121], [100, 104, 108, 112, 116]],
    ids=["one is a fifth more", "they drift by more than a tenth"],
)
def test_rounds_that_differ_or_drift_are_not_steady(rounds: list[float]) -> None:
    """By a fifth of their mean, or by a tenth of it along a line."""
    seen = steadiness(rounds)
    assert seen is not None
    assert not seen.reached


def test_fewer_than_five_rounds_say_nothing() -> None:
    """Nor do five that did nothing."""
    assert steadiness([100, 100, 100, 100]) is None
    assert steadiness([0, 0, 0, 0, 0]) is None
