"""Tables of what measures that send frames found: ratios of directions, spreads, and means of several metrics."""

from collections.abc import Mapping, Sequence

from iolab.analysis.forwarding_types import DirectionRatio, Forwarding
from iolab.analysis.types import CellKey, Estimate, cell_key
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.tables import Grid, columns, head
from iolab.results.dimensions import Quantity
from iolab.store.records import StoredRun

BITS = "forwarded_bps_l2"
"""The rate in bits: it has a table like that of the rate in frames."""
MOST_COLUMNS = 14
"""Figures of one table; CSV has the others."""


def direction_grid(found: Forwarding, run: StoredRun, names: Names, most: int) -> Grid:
    """Both ways over one way of mean, min and max, per configuration."""
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
    """Mean, min and max of the rate in bits, a row per cell."""
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
    """Factors that tell the cells apart, in the plan's order."""
    used = {factor for cell in cells for factor in cell}.difference(run.plan.fixed())
    return tuple(factor.name for factor in run.plan.factors if factor.name in used)


def left_out(shown: int, total: int, names: Names) -> tuple[str, ...]:
    """Say how many cells are not shown."""
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
    """Means of some metrics, a row per cell."""
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
