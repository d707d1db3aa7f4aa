"""State the results of an experiment's expectations, as sentences and as JSON."""

import math
from collections.abc import Mapping, Sequence

from iolab.analysis.expectations import Judged
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.report.names import Names

INTERVAL_DIGITS = 4
"""Significant digits of ratios and bounds."""


def lines(judged: Sequence[Judged], names: Names) -> list[str]:
    """Return a sentence per expectation and cell."""
    return [_line(one, names) for one in judged]


def _line(one: Judged, names: Names) -> str:
    words = names.words
    cell = names.cell(one.cell)
    return words.text(
        "expect.line",
        result=words.name("expect.results", one.result.value),
        what=_what(one, names),
        where=words.text("expect.where", cell=cell) if cell else "",
        seen=_seen(one, words),
    )


def _what(one: Judged, names: Names) -> str:
    """Return the expected result in words."""
    words, wanted = names.words, one.expectation
    if wanted.verdicts:
        limits = words.listed(wanted.verdicts)
        return words.text("expect.limit", measure=names.measure(wanted.measure), limits=limits)
    figure = (
        names.measured(wanted.measure, one.metric)
        if one.metric is not None
        else names.measure(wanted.measure)
    )
    if wanted.ratio is not None:
        ratio = wanted.ratio
        above, below = (names.level(ratio.factor, label) for label in (ratio.above, ratio.below))
        figure = words.text("expect.ratio", figure=figure, above=above, below=below)
    if wanted.equivalent is not None:
        margin = numbers.percent(1 + wanted.equivalent).lstrip("+")
        return words.text("expect.equivalent", figure=figure, margin=margin)
    unit = wanted.unit or one.unit
    low, high = (
        value if value is None else _value(value, one, unit, words) for value in (wanted.min, wanted.max)
    )
    if low is not None and high is not None:
        return words.text("expect.within", figure=figure, min=low, max=high)
    return (
        words.text("expect.at_most", figure=figure, max=high)
        if low is None
        else words.text("expect.at_least", figure=figure, min=low)
    )


def _seen(one: Judged, words: Words) -> str:
    """Return the evidence for the result, and how many more blocks are needed."""
    if one.expectation.verdicts and one.blocks:
        limits = words.listed(one.verdicts) if one.verdicts else words.text("expect.no_limit")
        return words.text("expect.limits_seen", limits=limits, count=one.blocks)
    if not one.blocks:
        return words.text("expect.no_trials")
    if one.low == 0.0 and math.isinf(one.high):
        seen = words.text("expect.no_interval", count=one.blocks)
    else:
        low = _value(one.low, one, one.unit, words)
        high = (
            words.text("expect.unbounded") if math.isinf(one.high) else _value(one.high, one, one.unit, words)
        )
        seen = words.text("expect.interval", low=low, high=high, count=one.blocks)
    if one.expectation.unit not in ("", one.unit):
        return words.text("expect.other_unit", seen=seen, unit=one.unit, expected=one.expectation.unit)
    return seen if one.needed is None else words.text("expect.needed", seen=seen, count=one.needed)


def _value(value: float, one: Judged, unit: str, words: Words) -> str:
    if unit in ("ratio", "") or one.metric is None:
        return f"{value:.{INTERVAL_DIGITS}g}"
    by = numbers.scale(one.metric.name, unit, [value])
    return numbers.quantity(value, by, numbers.decimals_for(value / 10**INTERVAL_DIGITS, value), words)


def document(judged: Sequence[Judged]) -> list[Mapping[str, object]]:
    """Return the results as plain JSON data."""
    return [
        {
            "line": one.expectation.line,
            "measure": one.expectation.measure,
            "metric": None if one.metric is None else one.metric.name,
            "dimensions": {} if one.metric is None else one.metric.dimensions.known(),
            "cell": dict(one.cell),
            "ratio": _ratio(one),
            "min": one.expectation.min,
            "max": one.expectation.max,
            "equivalent": one.expectation.equivalent,
            "verdict": list(one.expectation.verdicts),
            "result": one.result.value,
            "unit": one.unit,
            "interval": [one.low, one.high if math.isfinite(one.high) else None],
            "blocks": one.blocks,
            "blocks_needed": one.needed,
            "limits": list(one.verdicts),
        }
        for one in judged
    ]


def _ratio(one: Judged) -> Mapping[str, list[str]] | None:
    ratio = one.expectation.ratio
    return None if ratio is None else {ratio.factor: [ratio.above, ratio.below]}
