"""Quantities: parsed exactly; shown rounded."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab import units

Parse = Callable[[object], float]
SIZES = {
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
RATES = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}
TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128K", 131072),
        ("1G", 2**30),
        ("32MiB", 2**25),
        ("1.5G", 3 * 2**29),
        (4096, 4096),
        ("4096", 4096),
        ("0", 0),
    ],
)
def test_size_units_are_binary(text: object, expected: int) -> None:
    """Read 128K as 131072 bytes, however it is spelled."""
    assert units.parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000Mbit", 10**9),
        ("1Gbit", 10**9),
        ("64kbit", 64_000),
        ("600mbit", 6 * 10**8),
        (9600, 9600),
        ("941 Mbit/s", 941_000_000),
    ],
)
def test_bit_rate_units_are_decimal(text: object, expected: int) -> None:
    """Read 1000Mbit and 1Gbit as the same rate."""
    assert units.parse_bits_per_second(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12us", 12_000),
        ("12µs", 12_000),
        ("114.36ms", 114_360_000),
        ("10s", 10**10),
        ("1min", 6 * 10**10),
        (0, 0),
    ],
)
def test_duration_is_parsed_to_nanoseconds(text: object, expected: int) -> None:
    """Keep durations in whole nanoseconds."""
    assert units.parse_nanoseconds(text) == expected


def test_ratio_may_be_a_percentage() -> None:
    """Read 0.01% and 0.0001 as the same ratio."""
    assert units.parse_ratio("0.01%") == units.parse_ratio(0.0001) == units.parse_ratio("0.0001") == 0.0001


@pytest.mark.parametrize(
    ("parse", "text", "advice"),
    [
        (units.parse_nanoseconds, 10, "did you mean 10s?"),
        (units.parse_nanoseconds, "10S", "did you mean 10s?"),
        (units.parse_bytes, "1MB", "write 1M"),
        (units.parse_bytes, "1Gbit", "not a bit rate"),
        (units.parse_bytes, "0.3K", "not a whole number"),
        (units.parse_bytes, "1.000000000000000000000000000001K", "not a whole number"),
        (units.parse_bits_per_second, "1Gbps", "did you mean 1Gbit?"),
        (units.parse_bits_per_second, "10M", "did you mean 10Mbit?"),
        (units.parse_ratio, 5, "did you mean 5%?"),
    ],
)
def test_wrong_unit_is_refused_with_the_nearest_valid_unit(parse: Parse, text: object, advice: str) -> None:
    """Name the nearest valid spelling."""
    with pytest.raises(units.UnitError, match=advice.replace("?", r"\?")):
        parse(text)


@pytest.mark.parametrize(
    "parse", [units.parse_bytes, units.parse_bits_per_second, units.parse_nanoseconds, units.parse_ratio]
)
@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        [],
        {},
        [10**5000],
        -1,
        "-1s",
        "",
        " ",
        "K",
        "s",
        "1e3s",
        "nan",
        float("nan"),
        float("inf"),
        "1_000s",
        "٣s",
        "1 2s",
        "9" * 31 + "s",
        "9" * 10**6,
        pytest.param(10**5000, id="5000 digits"),
    ],
    ids=lambda value: "list" if isinstance(value, list) else repr(value)[:20],
)
def test_invalid_quantity_is_refused_with_the_allowed_values(parse: Parse, value: object) -> None:
    """Raise UnitError for every invalid value."""
    with pytest.raises(units.UnitError) as caught:
        parse(value)
    assert caught.value.allowed
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("parse", "table"),
    [(units.parse_bytes, SIZES), (units.parse_bits_per_second, RATES), (units.parse_nanoseconds, TIMES)],
)
@given(data=st.data())
def test_quantities_are_parsed_without_rounding(
    parse: Parse, table: dict[str, int], data: st.DataObject
) -> None:
    """Compute number x unit without binary fractions, for every number that gives a whole amount."""
    unit = data.draw(st.sampled_from(sorted(table)))
    amount = data.draw(st.integers(0, units.LARGEST // table[unit])) * table[unit]
    tenths = data.draw(st.integers(0, 9)) * table[unit] // 10 if table[unit] % 10 == 0 else 0
    amount = min(amount + tenths, units.LARGEST // table[unit] * table[unit])
    written = Decimal(amount) / table[unit]
    assert parse(f"{written:f}{unit}") == amount


@given(st.integers(0, units.LARGEST), st.sampled_from([1, 1000, 1024, 10**9, 2**30]))
def test_written_quantity_is_read_back_exactly(number: int, scale: int) -> None:
    """Write the exact form, in the largest unit that leaves a whole number."""
    value = min(number * scale, units.LARGEST)
    assert units.parse_bytes(units.write_bytes(value)) == value
    assert units.parse_bits_per_second(units.write_bits_per_second(value)) == value
    assert units.parse_nanoseconds(units.write_nanoseconds(value)) == value


@given(st.floats(0, 1))
def test_written_ratio_is_read_back_exactly(value: float) -> None:
    """Allow at most 30 digits after the point."""
    written = units.write_ratio(value)
    assert len(written) > 32 or units.parse_ratio(written) == value


@given(st.integers(1, 10**15), st.integers(1, 10**15))
def test_formatting_preserves_the_order_of_rates(one: int, other: int) -> None:
    """Never show a larger rate as a smaller one."""
    low, high = sorted((one, other))
    assert units.parse_bits_per_second(units.format_bits_per_second(low)) <= units.parse_bits_per_second(
        units.format_bits_per_second(high)
    )


@given(st.integers(1, 10**15))
def test_formatted_quantity_is_read_back_within_its_digits(value: int) -> None:
    """Show three significant digits (half a percent), in a unit of the language."""
    assert units.parse_bits_per_second(units.format_bits_per_second(value)) == pytest.approx(
        value, rel=0.0051, abs=1
    )
    number, unit = units.format_bytes(value).split()
    assert float(number) * (SIZES | {"B": 1})[unit] == pytest.approx(value, rel=0.0051)
    assert units.parse_nanoseconds(units.format_nanoseconds(value)) == pytest.approx(value, rel=0.0051, abs=1)


def test_durations_are_shown_in_at_most_two_units() -> None:
    """Show seconds, minutes or hours, never a fraction of a minute."""
    shown = [units.format_duration(seconds * 10**9) for seconds in (0, 12, 185, 7800)]
    assert shown == ["0 s", "12 s", "3 min 5 s", "2 h 10 min"]
    assert units.format_duration(59_600_000_000) == "1 min 0 s"
    assert units.format_duration(400_000_000) == "0.4 s"
