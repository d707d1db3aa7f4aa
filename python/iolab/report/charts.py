"""Vega-Lite charts with a row per cell: all trials, the mean with its interval, and the baseline, in equal panels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.types import CellKey, Estimate, cell_key
from iolab.report import numbers, panels
from iolab.report.axes import Spec, column, layer, tips, write
from iolab.report.names import Names
from iolab.report.panels import CROSS, Chart, Panel, Row, Trials, domain, ends, finite
from iolab.report.selection import Shown, is_baseline
from iolab.report.tables import head
from iolab.store.records import StoredRun

MOST_ROWS = 16
"""Maximum number of cells in one panel."""
ROW_HEIGHT = 40
"""Height of a cell's row in a panel [px]."""


def chart(shown: Shown, run: StoredRun, trials: Trials, names: Names) -> Chart:
    """Return the chart of one metric of one measure."""
    estimates = shown.estimates
    by = numbers.scale(shown.metric.name, estimates[0].unit, [estimate.mean for estimate in estimates])
    varied = panels.varied(estimates, run)
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
    drawn_panels = tuple(_panel(group, varied, drawn, trials) for group in groups.values())
    title = head(names.metric(shown.metric), by.unit, names.words)
    title = numbers.directed(title, estimates[0].better, names.words)
    across = domain(
        [value * by.factor for estimate in estimates for value in (*estimate.values, *ends(estimate))]
    )
    return Chart(
        title=title,
        spec=_spec(title, across, names),
        panels=drawn_panels,
        shown=len(estimates),
        total=shown.total,
        with_ci=any(estimate.ci is not None for estimate in estimates),
        with_baseline=any(
            row["baseline"] is not None for panel in drawn_panels for row in panel.data["means"]
        ),
        with_marks=any(estimate.outliers for estimate in estimates),
    )


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Settings that all panels of a chart share."""

    by: numbers.Scale
    inner: Sequence[str]
    """Factors whose levels are the row labels."""
    names: Names
    baselines: Mapping[CellKey, float]
    """Mean of each baseline [shown unit]; the key has the levels of the factors that have no baseline level."""
    run: StoredRun


def _inner(varied: Sequence[str], estimates: Sequence[Estimate]) -> list[str]:
    """Return the last one or two varied factors, so that a panel has few rows."""
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
        own = trials.get((estimate.measure, cell_key(estimate.cell)), ())
        points += panels.points(label, estimate, own, drawn.by, names.words)
    words = names.words
    listed = "; ".join(words.text("charts.cell", cell=row["row"], mean=row["text"]) for row in means)
    measure, metric = names.measure(group[0].measure), names.metric(group[0].metric)
    described = words.text("charts.alt", measure=measure, metric=metric, cells=listed)
    inner = " · ".join(names.factor(factor) for factor in drawn.inner)
    data = {"points": points, "means": means}
    return Panel(names.cell(outer), data, len(means) * ROW_HEIGHT, inner, described)


def _label(estimate: Estimate, drawn: _Drawing) -> dict[str, str]:
    """Return a row label, and a short label for narrow screens, on which the panel title names the factors."""
    cell = {factor: estimate.cell[factor] for factor in drawn.inner if factor in estimate.cell}
    long = drawn.names.cell(cell) or drawn.names.words.text("charts.everything")
    return {"row": long, "short": drawn.names.bare(cell, drawn.inner) or long}


def _mean(label: Row, estimate: Estimate, drawn: _Drawing) -> Row:
    by, words = drawn.by, drawn.names.words
    decimals = numbers.estimate_decimals(estimate, by)
    reference = is_baseline(estimate.cell, drawn.run.plan.baseline)
    baseline = drawn.baselines.get(_free(estimate.cell, drawn.run)) if estimate.ratio is not None else None
    change = words.text("table.baseline") if reference else numbers.change(estimate.ratio, None, words)
    return {
        **label,
        "mean": finite(estimate.mean * by.factor),
        "low": finite(estimate.ci.low * by.factor) if estimate.ci else None,
        "high": finite(estimate.ci.high * by.factor) if estimate.ci else None,
        "baseline": finite(baseline * by.factor) if baseline is not None else None,
        "text": numbers.at_least(
            numbers.quantity(estimate.mean, by, decimals, words), estimate.bounds > 0, words
        ),
        "change": change if estimate.ratio is not None else "",
        "interval": numbers.interval(estimate.ci, by, words),
        "bound": estimate.bounds > 0,
    }


def _spec(title: str, domain: tuple[float, float], names: Names) -> str:
    words = names.words
    row: Spec = column(
        "row:N", sort=None, title=None, scale={"type": "band", "paddingInner": 0, "paddingOuter": 0}
    )
    band: Spec = {"y": {**row, "bandPosition": 0}, "y2": column("row", bandPosition=1)}
    rows: Spec = {"y": {**row, "axis": {"labelLimit": 190}}}

    def across(name: str) -> Spec:
        return column(f"{name}:Q", scale={"domain": domain, "nice": False, "zero": False}, title=title)

    trial = tips(
        ("row:N", " "), ("text:N", words.text("charts.trial")), ("block:Q", words.text("charts.block"))
    )
    mean = tips(
        ("row:N", " "),
        ("text:N", words.text("charts.mean")),
        ("interval:N", "95 %"),
        ("change:N", words.text("charts.baseline")),
    )
    every: Spec = {
        "x": across("value"),
        "yOffset": column("block:O", scale={"range": [9, ROW_HEIGHT - 9]}),
        "shape": column("marked:N", scale={"domain": [False, True], "range": ["circle", CROSS]}, legend=None),
    }
    beside: Spec = {**rows, "x": {"value": "width"}}
    return write([
        layer("means", "rule", {**band, "x": across("baseline")}, only="isValid(datum.baseline)",
              strokeDash=[3, 3], stroke="var(--muted)", strokeWidth=1),
        layer("means", "rule", {**rows, "x": across("low"), "x2": column("high"), "tooltip": mean},
              only="isValid(datum.low)", stroke="var(--accent)", strokeWidth=6, opacity=0.3, strokeCap="butt"),
        layer("means", "tick", {**rows, "x": across("mean"), "tooltip": mean}, only="!datum.bound",
              thickness=3, size=22, color="var(--accent)", opacity=1),
        layer("means", "point", {**rows, "x": across("mean"), "tooltip": mean}, only="datum.bound",
              shape="arrow", angle=90, size=420, filled=True, color="var(--accent)", opacity=1),
        layer("points", "point", {**rows, **every, "tooltip": trial},
              size=38, filled=False, stroke="var(--ink)", strokeWidth=1.2, opacity=0.8),
        layer("means", "text", {**beside, "text": column("text:N")},
              align="left", dx=10, dy=-6, fill="var(--ink)", fontWeight=600),
        layer("means", "text", {**beside, "text": column("change:N")},
              align="left", dx=10, dy=8, fill="var(--muted)"),
    ])  # fmt: skip
