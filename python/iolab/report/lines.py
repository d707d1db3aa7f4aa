"""Sweeps of a number (frame size, MTU, window) as line charts: a line per level of the other factors, in few panels."""

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
"""Lines of one panel that an eye can follow."""
NEAR_RATIO = 1.15
"""How far above the largest value a limit is still shown."""

Marks = Sequence[tuple[float, str]]
"""Places on the axis of the sweep that mean something, and what they are called."""
References = Mapping[CellKey, float]
"""A known limit per cell, in the metric's stored unit."""
FEWEST_LEVELS = 3
"""Two levels are a comparison, not a sweep."""
MOST_APART = 0.007
"""Between two lines at one level, as a share of the axis: some pixels."""
DECADE = 10
_QUANTITY = re.compile(r"[0-9][0-9.]*\s?[A-Za-zµμ/%]{0,6}")
"""What may stand on an axis; anything else is not a quantity, whatever a parser makes of it."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A factor as an axis."""

    factor: str
    """Its name in the plan."""
    positions: Mapping[str, float]
    """Label to its place."""
    log: bool
    """Drawn on a logarithmic axis, because its levels are spread more evenly there."""

    def beside(self, label: str, line: int, lines: int) -> float:
        """The place of one of several lines at a level: a little apart, so that equal values do not hide each other."""
        places = list(self.positions.values())
        low, high, place = min(places), max(places), self.positions[label]
        spread = places if not self.log else [math.log(each) for each in places]
        apart = min(MOST_APART, _closest(spread) / (2 * lines))
        share = (line - (lines - 1) / 2) * apart
        return place * (high / low) ** share if self.log else place + share * (high - low)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which factor does what."""

    series: tuple[str, ...]
    """One or two factors whose levels are lines: the first by colour, the second by dash."""
    outer: tuple[str, ...]
    """Factors whose levels are panels."""


def choose(estimates: Sequence[Estimate], sweep: Sweep, run: StoredRun, most: int) -> Shown:
    """Keep whole panels, those with the cells that differ most, in the plan's order."""
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
    """Draw one metric of one measure along a sweep; marks beyond its ends are left out."""
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
    """What the axis shows: the values, and of a limit above them only what is near, lest it flatten them."""
    low, high = domain(values)
    above = [limit for limit in limits if limit > high]
    return low, min(max(above, default=high), high * NEAR_RATIO)


def _layout(estimates: Sequence[Estimate], sweep: Sweep, run: StoredRun) -> _Layout:
    """As many lines as fit into a panel; of equal choices the factors written last."""
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
    """Colour and symbol follow the first factor, the dash the second, or also the first where there is no second."""
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
        # Beside a limit every place must be exact: on a slope, one that is moved would seem to exceed it.
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
    """Each line by its ends."""
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
"""The end of the factor's path that is the axis of every forwarding chart, however many levels others have."""


def sweep_of(estimates: Sequence[Estimate], run: StoredRun) -> Sweep | None:
    """Find the factor to draw as an axis: frame size, else the one with most levels; None where there is none."""
    found = []
    cells = cells_of(estimates)
    for factor in run.plan.factors:
        used = {cell.get(factor.name) for cell in cells}
        labels = [label for label in factor.labels if label in used]
        if len(labels) >= FEWEST_LEVELS and None not in used and (places := positions(labels)) is not None:
            found.append(Sweep(factor.name, places, logarithmic(list(places.values()))))
    return max(found, key=lambda each: (each.factor.endswith(_FIRST), len(each.positions)), default=None)


def positions(labels: Sequence[str]) -> dict[str, float] | None:
    """Read labels as quantities of one kind, smallest first; None where one is none, or two are equal."""
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
    """Tell whether places span a decade and the closest neighbours are further apart on a logarithmic axis."""
    if min(places) <= 0 or max(places) < DECADE * min(places):
        return False
    return _closest([math.log(place) for place in places]) > _closest(places)


def _closest(places: Sequence[float]) -> float:
    """The smallest gap as a share of the whole axis."""
    ordered = sorted(places)
    return min(after - before for before, after in pairwise(ordered)) / (ordered[-1] - ordered[0])
