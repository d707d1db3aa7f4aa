"""How figures are written: units people read, and never more digits than the interval supports.

Unit scaling and rounding only; nothing here concludes anything.
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
"""As wide as a digit."""
PUNCTUATION_SPACE = "\u2008"
"""As wide as a full stop."""
SHOWN_P = 0.05
"""Corrected p-value below which a difference counts as shown."""
MOST_DIGITS = 5
"""Significant digits beyond which a measured figure is only noise to a reader."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From the stored unit to the one shown."""

    factor: float
    """What a stored value is multiplied by."""
    unit: str
    """As shown; empty for plain numbers."""


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
"""Metrics that have one unit in every table and sentence, so that phases and runs can be read side by side."""
_PLAIN = frozenset({"", "1", "count", "index", "number"})
_UNITLESS_METRICS = frozenset({"fairness"})
"""Ratios that are an index, not a share: read as 0.98, not as 98 %."""


def scale(metric: str, unit: str, magnitudes: Iterable[float]) -> Scale:
    """Choose the unit in which a column of figures is read best: its middle figure is 1 or more."""
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
    """Write a time that was chosen, not measured: 100 µs."""
    by = scale("", "ns", (ns,))
    return f"{ns * by.factor:g} {by.unit}"


def decimals_for(half_width: float, value: float) -> int:
    """How many decimals an uncertainty supports: one digit of it, two where it begins with 1.

    Follows the rounding of the Particle Data Group (introduction, 5.3) in the spirit of the GUM, 7.2.6.
    """
    size = abs(value)
    most = MOST_DIGITS - 1 - _exponent(size) if size else MOST_DIGITS
    if not half_width > 0 or not math.isfinite(half_width):
        return max(0, min(2 - _exponent(size), 9)) if size else 0
    lead = _exponent(half_width)
    wanted = 1 - lead if half_width / 10.0**lead < 2.0 else -lead
    return max(0, min(wanted, most, 9))


def decimals_measured(half_width: float, value: float) -> int:
    """Decimals of a measured figure: as many as its uncertainty supports, and three digits at least."""
    return max(decimals_for(half_width, value), decimals_for(0.0, value))


def decimals_exact(value: float) -> int:
    """Decimals of a figure that was chosen, not measured: as many as it has, within reason."""
    return next(
        (decimals for decimals in range(6) if math.isclose(round(value, decimals), value, rel_tol=1e-9)), 6
    )


def _exponent(size: float) -> int:
    return math.floor(math.log10(size)) if size > 0 and math.isfinite(size) else 0


def fixed(value: float, decimals: int, *, signed: bool = False) -> str:
    """Write a number with a real minus sign; a zero has no sign."""
    text = f"{value:.{decimals}f}"
    if not text.strip("-0."):
        return text.lstrip("-")
    if text.startswith("-"):
        return MINUS + text[1:]
    return f"+{text}" if signed else text


def half_width(estimate: Estimate) -> float:
    """What the digits of an estimate's figures are chosen by: its interval, else the spread of its trials."""
    if estimate.ci is not None:
        return (estimate.ci.high - estimate.ci.low) / 2
    return (estimate.max - estimate.min) / 2


def estimate_decimals(estimate: Estimate, by: Scale) -> int:
    """Decimals for every figure of one estimate."""
    if estimate.unit == "count" and not estimate.mean % 1:
        return 0
    return decimals_measured(half_width(estimate) * by.factor, estimate.mean * by.factor)


def trial_decimals(value: float, by: Scale, decimals: int) -> int:
    """Decimals of a single trial: as many as its cell's mean has, and three digits at least; a count has none."""
    return max(decimals, decimals_for(0.0, value * by.factor)) if by.unit else decimals


def figure(value: float | None, by: Scale, decimals: int, words: Words) -> str:
    """One figure without its unit."""
    if value is None or not math.isfinite(value):
        return words.text("none")
    return fixed(value * by.factor, decimals)


def quantity(value: float | None, by: Scale, decimals: int, words: Words) -> str:
    """One figure with its unit."""
    text = figure(value, by, decimals, words)
    return f"{text}{NBSP}{by.unit}" if by.unit and text != words.text("none") else text


def interval(ci: Interval | None, by: Scale, words: Words) -> str:
    """An interval in the shown unit, with as many digits as its width deserves."""
    if ci is None:
        return words.text("none")
    decimals = decimals_for((ci.high - ci.low) / 2 * by.factor, max(abs(ci.low), abs(ci.high)) * by.factor)
    low, high = figure(ci.low, by, decimals, words), figure(ci.high, by, decimals, words)
    return words.text("interval", low=low, high=high)


def percent(ratio: float, decimals: int | None = None) -> str:
    """A size in percent without a sign, e.g. the smallest detectable change."""
    size = ratio * 100
    if decimals is None:
        decimals = 0 if size >= 10 else decimals_for(size / 10, size)
        decimals = min(decimals, 1)
    return f"{fixed(size, decimals)}{NBSP}%"


def at_least(text: str, bounded: bool, words: Words) -> str:
    """Mark a figure that is only a lower bound: ≥ 99.5."""
    return words.text("at_least", figure=text) if bounded and text != words.text("none") else text


def mean(estimate: Estimate, by: Scale, words: Words) -> str:
    """The mean of an estimate without its unit; at least that much, where some trials have only a lower bound."""
    text = figure(estimate.mean, by, estimate_decimals(estimate, by), words)
    return at_least(text, estimate.bounds > 0, words)


def change(ratio: float | None, ci: Interval | None, words: Words) -> str:
    """A ratio as a percent change with its sign, and its interval where there is one: +41 % [38, 44]."""
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
    """Say beside a change whether it is for the better; `better` is empty where that is not known."""
    if not better or ratio is None or ratio == 1:
        return text
    return words.text("better" if (ratio > 1) == (better == LARGER) else "worse", change=text)


def is_shown(p_value: float | None) -> bool:
    """Tell whether a difference counts as shown, by its corrected p-value; None: there is none."""
    return p_value is not None and p_value < SHOWN_P


def judged_estimate(estimate: Estimate, words: Words) -> str:
    """The change of an estimate against the baseline, and whether it is for the better where a difference is shown."""
    text = change(estimate.ratio, estimate.ratio_ci, words)
    return judged(text, estimate.ratio, estimate.better if is_shown(estimate.p_value) else "", words)


def directed(text: str, better: str, words: Words) -> str:
    """Say beside a metric's name which of two values is the better one; `better` is empty where that is not known."""
    if not better:
        return text
    return words.text("larger_is_better" if better == LARGER else "smaller_is_better", metric=text)


def _end(value: float, decimals: int) -> str:
    """An end of an interval; one that would be rounded onto zero says on which side of it it is."""
    text = fixed(value, decimals)
    if value and not float(f"{value:.{decimals}f}"):
        return f"{'>' if value > 0 else '<'}{NBSP}{text}"
    return text


def p_value(p: float | None, words: Words) -> str:
    """A probability: no zero, no false precision."""
    if p is None or not math.isfinite(p):
        return words.text("none")
    if p < 0.001:
        return "< 0.001"
    return fixed(p, 3 if p < 0.1 else 2)


def align(texts: Sequence[str], digit: str = FIGURE_SPACE, point: str = PUNCTUATION_SPACE) -> list[str]:
    """Pad figures of one column on the right so that their decimal points stand under each other."""
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
