"""Tables of figures over the levels of a factor, and of their ratios between two levels of a different factor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.bounds import LOWER_BOUND
from iolab.analysis.level_types import LevelsFigure, LevelsLeftOut, LevelsRatio
from iolab.analysis.types import Analysis, cell_key
from iolab.experiment.experiment import LevelRatio
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.packet_tables import BITS, factors_of, left_out
from iolab.report.tables import Grid, head
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

SUM, ONE = "forwarded_fps", "forwarded_per_direction_fps"
"""The forwarding rate of all directions together, and the rate per direction."""


MOST_NAMED = 24
"""Maximum number of cells that a note lists as having no figure."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A formatted figure."""

    cell: Mapping[str, str]
    """The cell that the table row represents."""
    levels: tuple[str, ...]
    """Levels over which the figure is computed."""
    statistic: str
    """The statistic that the table column represents."""
    text: str
    """The figure with its interval."""
    n: int
    """Number of blocks from which the figure was computed."""


def level_grids(measure: str, run: StoredRun, analysis: Analysis, names: Names, most: int) -> list[Grid]:
    """Return all tables of a measure: for each factor and metric, the figures and then their ratios."""
    figures: dict[tuple[str, Quantity], list[LevelsFigure]] = {}
    for figure in analysis.levels_figures:
        if figure.measure == measure:
            figures.setdefault((figure.over, figure.metric), []).append(figure)
    ratios: dict[tuple[str, Quantity], dict[LevelRatio, list[LevelsRatio]]] = {}
    for ratio in analysis.levels_ratios:
        if ratio.measure == measure:
            places = ratios.setdefault((ratio.over, ratio.metric), {})
            places.setdefault(ratio.between, []).append(ratio)
    grids = []
    for (over, metric), own in figures.items():
        if metric == Quantity(ONE) and _all_of_one(own, figures.get((over, Quantity(SUM)), ())):
            continue
        lost = [
            one
            for one in analysis.levels_left_out
            if (one.measure, one.over, one.metric) == (measure, over, metric)
        ]
        grids.append(_figures_grid(own, lost, run, names, most))
        parts = ratios.get((over, metric), {}).values()
        grids += [_ratios_grid(part, run, names, most) for part in parts]
    return grids


def _all_of_one(figures: Iterable[LevelsFigure], sums: Iterable[LevelsFigure]) -> bool:
    """Whether the rates per direction equal the rates of all directions, because there is only one direction."""
    known = {(cell_key(each.cell), each.statistic): each.values for each in sums}
    return all(known.get((cell_key(each.cell), each.statistic)) == each.values for each in figures)


def _figures_grid(
    figures: Sequence[LevelsFigure], lost: Sequence[LevelsLeftOut], run: StoredRun, names: Names, most: int
) -> Grid:
    words, first = names.words, figures[0]
    by = numbers.scale(first.metric.name, first.unit, [each.mean for each in figures])
    entries = [
        _Entry(each.cell, each.levels, each.statistic, _figure(each, by, names), len(each.values))
        for each in figures
    ]
    heads: dict[str, str] = {
        each.statistic: head(words.name("published.statistics", each.statistic), by.unit, words)
        for each in figures
    }
    lacking = sum(each.left_out for each in figures if each.statistic == first.statistic)
    notes: tuple[str, ...] = (words.text("table.levels_left_out", count=lacking),) if lacking else ()
    notes += (_not_summed(lost, names),) if lost else ()
    caption = words.text("table.levels_caption", **_places(figures, names))
    return _grid(
        caption,
        heads,
        entries,
        (words.text("table.levels_note"), *notes),
        run,
        names,
        most,
        folded=_folded(first),
    )


def _figure(each: LevelsFigure, by: numbers.Scale, names: Names) -> str:
    spread = (each.ci.high - each.ci.low) / 2 if each.ci is not None else 0.0
    decimals = numbers.decimals_measured(spread * by.factor, each.mean * by.factor)
    figure = numbers.figure(each.mean, by, decimals, names.words)
    text = numbers.at_least(figure, bool(each.limited_by), names.words)
    return f"{text} {numbers.interval(each.ci, by, names.words)}" if each.ci is not None else text


def _not_summed(lost: Sequence[LevelsLeftOut], names: Names) -> str:
    """Return a note that names the cells without a figure, each with the levels for which there are results."""
    words = names.words
    cells = [
        words.text(
            "table.levels_cell",
            cell=names.cell(one.cell) or names.measure(one.measure),
            levels=words.listed(one.levels),
        )
        for one in lost
    ]
    more = len(cells) - MOST_NAMED
    listed = words.text("wire.clauses").join(cells[:MOST_NAMED])
    return words.text(
        "table.levels_cells_left_out",
        count=len(cells),
        cells=listed,
        more=words.text("table.levels_more", count=more) if more > 0 else "",
    )


def _ratios_grid(ratios: Sequence[LevelsRatio], run: StoredRun, names: Names, most: int) -> Grid:
    words, first = names.words, ratios[0]
    entries = [_Entry(each.cell, each.levels, each.statistic, _ratio(each, names), each.n) for each in ratios]
    heads: dict[str, str] = {
        each.statistic: words.name("published.statistics", each.statistic) for each in ratios
    }
    between = first.between
    above, below = (names.level(between.factor, label) for label in (between.above, between.below))
    caption = words.text("table.levels_ratio_caption", above=above, below=below, **_places(ratios, names))
    return _grid(
        caption,
        heads,
        entries,
        (words.text("table.levels_ratio_note"),),
        run,
        names,
        most,
        folded=_folded(first),
    )


def _ratio(each: LevelsRatio, names: Names) -> str:
    if each.ratio is None:
        return names.words.name("table.incomparable_names", LOWER_BOUND)
    if each.ci is None:
        return numbers.fixed(each.ratio, 2)
    decimals = max(2, numbers.decimals_measured((each.ci.high - each.ci.low) / 2, each.ratio))
    low, high = (numbers.fixed(end, decimals) for end in (each.ci.low, each.ci.high))
    return f"{numbers.fixed(each.ratio, decimals)} {names.words.text('interval', low=low, high=high)}"


def _folded(each: LevelsFigure | LevelsRatio) -> bool:
    """Whether a table is folded as a detail; the rate in bits is folded, because it follows from the rate in frames."""
    return each.metric == Quantity(BITS)


def _places(found: Sequence[LevelsFigure] | Sequence[LevelsRatio], names: Names) -> dict[str, str]:
    """Return the values for the caption, which names the levels only if all figures share them; otherwise a column
    lists the levels."""
    first, levels = found[0], {each.levels for each in found}
    over = names.factor(first.over)
    alike = names.words.listed(first.levels)
    return {
        "measure": names.measure(first.measure),
        "metric": names.metric(first.metric),
        "over": names.words.text("level", factor=over, level=alike) if len(levels) == 1 else over,
    }


def _grid(
    caption: str,
    heads: Mapping[str, str],
    entries: Sequence[_Entry],
    notes: tuple[str, ...],
    run: StoredRun,
    names: Names,
    most: int,
    *,
    folded: bool,
) -> Grid:
    """Return a table with a row per cell.

    If the cells have different levels, a column lists the levels of each figure.
    """
    words = names.words
    cells = {cell_key(each.cell): each.cell for each in entries}
    factors = factors_of(list(cells.values()), run)
    known = {(cell_key(each.cell), each.statistic): each for each in entries}
    apart = len({each.levels for each in entries}) > 1
    rows = []
    for cell in run.plan.in_order(cells.values())[:most]:
        own = [known[cell_key(cell), statistic] for statistic in heads]
        over = (words.listed(own[0].levels),) if apart else ()
        texts = (each.text for each in own)
        rows.append((*(cell.get(factor, "") for factor in factors), *over, *texts, str(own[0].n)))
    labels = (*map(names.factor, factors), *((words.text("table.levels_over"),) if apart else ()))
    return Grid(
        caption=caption,
        heads=(*labels, *heads.values(), words.text("table.blocks")),
        rows=tuple(rows),
        labels=len(labels),
        folded=folded,
        notes=(*notes, *left_out(len(rows), len(cells), names)),
    )
