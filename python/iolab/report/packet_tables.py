"""Tables of measures that send frames: ratios of directions, means of several metrics, steps of load curves."""

from collections.abc import Mapping, Sequence

from iolab.analysis.forwarding_types import Curve, DirectionRatio, Forwarding
from iolab.analysis.types import CellKey, Estimate, cell_key
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.tables import Grid, columns, head
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

BITS = "forwarded_bps_l2"
"""Metric of the rate in bits/s, which gets a table like that of the rate in frames/s."""
MOST_COLUMNS = 14
"""Maximum number of figures in one table; the CSV has all figures."""
WHOLE = ("offered_fps", "forwarded_fps", "loss_ratio", "latency_p50_ns", "latency_p99_ns", "host_cpu_ratio")
"""Figures of the whole cell, in column order; figures per thread follow."""
PARTS = "thread_cpu_ratio"
MOST_PARTS = 6
"""Maximum number of threads that get a column."""

Column = Mapping[tuple[CellKey, float], float]
"""Median of the trials for each cell and load ratio, in the stored unit."""


def direction_grid(found: Forwarding, run: StoredRun, names: Names, most: int) -> Grid:
    """Return a table with a row per configuration: the ratios of mean, min and max with traffic both ways to those with
    traffic one way."""
    words = names.words
    factors = factors_of([each.cell for each in found.ratios], run)
    rows = [
        (*(each.cell.get(factor, "") for factor in factors), *_ratio(each, names), str(each.n))
        for each in found.ratios[:most]
    ]
    heads = (
        words.text("packets.ratio_of", figure=figure)
        for figure in words.each("table.mean", "table.min", "table.max")
    )
    return Grid(
        caption=words.text("packets.ratios", measure=names.measure(found.measure)),
        heads=(*map(names.factor, factors), *heads, words.text("table.n")),
        rows=tuple(rows),
        labels=len(factors),
        notes=(words.text("packets.ratios_note"), *left_out(len(rows), len(found.ratios), names)),
    )


def bits_grid(
    estimates: Sequence[Estimate], found: Forwarding, run: StoredRun, names: Names, most: int
) -> Grid:
    """Return the table of mean, min and max of the rate in bits/s, with a row per cell."""
    words = names.words
    by = numbers.scale(BITS, estimates[0].unit, [each.mean for each in estimates])
    factors = columns(estimates, run)
    known = {cell_key(each.cell): each for each in estimates}
    shown = [known[cell_key(cell)] for cell in run.plan.in_order([each.cell for each in estimates])][:most]
    texts = [
        numbers.align(
            [
                numbers.at_least(
                    numbers.figure(value, by, numbers.estimate_decimals(each, by), words), bounded, words
                )
                for each, (value, bounded) in zip(shown, values, strict=True)
            ]
        )
        for values in (
            [(each.mean, each.bounds > 0) for each in shown],
            [(each.min, each.least_is_bound) for each in shown],
            [(each.max, each.bounds > 0) for each in shown],
        )
    ]
    rows = tuple(
        (*(each.cell.get(factor, "") for factor in factors), *(column[at] for column in texts), str(each.n))
        for at, each in enumerate(shown)
    )
    return Grid(
        caption=words.text("packets.bits", measure=names.measure(found.measure)),
        heads=(
            *map(names.factor, factors),
            head(words.text("table.mean"), by.unit, words),
            *words.each("table.min", "table.max", "table.n"),
        ),
        rows=rows,
        labels=len(factors),
        notes=left_out(len(rows), len(estimates), names),
    )


def _ratio(each: DirectionRatio, names: Names) -> list[str]:
    return [
        names.words.text("none") if ratio is None else numbers.fixed(ratio, 2)
        for ratio in (each.mean, each.min, each.max)
    ]


def factors_of(cells: Sequence[Mapping[str, str]], run: StoredRun) -> tuple[str, ...]:
    """Return the factors that distinguish the cells, in plan order."""
    used = {factor for cell in cells for factor in cell}.difference(run.plan.fixed())
    return tuple(factor.name for factor in run.plan.factors if factor.name in used)


def left_out(shown: int, total: int, names: Names) -> tuple[str, ...]:
    """Return a note with the number of omitted cells."""
    text = names.words.text("packets.cells_left_out")
    return (text.format(shown=shown, total=total),) if shown < total else ()


def metrics_grid(
    caption: str,
    wanted: Mapping[Quantity, Sequence[Estimate]],
    found: Forwarding,
    run: StoredRun,
    names: Names,
    most: int,
) -> Grid:
    """Return the table of the means of some metrics, with a row per cell."""
    kept = dict(list(wanted.items())[:MOST_COLUMNS])
    cells = {cell_key(each.cell): each.cell for estimates in kept.values() for each in estimates}
    factors = columns([each for estimates in kept.values() for each in estimates], run)
    shown = run.plan.in_order(cells.values())[:most]
    written = [
        _column(metric, estimates, [cell_key(cell) for cell in shown], names)
        for metric, estimates in kept.items()
    ]
    rows = tuple(
        (*(cell.get(factor, "") for factor in factors), *(column[index] for _, column in written))
        for index, cell in enumerate(shown)
    )
    return Grid(
        caption=caption.format(measure=names.measure(found.measure)),
        heads=(*map(names.factor, factors), *(name for name, _ in written)),
        rows=rows,
        labels=len(factors),
        folded=True,
        notes=left_out(len(rows), len(cells), names),
    )


def _column(
    metric: Quantity, estimates: Sequence[Estimate], cells: Sequence[CellKey], names: Names
) -> tuple[str, list[str]]:
    words = names.words
    by = numbers.scale(metric.name, estimates[0].unit, [estimate.mean for estimate in estimates])
    known = {cell_key(estimate.cell): estimate for estimate in estimates}
    texts = []
    for cell in cells:
        each = known.get(cell)
        texts.append(words.text("none") if each is None else numbers.mean(each, by, words))
    return head(names.metric(metric), by.unit, words), numbers.align(texts)


def curve_grid(found: Forwarding, run: StoredRun, names: Names, most: int) -> Grid:
    """Return the table of load curves, each with all of its steps; curves that do not fit are omitted."""
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
    """Return a mapping from quantity and unit to figures."""
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
