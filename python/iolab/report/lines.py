"""Line charts of sweeps (frame size, MTU, window): a line per combination of the levels of the other factors, in few
panels."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from iolab import units
from iolab.analysis.types import CellKey, Estimate, cell_key, cells_of
from iolab.report import axes, numbers, panels
from iolab.report.names import Names
from iolab.report.panels import Chart, Line, Panel, Row, Trials, domain, ends, finite
from iolab.report.selection import Shown, weights
from iolab.report.tables import head
from iolab.store.records import StoredRun

MOST_LINES = 6
"""Maximum number of lines in one panel."""
NEAR_RATIO = 1.15
"""Maximum ratio of a limit to the largest value at which the limit is still in the range of the axis."""

Marks = Sequence[tuple[float, str]]
"""Named positions on the axis of the sweep."""
References = Mapping[CellKey, float]
"""The known limit of each cell, in the metric's stored unit."""
FEWEST_LEVELS = 3
"""Minimum number of levels in a sweep; two levels are a comparison."""
MOST_APART = 0.007
"""Maximum horizontal distance of two lines at one level, as a ratio of the axis length: a few pixels."""
DECADE = 10
_QUANTITY = re.compile(r"[0-9][0-9.]*\s?[A-Za-zµμ/%]{0,6}")
"""Labels that may be on a numeric axis; other labels are not quantities, even if a parser accepts them."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A factor that is shown as the horizontal axis."""

    factor: str
    """Name of the factor in the plan."""
    positions: Mapping[str, float]
    """Position of each label on the axis."""
    log: bool
    """Whether the axis is logarithmic, because the levels are spread more evenly on a logarithmic axis."""

    def beside(self, label: str, line: int, lines: int) -> float:
        """Return the position of one of several lines at a level; small offsets keep equal values from overlapping."""
        places = list(self.positions.values())
        low, high, place = min(places), max(places), self.positions[label]
        spread = places if not self.log else [math.log(each) for each in places]
        apart = min(MOST_APART, _closest(spread) / (2 * lines))
        share = (line - (lines - 1) / 2) * apart
        return place * (high / low) ** share if self.log else place + share * (high - low)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The roles of factors in a chart."""

    series: tuple[str, ...]
    """One or two factors whose levels are lines: the first selects the colour, the second the dash."""
    outer: tuple[str, ...]
    """Factors whose levels are panels."""


def choose(estimates: Sequence[Estimate], sweep: Sweep, run: StoredRun, most: int) -> Shown:
    """Return the cells of the panels with the largest differences, whole panels only, in plan order."""
    first = estimates[0]
    outer = _layout(estimates, sweep, run).outer
    groups: dict[CellKey, list[int]] = {}
    for index, cell in enumerate(cells_of(estimates)):
        groups.setdefault(_part(cell, outer), []).append(index)
    weighed = weights(estimates)
    order = sorted(groups, key=lambda key: max(weighed[index] for index in groups[key]), reverse=True)
    kept: set[CellKey] = set()
    room = most
    for key in order:
        if not kept or len(groups[key]) <= room:
            kept.add(key)
            room -= len(groups[key])
    chosen = [estimates[index] for key, group in groups.items() if key in kept for index in group]
    return Shown(first.measure, first.metric, tuple(chosen), len(estimates))


def chart(
    shown: Shown,
    sweep: Sweep,
    run: StoredRun,
    trials: Trials,
    names: Names,
    limits: References | None = None,
    marks: Marks = (),
) -> Chart:
    """Return the chart of one metric of one measure along a sweep; marks outside the axis are omitted."""
    estimates = shown.estimates
    by = numbers.scale(shown.metric.name, estimates[0].unit, [estimate.mean for estimate in estimates])
    layout = _layout(estimates, sweep, run)
    keys = list(dict.fromkeys(_part(each.cell, layout.series) for each in estimates))
    lines = _lines(estimates, layout, keys, names)
    title = head(names.metric(shown.metric), by.unit, names.words)
    title = numbers.directed(title, shown.estimates[0].better, names.words)
    values = [value * by.factor for each in estimates for value in (*each.values, *ends(each))]
    upward = axes.up(title, values, _room(values, [limit * by.factor for limit in (limits or {}).values()]))
    axis = names.words.name("charts.axes", sweep.factor.rpartition(".")[2], names.factor(sweep.factor))
    across = axes.Across(axis, sweep.positions, sweep.log)
    inside: list[Row] = [{"x": place, "name": name} for place, name in marks if _within(place, sweep)]
    drawn = tuple(
        _panel(group, layout, keys, lines, sweep, trials, by, names, limits or {})
        for group in _grouped(estimates, layout.outer).values()
    )
    if inside:
        drawn = tuple(replace(panel, data={**panel.data, "marks": inside}) for panel in drawn)
    return Chart(
        title=title,
        spec=axes.spec(across, upward, lines, names.words, marked=bool(inside)),
        panels=drawn,
        lines=lines if len(lines) > 1 else (),
        shown=len(estimates),
        total=shown.total,
        with_ci=any(estimate.ci is not None for estimate in estimates),
        with_baseline=False,
        with_marks=any(estimate.outliers for estimate in estimates),
        with_lines=True,
        with_limit=any(panel.data["reference"] for panel in drawn),
    )


def _within(place: float, sweep: Sweep) -> bool:
    return min(sweep.positions.values()) <= place <= max(sweep.positions.values())


def _room(values: Sequence[float], limits: Sequence[float]) -> tuple[float, float]:
    """Return the range of the axis: the values, and a limit above them if it is within `NEAR_RATIO`.

    A higher limit would flatten the lines.
    """
    low, high = domain(values)
    above = [limit for limit in limits if limit > high]
    return low, min(max(above, default=high), high * NEAR_RATIO)


def _layout(estimates: Sequence[Estimate], sweep: Sweep, run: StoredRun) -> _Layout:
    """Return the layout with the most lines that fit in a panel; of several such layouts, the one with the factors that
    are last in the plan."""
    others = [factor for factor in panels.varied(estimates, run) if factor != sweep.factor]
    cells = cells_of(estimates)
    best: tuple[str, ...] = ()
    most = 1
    for count in (1, 2):
        for wanted in combinations(others, count):
            found = len({tuple(map(cell.get, wanted)) for cell in cells})
            if most <= found <= MOST_LINES:
                best, most = wanted, found
    levels = {factor: len({cell.get(factor) for cell in cells}) for factor in best}
    series = tuple(sorted(best, key=lambda factor: -levels[factor]))
    return _Layout(series, tuple(factor for factor in others if factor not in best))


def _part(cell: Mapping[str, str], factors: Sequence[str]) -> CellKey:
    return cell_key({factor: cell[factor] for factor in factors if factor in cell})


def _grouped(estimates: Sequence[Estimate], outer: Sequence[str]) -> dict[CellKey, list[Estimate]]:
    groups: dict[CellKey, list[Estimate]] = {}
    for estimate in estimates:
        groups.setdefault(_part(estimate.cell, outer), []).append(estimate)
    return groups


def _lines(
    estimates: Sequence[Estimate], layout: _Layout, keys: Sequence[CellKey], names: Names
) -> tuple[Line, ...]:
    """Return the lines.

    The colour and symbol of a line encode the first factor, and its dash encodes the second one; with only one factor,
    the dash encodes this factor too.
    """
    places = {
        factor: {
            label: index
            for index, label in enumerate(dict.fromkeys(each.cell.get(factor) for each in estimates))
        }
        for factor in layout.series
    }
    lines = []
    for key in keys:
        cell = dict(key)
        levels = [places[factor][cell.get(factor)] for factor in layout.series]
        ordered = {factor: cell[factor] for factor in layout.series if factor in cell}
        name = names.cell(ordered) or names.words.text("charts.everything")
        lines.append(axes.line(name, levels[0] if levels else 0, levels[-1] if levels else 0))
    return tuple(lines)


def _panel(
    group: Sequence[Estimate],
    layout: _Layout,
    keys: Sequence[CellKey],
    lines: Sequence[Line],
    sweep: Sweep,
    trials: Trials,
    by: numbers.Scale,
    names: Names,
    limits: References,
) -> Panel:
    points: list[Row] = []
    means: list[Row] = []
    reference: list[Row] = []
    for estimate in sorted(group, key=lambda each: sweep.positions[each.cell[sweep.factor]]):
        series = keys.index(_part(estimate.cell, layout.series))
        at = estimate.cell[sweep.factor]
        # With a limit in the chart, positions are exact: on a slope, a shifted point would appear to exceed the limit.
        x = sweep.positions[at] if limits else sweep.beside(at, series, len(keys))
        place: Row = {"x": finite(x), "series": str(series), "name": lines[series].name, "at": at}
        means.append({**place, **_mean(estimate, by, names)})
        own = trials.get((estimate.measure, cell_key(estimate.cell)), ())
        points += panels.points(place, estimate, own, by, names.words)
        known = limits.get(cell_key(estimate.cell))
        if known is not None:
            reference.append(
                {"x": sweep.positions[at], "value": finite(known * by.factor), "series": place["series"]}
            )
    title = names.cell({factor: label for factor, label in group[0].cell.items() if factor in layout.outer})
    data = {"points": points, "means": means, "reference": reference}
    return Panel(title, data, axes.HEIGHT, "", _described(group, means, lines, names))


def _mean(estimate: Estimate, by: numbers.Scale, names: Names) -> Row:
    decimals = numbers.estimate_decimals(estimate, by)
    return {
        "mean": finite(estimate.mean * by.factor),
        "low": finite(estimate.ci.low * by.factor) if estimate.ci else None,
        "high": finite(estimate.ci.high * by.factor) if estimate.ci else None,
        "text": numbers.at_least(
            numbers.quantity(estimate.mean, by, decimals, names.words), estimate.bounds > 0, names.words
        ),
        "interval": numbers.interval(estimate.ci, by, names.words),
        "bound": estimate.bounds > 0,
    }


def _described(group: Sequence[Estimate], means: Sequence[Row], lines: Sequence[Line], names: Names) -> str:
    """Return a description of each line by its first and last point."""
    words = names.words
    listed = []
    for index, each in enumerate(lines):
        own = [row for row in means if row["series"] == str(index)]
        if own:
            listed.append(
                words.text(
                    "charts.line",
                    line=each.name,
                    first=own[0]["text"],
                    at_first=own[0]["at"],
                    last=own[-1]["text"],
                    at_last=own[-1]["at"],
                )
            )
    measure, metric = names.measure(group[0].measure), names.metric(group[0].metric)
    return words.text("charts.alt", measure=measure, metric=metric, cells="; ".join(listed))


def _plain(label: object) -> float:
    return float(str(label))


_READERS: tuple[Callable[[object], float], ...] = (
    _plain, units.parse_bytes, units.parse_bits_per_second, units.parse_nanoseconds, units.parse_ratio,
)  # fmt: skip
_FIRST = "frame_size"
"""Suffix of the factor path that is the axis of every forwarding chart, even if other factors have more levels."""


def sweep_of(estimates: Sequence[Estimate], run: StoredRun) -> Sweep | None:
    """Return the factor for the axis: the frame size, or the factor with the most levels; None: no factor is a
    sweep."""
    found = []
    cells = cells_of(estimates)
    for factor in run.plan.factors:
        used = {cell.get(factor.name) for cell in cells}
        labels = [label for label in factor.labels if label in used]
        if len(labels) >= FEWEST_LEVELS and None not in used and (places := positions(labels)) is not None:
            found.append(Sweep(factor.name, places, logarithmic(list(places.values()))))
    return max(found, key=lambda each: (each.factor.endswith(_FIRST), len(each.positions)), default=None)


def positions(labels: Sequence[str]) -> dict[str, float] | None:
    """Parse labels as quantities of one kind, in ascending order; None: a label is no quantity, or two are equal."""
    if not all(_QUANTITY.fullmatch(label) for label in labels):
        return None
    for read in _READERS:
        try:
            places = {label: read(label) for label in labels}
        except ValueError:
            continue
        if len(set(places.values())) == len(labels):
            return dict(sorted(places.items(), key=lambda item: item[1]))
    return None


def logarithmic(places: Sequence[float]) -> bool:
    """Whether positions span a decade and their minimum gap is larger on a logarithmic axis."""
    if min(places) <= 0 or max(places) < DECADE * min(places):
        return False
    return _closest([math.log(place) for place in places]) > _closest(places)


def _closest(places: Sequence[float]) -> float:
    """Return the minimum gap as a ratio of the axis length."""
    ordered = sorted(places)
    return min(after - before for before, after in pairwise(ordered)) / (ordered[-1] - ordered[0])
