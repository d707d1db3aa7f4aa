"""Formatting of figures: readable units, and only digits that the interval supports.

The module only scales and rounds; it draws no conclusions.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iolab.analysis.types import Estimate, Interval
from iolab.report.locale import Words
from iolab.results.metric import LARGER

MINUS = "−"
NBSP = "\u00a0"
FIGURE_SPACE = "\u2007"
"""A space as wide as a digit."""
PUNCTUATION_SPACE = "\u2008"
"""A space as wide as a full stop."""
SHOWN_P = 0.05
"""Corrected p-value below which a difference is significant."""
MOST_DIGITS = 5
"""Maximum number of significant digits of a measured figure."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Conversion from the stored unit to the shown unit."""

    factor: float
    """Factor by which stored values are multiplied."""
    unit: str
    """The shown unit; empty for plain numbers."""


_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "bit/s": ((1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s"), (1e12, "Tbit/s")),
    "byte/s": ((1.0, "B/s"), (2.0**10, "KiB/s"), (2.0**20, "MiB/s"), (2.0**30, "GiB/s")),
    "byte": ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB")),
    "frame/s": ((1.0, "frame/s"), (1e3, "kframe/s"), (1e6, "Mframe/s")),
    "packet/s": ((1.0, "packet/s"), (1e3, "kpacket/s"), (1e6, "Mpacket/s")),
    "op/s": ((1.0, "op/s"), (1e3, "kop/s"), (1e6, "Mop/s")),
    "ns": ((1e-3, "ps"), (1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")),
    "s": ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")),
    "ratio": ((1e-2, "%"),),
}
_ONE_UNIT: dict[str, tuple[float, str]] = {
    "disk_bytes_per_s": (2.0**20, "MiB/s"),
    "disk_operations_per_s": (1.0, "op/s"),
}
"""Metrics with a fixed unit in every table and sentence, so that phases and runs are easy to compare."""
_PLAIN = frozenset({"", "1", "count", "index", "number"})
_UNITLESS_METRICS = frozenset({"fairness"})
"""Ratios that are an index and not a percentage: 0.98, not 98 %."""


def scale(metric: str, unit: str, magnitudes: Iterable[float]) -> Scale:
    """Return the unit in which the median of a column of figures is 1 or more."""
    if unit in _PLAIN or metric in _UNITLESS_METRICS:
        return Scale(1.0, "")
    if metric in _ONE_UNIT and unit in _STEPS:
        size, name = _ONE_UNIT[metric]
        return Scale(1.0 / size, name)
    steps = _STEPS.get(unit)
    if steps is None:
        return Scale(1.0, unit)
    sizes = sorted(abs(value) for value in magnitudes if value and math.isfinite(value))
    middle = sizes[len(sizes) // 2] if sizes else 0.0
    fitting = [step for step in steps if step[0] <= middle]
    base = next((step for step in steps if step[0] == 1.0), steps[0])
    size, name = fitting[-1] if fitting else (steps[0] if middle else base)
    return Scale(1.0 / size, name)


def duration(ns: int) -> str:
    """Return a configured (not measured) time as text: 100 µs."""
    by = scale("", "ns", (ns,))
    return f"{ns * by.factor:g} {by.unit}"


def decimals_for(half_width: float, value: float) -> int:
    """Return the decimals that show one significant digit of an uncertainty, or two if its first digit is 1.

    The rule follows the Particle Data Group (introduction, 5.3) and the GUM, 7.2.6.
    """
    size = abs(value)
    most = MOST_DIGITS - 1 - _exponent(size) if size else MOST_DIGITS
    if not half_width > 0 or not math.isfinite(half_width):
        return max(0, min(2 - _exponent(size), 9)) if size else 0
    lead = _exponent(half_width)
    wanted = 1 - lead if half_width / 10.0**lead < 2.0 else -lead
    return max(0, min(wanted, most, 9))


def decimals_measured(half_width: float, value: float) -> int:
    """Return the decimals of a measured figure: as many as its uncertainty supports, and at least three digits."""
    return max(decimals_for(half_width, value), decimals_for(0.0, value))


def decimals_exact(value: float) -> int:
    """Return the decimals of a configured (not measured) figure: those that the figure has, at most six."""
    return next(
        (decimals for decimals in range(6) if math.isclose(round(value, decimals), value, rel_tol=1e-9)), 6
    )


def _exponent(size: float) -> int:
    return math.floor(math.log10(size)) if size > 0 and math.isfinite(size) else 0


def fixed(value: float, decimals: int, *, signed: bool = False) -> str:
    """Return a number as text with a true minus sign; zero has no sign."""
    text = f"{value:.{decimals}f}"
    if not text.strip("-0."):
        return text.lstrip("-")
    if text.startswith("-"):
        return MINUS + text[1:]
    return f"+{text}" if signed else text


def half_width(estimate: Estimate) -> float:
    """Return half the width of the interval, or of the range of the trials; it determines the number of digits."""
    if estimate.ci is not None:
        return (estimate.ci.high - estimate.ci.low) / 2
    return (estimate.max - estimate.min) / 2


def estimate_decimals(estimate: Estimate, by: Scale) -> int:
    """Return the decimals for all figures of an estimate."""
    if estimate.unit == "count" and not estimate.mean % 1:
        return 0
    return decimals_measured(half_width(estimate) * by.factor, estimate.mean * by.factor)


def trial_decimals(value: float, by: Scale, decimals: int) -> int:
    """Return the decimals of one trial: as many as the cell's mean has, and at least three significant digits; no
    decimals for a count."""
    return max(decimals, decimals_for(0.0, value * by.factor)) if by.unit else decimals


def figure(value: float | None, by: Scale, decimals: int, words: Words) -> str:
    """Return a figure without its unit."""
    if value is None or not math.isfinite(value):
        return words.text("none")
    return fixed(value * by.factor, decimals)


def quantity(value: float | None, by: Scale, decimals: int, words: Words) -> str:
    """Return a figure with its unit."""
    text = figure(value, by, decimals, words)
    return f"{text}{NBSP}{by.unit}" if by.unit and text != words.text("none") else text


def interval(ci: Interval | None, by: Scale, words: Words) -> str:
    """Return an interval in the shown unit, with as many digits as its width supports."""
    if ci is None:
        return words.text("none")
    decimals = decimals_for((ci.high - ci.low) / 2 * by.factor, max(abs(ci.low), abs(ci.high)) * by.factor)
    low, high = figure(ci.low, by, decimals, words), figure(ci.high, by, decimals, words)
    return words.text("interval", low=low, high=high)


def percent(ratio: float, decimals: int | None = None) -> str:
    """Return a ratio as a percentage without a sign, for example the smallest detectable change."""
    size = ratio * 100
    if decimals is None:
        decimals = 0 if size >= 10 else decimals_for(size / 10, size)
        decimals = min(decimals, 1)
    return f"{fixed(size, decimals)}{NBSP}%"


def at_least(text: str, bounded: bool, words: Words) -> str:
    """Return a figure, marked if it is a lower bound: ≥ 99.5."""
    return words.text("at_least", figure=text) if bounded and text != words.text("none") else text


def mean(estimate: Estimate, by: Scale, words: Words) -> str:
    """Return the mean of an estimate without its unit; marked as a lower bound if some trials are lower bounds."""
    text = figure(estimate.mean, by, estimate_decimals(estimate, by), words)
    return at_least(text, estimate.bounds > 0, words)


def change(ratio: float | None, ci: Interval | None, words: Words) -> str:
    """Return a ratio as a signed percentage with its interval, if there is one: +41 % [38, 44]."""
    if ratio is None or not math.isfinite(ratio):
        return words.text("none")
    percent_change = (ratio - 1) * 100
    if ci is None or not (math.isfinite(ci.low) and math.isfinite(ci.high)):
        size = abs(percent_change)
        decimals = 0 if size >= 10 else 1
        return f"{fixed(percent_change, decimals, signed=True)}{NBSP}%"
    low, high = (ci.low - 1) * 100, (ci.high - 1) * 100
    decimals = min(decimals_for((high - low) / 2, 0.0), 2)
    bounds = words.text("interval", low=_end(low, decimals), high=_end(high, decimals))
    return f"{fixed(percent_change, decimals, signed=True)}{NBSP}% {bounds}"


def judged(text: str, ratio: float | None, better: str, words: Words) -> str:
    """Return a change with the note "better" or "worse"; without the note if `better` is empty."""
    if not better or ratio is None or ratio == 1:
        return text
    return words.text("better" if (ratio > 1) == (better == LARGER) else "worse", change=text)


def is_shown(p_value: float | None) -> bool:
    """Whether a difference is significant according to its corrected p-value; None: there is no p-value."""
    return p_value is not None and p_value < SHOWN_P


def judged_estimate(estimate: Estimate, words: Words) -> str:
    """Return the change of an estimate against the baseline, with the note "better" or "worse" if the change is
    significant."""
    text = change(estimate.ratio, estimate.ratio_ci, words)
    return judged(text, estimate.ratio, estimate.better if is_shown(estimate.p_value) else "", words)


def directed(text: str, better: str, words: Words) -> str:
    """Return a metric's name with a note that says whether higher or lower is better; without the note if `better` is
    empty."""
    if not better:
        return text
    return words.text("larger_is_better" if better == LARGER else "smaller_is_better", metric=text)


def _end(value: float, decimals: int) -> str:
    """Return an endpoint of an interval as text; a non-zero endpoint that would be rounded to zero is written as < 0 or
    > 0."""
    text = fixed(value, decimals)
    if value and not float(f"{value:.{decimals}f}"):
        return f"{'>' if value > 0 else '<'}{NBSP}{text}"
    return text


def p_value(p: float | None, words: Words) -> str:
    """Return a p-value as text, never as 0 and without excess digits."""
    if p is None or not math.isfinite(p):
        return words.text("none")
    if p < 0.001:
        return "< 0.001"
    return fixed(p, 3 if p < 0.1 else 2)


def align(texts: Sequence[str], digit: str = FIGURE_SPACE, point: str = PUNCTUATION_SPACE) -> list[str]:
    """Pad the figures of a column on the right so that their decimal points are aligned."""
    longest = max((_fraction(text) for text in texts), default=0)
    return [
        text + _padding(longest, _fraction(text), digit, point) if _is_number(text) else text
        for text in texts
    ]


def _is_number(text: str) -> bool:
    return text[-1:].isdigit()


def _fraction(text: str) -> int:
    whole, dot, rest = text.rpartition(".")
    return len(rest) if dot and whole and rest.isdigit() else 0


def _padding(longest: int, own: int, digit: str, point: str) -> str:
    return digit * (longest - own) + (point if longest and not own else "")
