"""Charts as Vega-Lite: every trial, the mean, its interval and the baseline, in small multiples.

Colours are the page's CSS variables, so that one drawing serves light, dark and paper. No text of the experiment gets
into a specification: labels are data, which Vega shows but never reads as an expression.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from iolab.analysis.types import Estimate
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.selection import CellKey, Shown, cell_key, is_baseline
from iolab.report.tables import head
from iolab.store.records import StoredRun, TrialRecord
from iolab.trial.result import Status

MOST_ROWS = 16
"""Cells side by side in one panel."""
MOST_TRIALS = 200
"""Points of one cell; beyond, they are a blot."""
ROW_HEIGHT = 40
"""Of a cell in a panel [px]; the page's script knows it too."""
CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""SVG path of a marked trial's symbol: told from a circle without colour."""

Place = tuple[str, CellKey]
"""Measure and cell."""
Trials = Mapping[Place, Sequence[TrialRecord]]
Row = Mapping[str, str | float | int | bool | None]
"""A line of a chart's data: plain JSON."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the small multiples."""

    title: str
    """The levels it stands for; empty for the only panel."""
    points: tuple[Row, ...]
    """Per trial."""
    means: tuple[Row, ...]
    """Per cell."""
    rows: str
    """The factors whose levels are its rows."""
    alt: str
    """What it shows, in words."""


@dataclass(frozen=True, slots=True)
class Chart:
    """All cells of one metric of one measure."""

    title: str
    """Metric and unit."""
    spec: str
    """Vega-Lite specification of every panel, as JSON."""
    panels: tuple[Panel, ...]
    """In the plan's order."""
    with_ci: bool
    """Some cell has an interval."""
    with_baseline: bool
    """Some cell has a baseline."""
    with_marks: bool
    """Some trial is marked."""


def trials_by_cell(trials: Sequence[TrialRecord], shown: Sequence[Shown]) -> dict[Place, list[TrialRecord]]:
    """Find the trials of the cells that are charted, in order of block."""
    wanted = {(each.measure, cell_key(estimate.cell)) for each in shown for estimate in each.estimates}
    found: dict[Place, list[TrialRecord]] = {}
    for trial in trials:
        key = (trial.measure, cell_key(trial.cell))
        if key in wanted and trial.result.status is Status.OK:
            found.setdefault(key, []).append(trial)
    for group in found.values():
        group.sort(key=lambda trial: trial.block)
    return found


def chart(shown: Shown, run: StoredRun, trials: Trials, names: Names) -> Chart:
    """Draw one metric of one measure."""
    estimates = shown.estimates
    by = numbers.scale(shown.metric, estimates[0].unit, [estimate.mean for estimate in estimates])
    varied = _varied(estimates, run)
    inner = _inner(varied, estimates)
    groups: dict[CellKey, list[Estimate]] = {}
    for estimate in estimates:
        outer = {
            factor: label
            for factor, label in estimate.cell.items()
            if factor in varied and factor not in inner
        }
        groups.setdefault(cell_key(outer), []).append(estimate)
    baselines = _baselines(estimates, run)
    drawn = _Drawing(by, inner, names, baselines, run)
    panels = tuple(_panel(group, varied, drawn, trials) for group in groups.values())
    title = head(names.metric(shown.metric), by.unit, names.words)
    domain = _domain(
        [value * by.factor for estimate in estimates for value in (*estimate.values, *_ends(estimate))]
    )
    return Chart(
        title=title,
        spec=json.dumps(_spec(title, domain, names)),
        panels=panels,
        with_ci=any(estimate.ci is not None for estimate in estimates),
        with_baseline=any(row["baseline"] is not None for panel in panels for row in panel.means),
        with_marks=any(estimate.outliers for estimate in estimates),
    )


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What all panels of a chart share."""

    by: numbers.Scale
    inner: Sequence[str]
    """Factors whose levels name the rows."""
    names: Names
    baselines: Mapping[CellKey, float]
    """Mean of the baseline by the levels that it does not name [shown unit]."""
    run: StoredRun


def _varied(estimates: Sequence[Estimate], run: StoredRun) -> list[str]:
    """Factors with more than one level here, in the plan's order."""
    labels: dict[str, set[str | None]] = {}
    for estimate in estimates:
        for factor in (each.name for each in run.plan.factors):
            labels.setdefault(factor, set()).add(estimate.cell.get(factor))
    return [factor for factor, found in labels.items() if len(found) > 1]


def _inner(varied: Sequence[str], estimates: Sequence[Estimate]) -> list[str]:
    """The last one or two varied factors: as many as leave a panel small."""
    for count in (2, 1):
        inner = list(varied[-count:])
        rows = {tuple(estimate.cell.get(factor) for factor in inner) for estimate in estimates}
        if len(rows) <= MOST_ROWS:
            return inner
    return list(varied[-1:])


def _free(cell: Mapping[str, str], run: StoredRun) -> CellKey:
    return cell_key({factor: label for factor, label in cell.items() if factor not in run.plan.baseline})


def _baselines(estimates: Sequence[Estimate], run: StoredRun) -> dict[CellKey, float]:
    return {
        _free(each.cell, run): each.mean for each in estimates if is_baseline(each.cell, run.plan.baseline)
    }


def _panel(
    group: Sequence[Estimate],
    varied: Sequence[str],
    drawn: _Drawing,
    trials: Trials,
) -> Panel:
    names = drawn.names
    outer = {
        factor: label
        for factor, label in group[0].cell.items()
        if factor in varied and factor not in drawn.inner
    }
    points: list[Row] = []
    means: list[Row] = []
    for estimate in group:
        label = _label(estimate, drawn)
        means.append(_mean(label, estimate, drawn))
        points += _points(label, estimate, trials.get((estimate.measure, cell_key(estimate.cell)), ()), drawn)
    words = names.words.charts
    listed = "; ".join(words.cell.format(cell=row["row"], mean=row["text"]) for row in means)
    measure, metric = names.measure(group[0].measure), names.metric(group[0].metric)
    described = words.alt.format(measure=measure, metric=metric, cells=listed)
    inner = " · ".join(names.factor(factor) for factor in drawn.inner)
    return Panel(names.cell(outer), tuple(points), tuple(means), inner, described)


def _label(estimate: Estimate, drawn: _Drawing) -> dict[str, str]:
    """A row's name, and a short one for narrow screens, where the panel's head names the factors."""
    cell = {factor: estimate.cell[factor] for factor in drawn.inner if factor in estimate.cell}
    long = drawn.names.cell(cell) or drawn.names.words.charts.everything
    return {"row": long, "short": drawn.names.bare(cell, drawn.inner) or long}


def _mean(label: Row, estimate: Estimate, drawn: _Drawing) -> Row:
    by, words = drawn.by, drawn.names.words
    decimals = numbers.estimate_decimals(estimate, by)
    reference = is_baseline(estimate.cell, drawn.run.plan.baseline)
    baseline = drawn.baselines.get(_free(estimate.cell, drawn.run)) if estimate.ratio is not None else None
    change = words.table.baseline if reference else numbers.change(estimate.ratio, None, words)
    return {
        **label,
        "mean": _finite(estimate.mean * by.factor),
        "low": _finite(estimate.ci.low * by.factor) if estimate.ci else None,
        "high": _finite(estimate.ci.high * by.factor) if estimate.ci else None,
        "baseline": _finite(baseline * by.factor) if baseline is not None else None,
        "text": numbers.quantity(estimate.mean, by, decimals, words),
        "change": change if estimate.ratio is not None else "",
        "interval": numbers.interval(estimate.ci, by, decimals, words),
    }


def _points(label: Row, estimate: Estimate, trials: Sequence[TrialRecord], drawn: _Drawing) -> list[Row]:
    by, words = drawn.by, drawn.names.words
    decimals = numbers.estimate_decimals(estimate, by)
    blocks = [trial.block for trial in trials if estimate.metric in trial.result.metrics]
    if len(blocks) != len(estimate.values):
        blocks = list(range(1, len(estimate.values) + 1))
    return [
        {
            **label,
            "value": _finite(value * by.factor),
            "block": block,
            "marked": index in estimate.outliers,
            "text": numbers.quantity(value, by, decimals, words),
        }
        for index, (block, value) in enumerate(zip(blocks, estimate.values, strict=True))
        if index < MOST_TRIALS or index in estimate.outliers
    ]


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _ends(estimate: Estimate) -> tuple[float, ...]:
    return (estimate.ci.low, estimate.ci.high) if estimate.ci else ()


def _domain(values: Sequence[float]) -> tuple[float, float]:
    """From zero where the values differ much; close up where they differ little, so that intervals can be seen."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return (0.0, 1.0)
    low, high = min(finite), max(finite)
    if low >= 0 and low < 0.6 * high:
        return (0.0, high * 1.04)
    margin = (high - low) * 0.15 or abs(high) * 0.05 or 1.0
    return (low - margin, high + margin)


def _spec(title: str, domain: tuple[float, float], names: Names) -> dict[str, object]:
    words = names.words.charts
    bands = alt.Scale(type="band", paddingInner=0, paddingOuter=0)
    rows = alt.Y("row:N", sort=None, title=None, scale=bands, axis=alt.Axis(labelLimit=190))
    band_begin = alt.Y("row:N", sort=None, title=None, scale=bands, bandPosition=0)
    band_end = alt.Y2("row:N", bandPosition=1)
    values = alt.Scale(domain=list(domain), nice=False, zero=False)

    def across(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=values, title=title)

    points, means = alt.NamedData(name="points"), alt.NamedData(name="means")
    trial_tips = [
        alt.Tooltip("row:N", title=" "), alt.Tooltip("text:N", title=words.trial),
        alt.Tooltip("block:Q", title=words.block),
    ]  # fmt: skip
    mean_tips = [
        alt.Tooltip("row:N", title=" "), alt.Tooltip("text:N", title=words.mean),
        alt.Tooltip("interval:N", title="95 %"), alt.Tooltip("change:N", title=words.baseline),
    ]  # fmt: skip
    baseline = (
        alt.Chart(means)
        .transform_filter("isValid(datum.baseline)")
        .mark_rule(strokeDash=[3, 3], stroke="var(--muted)", strokeWidth=1)
        .encode(x=across("baseline"), y=band_begin, y2=band_end)
    )
    interval = (
        alt.Chart(means)
        .transform_filter("isValid(datum.low)")
        .mark_rule(stroke="var(--accent)", strokeWidth=6, opacity=0.3, strokeCap="butt")
        .encode(x=across("low"), x2="high:Q", y=rows, tooltip=mean_tips)
    )
    every = (
        alt.Chart(points)
        .mark_point(size=38, filled=False, stroke="var(--ink)", strokeWidth=1.2, opacity=0.8)
        .encode(
            x=across("value"),
            y=rows,
            yOffset=alt.YOffset("block:O", scale=alt.Scale(range=[9, ROW_HEIGHT - 9])),
            shape=alt.Shape(
                "marked:N", scale=alt.Scale(domain=[False, True], range=["circle", CROSS]), legend=None
            ),
            tooltip=trial_tips,
        )
    )
    mean = (
        alt.Chart(means)
        .mark_tick(thickness=3, size=22, color="var(--accent)", opacity=1)
        .encode(x=across("mean"), y=rows, tooltip=mean_tips)
    )
    labels = alt.Chart(means).mark_text(align="left", dx=10, dy=-6, fill="var(--ink)", fontWeight=600)
    changes = alt.Chart(means).mark_text(align="left", dx=10, dy=8, fill="var(--muted)")
    edge = alt.value("width")
    layers = alt.layer(
        baseline, interval, mean, every,
        labels.encode(x=edge, y=rows, text="text:N"),
        changes.encode(x=edge, y=rows, text="change:N"),
    )  # fmt: skip
    return dict(_styled(layers).to_dict())


def _styled(drawn: alt.LayerChart | alt.FacetChart) -> alt.LayerChart | alt.FacetChart:
    font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
    styled: alt.LayerChart | alt.FacetChart = (
        drawn.properties(
            width="container",
            background="transparent",
            padding={"left": 2, "top": 4, "bottom": 2, "right": 2},
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        )
        .configure(font=font)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor="var(--ink)", titleColor="var(--muted)", domainColor="var(--line)", tickColor="var(--line)",
            gridColor="var(--line)", labelFontSize=12, titleFontSize=12, titleFontWeight="normal", labelPadding=6,
        )
        .configure_axisY(domain=False, ticks=False, grid=False)
        .configure_axisX(tickCount=5, gridOpacity=0.6)
        .configure_text(fontSize=12)
    )  # fmt: skip
    return styled
