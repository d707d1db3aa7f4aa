"""A load curve as a table: a row per step of load, for terminals, Markdown, and readers without the drawing."""

from collections.abc import Mapping, Sequence

from iolab.analysis.forwarding_types import Curve, Forwarding
from iolab.analysis.types import CellKey, cell_key
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.tables import Grid, head
from iolab.results.dimensions import Quantity
from iolab.store.records import StoredRun

WHOLE = ("offered_fps", "forwarded_fps", "loss_ratio", "latency_p50_ns", "latency_p99_ns", "host_cpu_ratio")
"""Figures of the whole, in the order of the columns; what single threads did comes after them."""
PARTS = "thread_cpu_ratio"
MOST_PARTS = 6
"""Threads that get a column."""

Column = Mapping[tuple[CellKey, float], float]
"""Cell and load to the median of its trials, in the stored unit."""


def curve_grid(found: Forwarding, run: StoredRun, names: Names, most: int) -> Grid:
    """Write every step of as many whole curves as fit."""
    words = names.words
    columns = _columns(found.curves)
    cells = run.plan.in_order({cell_key(each.cell): each.cell for each in found.curves}.values())
    used = {factor for cell in cells for factor in cell}.difference(run.plan.fixed())
    factors = [factor.name for factor in run.plan.factors if factor.name in used]
    loads = sorted({load for column in columns.values() for _, load in column})
    kept = cells[: max(1, most // max(1, len(loads)))]
    places = [(cell, load) for cell in kept for load in loads]
    written = [_written(curve, column, places, names) for curve, column in columns.items()]
    rows = tuple(
        (
            *(cell.get(factor, "") for factor in factors),
            f"{load * 100:.6g}{numbers.NBSP}%",
            *(texts[at] for _, texts in written),
        )
        for at, (cell, load) in enumerate(places)
    )
    left_out = words.text("packets.cells_left_out", shown=len(kept), total=len(cells))
    return Grid(
        caption=words.text("packets.steps", measure=names.measure(found.measure)),
        heads=(*map(names.factor, factors), words.text("packets.load"), *(name for name, _ in written)),
        rows=rows,
        labels=len(factors) + 1,
        folded=True,
        notes=(left_out,) if len(kept) < len(cells) else (),
    )


def _columns(curves: Sequence[Curve]) -> dict[tuple[Quantity, str], dict[tuple[CellKey, float], float]]:
    """Quantity and unit to its figures."""
    wanted = [each for name in WHOLE for each in curves if each.metric == Quantity(name)]
    parts = list(dict.fromkeys(each.metric for each in curves if each.metric.name == PARTS))[:MOST_PARTS]
    wanted += [each for part in parts for each in curves if each.metric == part]
    found: dict[tuple[Quantity, str], dict[tuple[CellKey, float], float]] = {}
    for curve in wanted:
        column = found.setdefault((curve.metric, curve.unit), {})
        column |= {(cell_key(curve.cell), point.load_ratio): point.median for point in curve.points}
    return found


def _written(
    curve: tuple[Quantity, str],
    column: Column,
    places: Sequence[tuple[Mapping[str, str], float]],
    names: Names,
) -> tuple[str, list[str]]:
    metric, unit = curve
    words = names.words
    by = numbers.scale(metric.name, unit, column.values())
    texts = []
    for cell, load in places:
        value = column.get((cell_key(cell), load))
        decimals = 0 if value is None else numbers.decimals_for(0.0, value * by.factor)
        texts.append(numbers.figure(value, by, decimals, words))
    name = names.component(metric.dimensions) or names.metric(metric)
    return head(name, by.unit, words), numbers.align(texts)
