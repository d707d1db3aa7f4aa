"""Number formats."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.analysis.types import Interval
from iolab.report import numbers
from iolab.report.locale import EN


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
def test_number_of_decimals_follows_the_uncertainty(half_width: float, value: float, decimals: int) -> None:
    """Round an uncertainty to one digit, or two if it begins with 1; use three digits without one."""
    assert numbers.decimals_for(half_width, value) == decimals


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (1.41, 1.38, 1.44, "+41\u00a0% [38, 44]"),
        (0.88, 0.85, 0.91, "−12\u00a0% [−15, −9]"),
        (1.004, 0.979, 1.029, "0\u00a0% [−2, 3]"),
        (1.014, 1.002, 1.026, "+1.4\u00a0% [0.2, 2.6]"),
        (1.03, 1.004, 1.056, "+3\u00a0% [>\u00a00, 6]"),
        (1.0, 1.0, 1.0, "0\u00a0% [0, 0]"),
    ],
)
def test_change_is_written_with_a_sign_and_an_interval(
    ratio: float, low: float, high: float, text: str
) -> None:
    """Write a ratio as a percentage change; round no end of the interval to zero."""
    assert numbers.change(ratio, Interval(low, high, "t"), EN) == text


def test_change_without_an_interval_has_few_digits() -> None:
    """Round a large change to whole percent, and a small one to one decimal."""
    assert numbers.change(1.4132, None, EN) == "+41\u00a0%"
    assert numbers.change(0.9712, None, EN) == "−2.9\u00a0%"
    assert numbers.change(None, None, EN) == "–"
    assert numbers.change(math.inf, None, EN) == "–"


@given(st.floats(0.2, 5), st.floats(0, 0.3), st.floats(0, 0.3))
def test_rounded_interval_includes_zero_only_if_the_exact_interval_does(
    ratio: float, below: float, above: float
) -> None:
    """Mark the side of an end that rounds to zero."""
    low, high = ratio * (1 - below), ratio * (1 + above)
    ends = numbers.change(ratio, Interval(low, high, "t"), EN).split("[")[1].rstrip("]").split(",")
    for end, value in zip(ends, (low, high), strict=True):
        written = end.strip().replace("−", "-")
        if written.lstrip("<>\u00a0") == "0" or not float(written.lstrip("<>\u00a0")):
            assert written[0] == (">" if value > 1 else "<" if value < 1 else written[0])
        else:
            assert (float(written) > 0) == (value > 1)


def test_interval_is_rounded_to_significant_digits() -> None:
    """Avoid +7.497 % [0.001, 15.554]."""
    text = numbers.change(1.07497, Interval(1.00001, 1.15554, "t"), EN)
    assert text == "+7\u00a0% [>\u00a00, 16]"


def test_measured_values_keep_three_digits() -> None:
    """Keep 4.22 to 14.9 apart, however wide the interval, which has separate digits."""
    assert numbers.decimals_measured(5.3, 9.41) == 2
    by = numbers.Scale(1.0, "Gbit/s")
    assert numbers.interval(Interval(4.1, 14.7, "t"), by, EN) == "[4, 15]"


def test_value_of_a_trial_far_below_the_mean_keeps_three_digits() -> None:
    """Avoid 8 for the 8.12 of 8.12 and 212, mean 107."""
    by = numbers.Scale(1e-6, "Mbit/s")
    assert [numbers.trial_decimals(value, by, 0) for value in (8.12e6, 107e6, 212e6)] == [2, 0, 0]
    assert numbers.trial_decimals(3.0, numbers.Scale(1.0, ""), 0) == 0


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
def test_column_unit_is_scaled_to_its_values(unit: str, values: list[float], shown: str) -> None:
    """Scale units so that the middle figure is 1 or more; keep unknown units."""
    assert numbers.scale("received_bps", unit, values).unit == shown


def test_fairness_index_is_not_written_as_a_percentage() -> None:
    """Write Jain's index, stored as a ratio, as a plain number."""
    assert numbers.scale("fairness", "ratio", [0.98]) == numbers.Scale(1.0, "")


def test_decimal_points_in_a_column_are_aligned() -> None:
    """Pad figures with fewer decimals; leave words unchanged."""
    assert numbers.align(["21.42", "9.8", "29", "–"], " ", " ") == ["21.42", "9.8 ", "29   ", "–"]


def test_p_value_below_0_001_is_not_written_as_zero() -> None:
    """Write "< 0.001"."""
    assert [numbers.p_value(p, EN) for p in (1e-9, 0.0123, 0.4, None)] == ["< 0.001", "0.012", "0.40", "–"]
