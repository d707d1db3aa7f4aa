"""How figures are written."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.analysis.types import Interval
from iolab.report import numbers
from iolab.report.words import EN


@pytest.mark.parametrize(
    ("half_width", "value", "decimals"),
    [
        (3.2, 41.3, 0),
        (0.32, 41.3, 1),
        (1.2, 41.3, 1),
        (0.012, 9.8765, 3),
        (250.0, 941.0, 0),
        (0.0, 941.3, 0),
        (0.0, 9.413, 2),
    ],
)
def test_digits_follow_the_uncertainty(half_width: float, value: float, decimals: int) -> None:
    """An uncertainty gets one digit, two where it begins with 1; without one, three digits are shown."""
    assert numbers.decimals_for(half_width, value) == decimals


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (1.41, 1.38, 1.44, "+41\u00a0% [38, 44]"),
        (0.88, 0.85, 0.91, "−12\u00a0% [−15, −9]"),
        (1.004, 0.979, 1.029, "0\u00a0% [−2, 3]"),
        (1.014, 1.002, 1.026, "+1.4\u00a0% [0.2, 2.6]"),
        (1.03, 1.004, 1.056, "+3.0\u00a0% [0.4, 5.6]"),
        (1.0, 1.0, 1.0, "0\u00a0% [0, 0]"),
    ],
)
def test_a_change_has_a_sign_and_an_interval(ratio: float, low: float, high: float, text: str) -> None:
    """A ratio is written as a percent change; no end of the interval is rounded onto zero."""
    assert numbers.change(ratio, Interval(low, high, "t"), EN) == text


def test_a_change_without_an_interval_keeps_few_digits() -> None:
    """Without an interval a large change is whole percents and a small one has one decimal."""
    assert numbers.change(1.4132, None, EN) == "+41\u00a0%"
    assert numbers.change(0.9712, None, EN) == "−2.9\u00a0%"
    assert numbers.change(None, None, EN) == "–"
    assert numbers.change(math.inf, None, EN) == "–"


@given(st.floats(0.2, 5), st.floats(0, 0.3), st.floats(0, 0.3))
def test_rounding_never_moves_an_end_of_an_interval_onto_none(
    ratio: float, below: float, above: float
) -> None:
    """An interval that excludes no change still excludes it as written, unless its end is nearer than 0.0005 %."""
    low, high = ratio * (1 - below), ratio * (1 + above)
    if abs(low - 1) < 5e-6 or abs(high - 1) < 5e-6:
        return
    text = numbers.change(ratio, Interval(low, high, "t"), EN)
    ends = [float(end.replace("−", "-")) for end in text.split("[")[1].rstrip("]").split(",")]
    assert [end == 0 for end in ends] == [False, False]


@pytest.mark.parametrize(
    ("unit", "values", "shown"),
    [
        ("bit/s", [9.4e8, 9.5e8], "Mbit/s"),
        ("bit/s", [21e9], "Gbit/s"),
        ("ns", [2300.0], "µs"),
        ("ratio", [0.004], "%"),
        ("count", [17.0], ""),
        ("byte", [3 * 2**20], "MiB"),
        ("furlong", [1.0], "furlong"),
        ("bit/s", [], "bit/s"),
    ],
)
def test_a_column_gets_the_unit_people_read(unit: str, values: list[float], shown: str) -> None:
    """Units are scaled so that the middle figure is 1 or more; unknown ones stay."""
    assert numbers.scale("received_bps", unit, values).unit == shown


def test_an_index_is_no_percentage() -> None:
    """Jain's index is stored as a ratio but read as a plain number."""
    assert numbers.scale("fairness", "ratio", [0.98]) == numbers.Scale(1.0, "")


def test_decimal_points_stand_under_each_other() -> None:
    """Figures with fewer decimals are padded to the width of the missing ones; words are left alone."""
    assert numbers.align(["21.42", "9.8", "29", "–"], " ", " ") == ["21.42", "9.8 ", "29   ", "–"]


def test_small_probabilities_are_not_written_as_zero() -> None:
    """A p-value below 0.001 says so."""
    assert [numbers.p_value(p, EN) for p in (1e-9, 0.0123, 0.4, None)] == ["< 0.001", "0.012", "0.40", "–"]
