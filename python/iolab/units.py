"""Parse and format quantities: "128K" is 131072 bytes, "1Gbit" is 10^9 bit/s, "12us" is 12000 ns.

Parsing is exact (integers and `Decimal`, never binary fractions). Sizes are binary (K = 1024 bytes), bit rates are
decimal (k = 1000 bit/s), durations always have a unit. Formatting rounds to a few digits, for people only.
"""

import re
from decimal import Context, Decimal

from iolab.locale import ENGLISH, Phrase, Text, say

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
ETHERNET_HEADER_BYTES = 14
"""Length of an Ethernet header without a VLAN tag: both addresses and the type (IEEE 802.3)."""
LARGEST = 2**63 - 1
"""Maximum quantity: the largest signed 64-bit integer, which all languages that read iolab's files can represent."""

_EXACT = Context(prec=100)
"""Precision that is sufficient for the product of any valid number and any unit: 30 + 30 + 13 decimal digits."""

_NUMBER = re.compile(r"(?P<number>\d{1,30}(?:\.\d{1,30})?)\s?(?P<unit>[^\d\s.,]*)", re.ASCII)

_BYTES = {"": 1, "b": 1} | {
    spelling: 1024**power
    for power, letter in enumerate("kmgt", start=1)
    for spelling in (letter, f"{letter}ib")
}
_BITS_PER_SECOND = {"": 1} | {
    f"{letter}bit{per}": 1000**power
    for power, letter in enumerate(("", "k", "m", "g", "t"))
    for per in ("", "/s")
}
_NANOSECONDS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip

_FRAME_RATES = {
    **{f"{letter}pps": (1000**power, "pps") for power, letter in enumerate(("", "k", "M", "G"))},
    **{unit: (factor, "bit") for unit, factor in _BITS_PER_SECOND.items() if unit},
    "%": (1, "%"),
}  # fmt: skip

BYTES_ALLOWED = Phrase("units.whole-number-of-bytes")
BITS_PER_SECOND_ALLOWED = Phrase("units.bit-rate")
NANOSECONDS_ALLOWED = Phrase("units.duration-with-unit")
RATIO_ALLOWED = Phrase("units.ratio")
MOST_BARE_RATIO = Decimal("0.5")
"""Maximum ratio without a unit, because some users read "1" as 100 %, but users of netem read it as 1 %."""
SHARE_ALLOWED = Phrase("units.share")
FRAME_RATE_ALLOWED = Phrase("units.frame-rate")


class UnitError(ValueError):
    """An invalid quantity; the error has the valid values and, if it can be guessed, the intended value."""

    def __init__(self, seen: object, allowed: Text, advice: Text = "") -> None:
        self.allowed = allowed
        """Description of valid values."""
        self.advice = advice
        """What to write instead; may be empty."""
        text = str(seen)[:60] if isinstance(seen, str | int | float | Phrase) else type(seen).__name__
        problem = Phrase("units.unreadable", seen=repr(text), allowed=allowed)
        super().__init__(Phrase("errors.with-advice", problem=problem, advice=advice) if advice else problem)

    def say(self, language: str = ENGLISH) -> str:
        """Return the error message in a language."""
        return say(self.args[0], language)


def parse_bytes(value: object) -> int:
    """Return a size in bytes: 131072, "128K", "128KiB", "1.5G"."""
    number, unit = _split(value, BYTES_ALLOWED)
    if unit.lower() not in _BYTES:
        raise UnitError(value, BYTES_ALLOWED, _bytes_advice(number, unit))
    return _whole(value, _EXACT.multiply(number, _BYTES[unit.lower()]), BYTES_ALLOWED)


def parse_bits_per_second(value: object) -> int:
    """Return a bit rate in bit/s: 64000, "64kbit", "1000Mbit", "941 Mbit/s"."""
    number, unit = _split(value, BITS_PER_SECOND_ALLOWED)
    if unit.lower() not in _BITS_PER_SECOND:
        raise UnitError(value, BITS_PER_SECOND_ALLOWED, _rate_advice(number, unit))
    return _whole(value, _EXACT.multiply(number, _BITS_PER_SECOND[unit.lower()]), BITS_PER_SECOND_ALLOWED)


def parse_nanoseconds(value: object, meant: tuple[str, ...] = ("s",)) -> int:
    """Return a duration in ns: "12us", "114.36ms", "10s", "1min". A number other than 0 without a unit is invalid.

    `meant` lists the units that the error message suggests for a number without a unit.
    """
    number, unit = _split(value, NANOSECONDS_ALLOWED)
    if not unit and not number:
        return 0
    if unit not in _NANOSECONDS:
        guess = (
            unit.lower()
            if unit.lower() in _NANOSECONDS
            else {"sec": "s", "m": "min", "hour": "h"}.get(unit, "")
        )
        likely = (guess,) if guess else () if unit else meant
        advice = (
            Phrase("units.did-you-mean-any", words=[_plain(number) + one for one in likely]) if likely else ""
        )
        raise UnitError(value, NANOSECONDS_ALLOWED, advice)
    return _whole(value, _EXACT.multiply(number, _NANOSECONDS[unit]), NANOSECONDS_ALLOWED)


def parse_ratio(value: object) -> float:
    """Return a ratio from 0 to 1: 0.0001, "0.01%". A number above 0.5 without a unit is ambiguous and thus invalid."""
    number, unit = _ratio(value)
    if not unit and number > MOST_BARE_RATIO:
        spellings = [f"{_plain(number)}%"]
        if number <= 1:
            spellings.append(f"{_plain(_percent(number))}%")
        advice = Phrase("units.did-you-mean-any", words=spellings) if number <= 100 else ""
        raise UnitError(value, RATIO_ALLOWED, advice)
    return float(number / 100 if unit else number)


def parse_stored_ratio(value: object) -> float:
    """Return a ratio from a run of an older version, in which numbers above 0.5 without a unit are valid."""
    number, unit = _ratio(value)
    if not unit and number > 1:
        raise UnitError(value, RATIO_ALLOWED)
    return float(number / 100 if unit else number)


def _ratio(value: object) -> tuple[Decimal, str]:
    number, unit = _split(value, RATIO_ALLOWED)
    if unit not in ("", "%") or (unit and number > 100):
        raise UnitError(value, RATIO_ALLOWED)
    return number, unit


def _percent(ratio: Decimal) -> Decimal:
    """Return a ratio in percent, without trailing zeros."""
    percent = (ratio * 100).normalize(_EXACT)
    return percent.quantize(Decimal(1)) if percent == percent.to_integral() else percent


def parse_share(value: object) -> float:
    """Return a ratio of a rate: 0.5, "50%", "120%"."""
    if isinstance(value, float) and value == value and 0 <= value <= 2:
        return value
    number, unit = _split(value, SHARE_ALLOWED)
    share = number / 100 if unit else number
    if unit not in ("", "%") or share > 2:
        advice = (
            Phrase("units.did-you-mean-percent", plain=_plain(number)) if not unit and number <= 200 else ""
        )
        raise UnitError(value, SHARE_ALLOWED, advice)
    return float(share)


def parse_frame_rate(value: object) -> str:
    """Return a load in canonical spelling: "100kpps" as "100000pps", "1Gbit" as "1000000000bit", "10%" unchanged."""
    number, unit = _split(value, FRAME_RATE_ALLOWED)
    unit = unit.lower() if unit.lower() in _BITS_PER_SECOND else unit
    if not number or unit not in _FRAME_RATES:
        advice = Phrase("units.did-you-mean-pps", plain=_plain(number)) if not unit else ""
        raise UnitError(value, FRAME_RATE_ALLOWED, advice)
    factor, plain = _FRAME_RATES[unit]
    amount = _EXACT.multiply(number, factor)
    if amount > LARGEST:
        raise UnitError(value, FRAME_RATE_ALLOWED, Phrase("units.at-most", most=LARGEST))
    return f"{_plain(amount.normalize() + 0)}{plain}"


def split_frame_rate(text: str) -> tuple[float, str]:
    """Return the number and the unit ("pps", "bit" or "%") of a load in the spelling of `parse_frame_rate`."""
    number, unit = _split(text, FRAME_RATE_ALLOWED)
    return float(number), unit


def write_bytes(value: int) -> str:
    """Return a size exactly, in file syntax: 512M."""
    return _written(value, {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40})


def write_bits_per_second(value: int) -> str:
    """Return a bit rate exactly, in file syntax: 1Gbit."""
    return _written(value, {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12})


def write_nanoseconds(value: int) -> str:
    """Return a duration exactly, in file syntax: 10s."""
    return _written(value, {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9})


def write_ratio(value: float) -> str:
    """Return a ratio exactly, in file syntax: 0.0001, 70%."""
    exact = Decimal(repr(value))
    if exact > MOST_BARE_RATIO:
        return f"{_plain(_percent(exact))}%"
    return _plain(exact) if value else "0"


def format_bits_per_second(value: float, digits: int = 3) -> str:
    """Return a bit rate for people: 941 Mbit/s."""
    return _scaled(value, digits, 1000, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"))


def format_bytes(value: float, digits: int = 3) -> str:
    """Return a size for people: 128 KiB."""
    return _scaled(value, digits, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def format_bytes_per_second(value: float, digits: int = 3) -> str:
    """Return a storage data rate for people, in the unit of reports: 44.5 MiB/s."""
    return f"{_rounded(value / (1 << 20), digits)} MiB/s"


def format_frames_per_second(value: float, digits: int = 3) -> str:
    """Return a frame rate for people: 1.49 Mframe/s."""
    return _scaled(value, digits, 1000, ("frame/s", "kframe/s", "Mframe/s", "Gframe/s"))


def format_nanoseconds(value: float, digits: int = 3) -> str:
    """Return a measured time for people: 12.3 µs."""
    return _scaled(value, digits, 1000, ("ns", "µs", "ms", "s"))


def format_duration(value_ns: int) -> str:
    """Return a waiting time for people: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min."""
    if value_ns < 10**10:
        return f"{_rounded(value_ns / 1e9, 2)} s"
    seconds = round(value_ns / 1e9)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def format_ratio(value: float, digits: int = 3) -> str:
    """Return a ratio in percent for people: 0.0123 is 1.23 %."""
    return f"{_rounded(value * 100, digits)} %"


def format_count(value: float, digits: int = 4) -> str:
    """Return a count for people: whole numbers in full, with thin spaces between groups of digits; other numbers are
    rounded."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f")
    return _rounded(value, digits)


def _split(value: object, allowed: Text) -> tuple[Decimal, str]:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UnitError(value, allowed)
    if isinstance(value, int):
        if not 0 <= value <= LARGEST:  # checked before str(), which refuses integers of more than 4300 digits
            raise UnitError(
                Phrase("units.number-out-of-range"), allowed, Phrase("units.from-zero-to", largest=LARGEST)
            )
        return Decimal(value), ""
    if isinstance(value, float):
        if not 0 <= value <= LARGEST:
            raise UnitError(value, allowed)
        return Decimal(repr(value)), ""
    found = _NUMBER.fullmatch(value.strip()) if len(value) <= 80 else None
    if found is None:
        raise UnitError(value, allowed)
    return Decimal(found["number"]), found["unit"]


def _whole(value: object, amount: Decimal, allowed: Text) -> int:
    whole = int(amount)
    if whole != amount:
        raise UnitError(value, allowed, Phrase("units.no-multiple-of-smallest-unit"))
    if whole > LARGEST:
        raise UnitError(value, allowed, Phrase("units.at-most", most=LARGEST))
    return whole


def _bytes_advice(number: Decimal, unit: str) -> Text:
    if unit.lower() in ("kb", "mb", "gb", "tb"):
        return Phrase("units.unit-has-two-meanings", unit=unit, plain=_plain(number), upper=unit[0].upper())
    if "bit" in unit.lower():
        return Phrase("units.size-not-bit-rate")
    return ""


def _rate_advice(number: Decimal, unit: str) -> Text:
    letter = unit[:1] if unit[:1].lower() in ("k", "m", "g", "t") else ""
    if not (letter or unit.lower() in ("b", "bps", "b/s")):
        return ""
    letter = "k" if letter in ("k", "K") else letter.upper()
    return Phrase("units.did-you-mean-bit", plain=_plain(number), letter=letter)


def _written(value: int, table: dict[str, int]) -> str:
    """Return a number in the largest unit in which the number is an integer."""
    unit = (
        max((unit for unit in table if value % table[unit] == 0), key=lambda unit: table[unit])
        if value
        else ""
    )
    return f"{value // table[unit]}{unit}" if value else "0"


def _plain(number: Decimal) -> str:
    return f"{number:f}"


def _scaled(value: float, digits: int, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while power + 1 < len(units) and float(_rounded(abs(value) / base**power, digits)) >= base:
        power += 1
    return f"{_rounded(value / base**power, digits)} {units[power]}"


def _rounded(value: float, digits: int) -> str:
    """Return a number rounded to significant digits, with all digits before the decimal point and no exponent."""
    if value == 0 or value != value or abs(value) == float("inf"):
        return "0" if value == 0 else str(value)
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    places = max(0, digits - 1 - exact.adjusted())
    text = f"{exact:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
