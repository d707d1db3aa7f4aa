"""Charts of load curves: forwarding rate, loss, latency and CPU use over offered load, four charts per cell."""

from collections.abc import Sequence

from iolab.analysis.forwarding_types import Curve, CurvePoint, Forwarding
from iolab.analysis.types import CellKey, cell_key
from iolab.report import axes, numbers
from iolab.report.names import Names, load
from iolab.report.panels import Chart, Line, Panel, Row, domain, finite
from iolab.report.tables import head
from iolab.results.metric import Quantity

MOST_CELLS = 12
"""Maximum number of cells with charts; the tables and the CSV have all cells."""
MOST_COMPONENTS = 6
"""Maximum number of CPUs and threads in one chart."""
INSTRUMENT = frozenset({"generator", "receiver", "napi"})
"""Roles of the threads of the instrument."""
MOST_POINTS = 20
"""Maximum number of trials that are drawn per step of a curve."""
RATES = ("offered_fps", "forwarded_fps")
LOSSES = ("loss_ratio", "unsent_ratio")
LATENCIES = ("latency_p50_ns", "latency_p99_ns", "latency_p999_ns", "latency_max_ns")
CPUS = ("thread_cpu_ratio", "cpu_busy_ratio", "host_cpu_ratio")


def charts(found: Forwarding, names: Names) -> tuple[tuple[str, tuple[Chart, ...]], ...]:
    """Yield the name of every cell with its four charts."""
    cells: dict[CellKey, list[Curve]] = {}
    for curve in found.curves:
        cells.setdefault(cell_key(curve.cell), []).append(curve)
    return tuple(
        (names.cell(own[0].cell), tuple(_charts(own, found, names)))
        for own in list(cells.values())[:MOST_CELLS]
    )


def cell_count(found: Forwarding) -> int:
    """Return the number of cells with load curves."""
    return len({cell_key(curve.cell) for curve in found.curves})


def _charts(curves: Sequence[Curve], found: Forwarding, names: Names) -> list[Chart]:
    words = names.words
    wanted = (
        (words.text("packets.curve_rates"), _named(curves, RATES)),
        (words.text("packets.curve_loss"), _named(curves, LOSSES)),
        (words.text("packets.curve_cpu"), _busiest(curves)),
        (words.text("packets.curve_latency"), _named(curves, LATENCIES)),
    )
    return [_chart(title, own, found, names) for title, own in wanted if own]


def _named(curves: Sequence[Curve], metrics: Sequence[str]) -> list[Curve]:
    """Return the curves of the given metrics, in the given order."""
    return [curve for name in metrics for curve in curves if curve.metric == Quantity(name)]


def _busiest(curves: Sequence[Curve]) -> list[Curve]:
    """Return the threads and CPUs with the highest maxima, and the whole host last.

    Measured threads precede CPUs and the instrument's threads.
    """
    parts = [curve for curve in curves if curve.metric.name in CPUS and not curve.metric.dimensions.whole]
    parts.sort(key=lambda curve: (_measures(curve), -max(point.median for point in curve.points)))
    kept = {id(curve) for curve in parts[: MOST_COMPONENTS - 1]}
    return [curve for curve in curves if id(curve) in kept] + _named(curves, ("host_cpu_ratio",))


def _measures(curve: Curve) -> bool:
    """Whether a curve describes a CPU or one of the instrument's threads, not a measured thread."""
    return curve.metric.name != CPUS[0] or curve.metric.dimensions.role in INSTRUMENT


def _chart(title: str, curves: Sequence[Curve], found: Forwarding, names: Names) -> Chart:
    words = names.words
    by = numbers.scale(
        curves[0].metric.name, curves[0].unit, [point.median for curve in curves for point in curve.points]
    )
    lines = tuple(axes.line(_name(curve, names), index, index) for index, curve in enumerate(curves))
    shares = sorted({_percent(point) for curve in curves for point in curve.points})
    across = axes.Across(
        words.text("packets.load_axis"), {f"{share:g}": share for share in shares}, log=False
    )
    values = [value * by.factor for curve in curves for point in curve.points for value in point.values]
    latency = curves[0].metric.name in LATENCIES
    bounds = domain(values) if latency else (0.0, max([*values, 1e-9]) * 1.06)
    upward = (
        axes.up_from_zero(head(title, by.unit, names.words), values)
        if curves[0].metric.name in LOSSES
        else axes.up(head(title, by.unit, names.words), values if latency else (), bounds)
    )
    cell = names.cell(curves[0].cell) or names.measure(found.measure)
    ends = "; ".join(_ends(line, curve, by, names) for line, curve in zip(lines, curves, strict=True))
    means, points = _rows(curves, lines, by, names)
    data = {"points": points, "means": means, "reference": []}
    alt = words.text("packets.curve_alt", title=title, cell=cell, lines=ends)
    return Chart(
        title=head(title, by.unit, names.words),
        spec=axes.spec(across, upward, lines, names.words),
        panels=(Panel("", data, axes.HEIGHT - 50, "", alt),),
        lines=lines,
        shown=1,
        total=1,
        with_ci=False,
        with_baseline=False,
        with_marks=False,
        with_lines=True,
    )


def _name(curve: Curve, names: Names) -> str:
    if curve.metric == Quantity("host_cpu_ratio"):
        return names.words.text("packets.whole_host")
    return names.component(curve.metric.dimensions) or names.metric(curve.metric)


def _percent(point: CurvePoint) -> float:
    """Return the position of a point on the axis, rounded so that a load ratio of 0.07 is at 7 %."""
    return round(point.load_ratio * 100, 9)


def _rows(
    curves: Sequence[Curve], lines: Sequence[Line], by: numbers.Scale, names: Names
) -> tuple[list[Row], list[Row]]:
    means: list[Row] = []
    points: list[Row] = []
    for index, (curve, line) in enumerate(zip(curves, lines, strict=True)):
        for point in curve.points:
            at = load(point.load_ratio)
            place: Row = {"x": _percent(point), "series": str(index), "name": line.name, "at": at}
            text = _quantity(point.median, by, names)
            means.append(
                {**place, "mean": finite(point.median * by.factor), "low": None, "high": None, "text": text,
                 "interval": ""}
            )  # fmt: skip
            points += [
                {**place, "value": finite(value * by.factor), "block": block, "marked": False,
                 "text": _quantity(value, by, names)}
                for block, value in enumerate(point.values[:MOST_POINTS], start=1)
            ]  # fmt: skip
    return means, points


def _quantity(value: float, by: numbers.Scale, names: Names) -> str:
    decimals = numbers.decimals_for(0.0, value * by.factor)
    return numbers.quantity(value, by, decimals, names.words)


def _ends(line: Line, curve: Curve, by: numbers.Scale, names: Names) -> str:
    first, last = curve.points[0], curve.points[-1]
    return names.words.text(
        "charts.line",
        line=line.name,
        first=_quantity(first.median, by, names),
        at_first=load(first.load_ratio),
        last=_quantity(last.median, by, names),
        at_last=load(last.load_ratio),
    )
