"""Compare two runs, or a run with published figures: tables and sentences for a terminal and for Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iolab.analysis.comparison import CellComparison, Comparison, LoneCell, OverallComparison
from iolab.analysis.published import PublishedComparison, PublishedRow
from iolab.analysis.ratios import OTHER_METHOD
from iolab.report import numbers, sentences
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names
from iolab.report.readme import MARKDOWN
from iolab.report.tables import Grid, head, limits

MOST_ROWS = 60
MOST_LONE = 5
MOST_WITHOUT = 5
FIGURE_DECIMALS = 1


@dataclass(frozen=True, slots=True)
class _Part:
    """The table of one measure."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int
    """Number of columns that are factors."""
    note: str
    """Note on omitted rows; empty if no row is omitted."""


def comparison(compared: Comparison, words: Words = EN) -> RenderableType:
    """Return a comparison for the terminal."""
    named = _names(compared, words)
    parts: list[RenderableType] = [Text(_title(compared, words), style="bold")]
    for part in _parts(compared, named):
        table = _laid_out(part.heads, part.rows, range(part.labels, len(part.heads) - 1))
        parts += ["", Text(part.caption, style="bold"), table]
        parts += [Text(part.note, style="dim")] if part.note else []
    parts += ["", *(Text(line) for line in _overall(compared, named))]
    parts += [Text(line, style="yellow") for line in _remarks(compared, named)]
    return Group(*parts)


def _laid_out(heads: Sequence[str], rows: Iterable[Sequence[str]], figures: range) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for index, name in enumerate(heads):
        table.add_column(Text(name), justify="right" if index in figures else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def comparison_text(compared: Comparison, words: Words = EN) -> str:
    """Return a comparison as Markdown."""
    named = _names(compared, words)
    blocks = [f"# {MARKDOWN.escape(_title(compared, words))}"]
    overall = list(_overall(compared, named))
    blocks += ["\n".join(f"- {MARKDOWN.escape(line)}" for line in overall)] if overall else []
    for part in _parts(compared, named):
        blocks += [f"**{MARKDOWN.escape(part.caption)}**", MARKDOWN.grid(part.heads, part.rows, part.labels)]
        blocks += [MARKDOWN.escape(part.note)] if part.note else []
    remarks = list(_remarks(compared, named))
    blocks += ["\n".join(f"- {MARKDOWN.escape(line)}" for line in remarks)] if remarks else []
    return "\n\n".join(blocks) + "\n"


def _title(compared: Comparison, words: Words) -> str:
    return words.text("compare.title", a=compared.run_a, b=compared.run_b)


def _names(compared: Comparison, words: Words) -> Names:
    lone = (each.cell for each in (*compared.only_a, *compared.only_b))
    cells = (each.cell for each in compared.cells)
    return names([factor for group in (cells, lone) for cell in group for factor in cell], words)


def _parts(compared: Comparison, named: Names) -> Iterator[_Part]:
    for measure, metric in compared.leading.items():
        cells = [each for each in compared.cells if (each.measure, each.metric) == (measure, metric)]
        if cells:
            yield _part(cells, named)


def _part(cells: Sequence[CellComparison], named: Names) -> _Part:
    words = named.words
    first, total = cells[0], len(cells)
    if total > MOST_ROWS:
        kept = set(nlargest(MOST_ROWS, range(total), key=lambda index: _distance(cells[index])))
        cells = [cells[index] for index in sorted(kept)]
    factors = tuple(dict.fromkeys(factor for each in cells for factor in each.cell))
    by = numbers.scale(
        first.metric.name, first.unit, [mean for each in cells for mean in (each.mean_a, each.mean_b)]
    )
    figures = [_figures(each, by, words) for each in cells]
    means = [numbers.align(column, " ", " ") for column in zip(*figures, strict=True)]
    heads = [*map(named.factor, factors), *words.each("compare.a", "compare.b")]
    rows = [
        (*(each.cell.get(factor, "") for factor in factors), *(column[index] for column in means),
         _change(each, words), _compared(each, words))
        for index, each in enumerate(cells)
    ]  # fmt: skip
    metric = numbers.directed(head(named.metric(first.metric), by.unit, words), first.better, words)
    caption = words.text("table.caption", measure=named.measure(first.measure), metric=metric)
    left_out = words.text("table.rows_left_out", shown=len(cells), total=total) if total > len(cells) else ""
    return _Part(
        caption,
        (*heads, *words.each("compare.change", "compare.verdict")),
        tuple(rows),
        len(factors),
        left_out,
    )


def _distance(cell: CellComparison) -> float:
    return max(cell.ratio, 1 / cell.ratio) if cell.ratio is not None and cell.ratio > 0 else 0.0


def _figures(cell: CellComparison, by: numbers.Scale, words: Words) -> tuple[str, str]:
    """Return both means, with the digits that the interval of their ratio supports."""
    size = max(abs(cell.mean_a), abs(cell.mean_b)) * by.factor
    relative = (cell.ci.high - cell.ci.low) / 2 if cell.ci is not None else 0.0
    decimals = numbers.decimals_for(relative * size, size)
    first, second = (numbers.figure(mean, by, decimals, words) for mean in (cell.mean_a, cell.mean_b))
    return (
        numbers.at_least(first, bool(cell.limited_a), words),
        numbers.at_least(second, bool(cell.limited_b), words),
    )


def _compared(cell: CellComparison, words: Words) -> str:
    """Return whether a difference is significant; if a limit of the instrument makes this unknown, return that
    limit."""
    limited = dict.fromkeys((*cell.limited_a, *cell.limited_b))
    if limited:
        return words.text("compare.only_bounds", limits=limits(tuple(limited), words))
    if cell.ratio is None and cell.method_a != cell.method_b:
        return words.name("table.incomparable_names", OTHER_METHOD)
    return _verdict(cell.p_value, words)


def _verdict(p_value: float | None, words: Words) -> str:
    if p_value is None:
        return words.text("compare.unknown")
    return words.text("compare.shown") if numbers.is_shown(p_value) else words.text("compare.not_shown")


def _change(each: CellComparison | OverallComparison, words: Words) -> str:
    change = numbers.change(each.ratio, each.ci, words)
    return numbers.judged(change, each.ratio, each.better if numbers.is_shown(each.p_value) else "", words)


def _overall(compared: Comparison, named: Names) -> Iterator[str]:
    for each in compared.overall:
        yield _overall_template(each, named.words).format(
            measure=named.measure(each.measure),
            metric=named.metric(each.metric),
            change=_change(each, named.words),
            cells=each.cells,
        )


def _overall_template(each: OverallComparison, words: Words) -> str:
    if each.p_value is None:
        return words.text("compare.overall_unknown")
    return (
        words.text("compare.overall_shown")
        if numbers.is_shown(each.p_value)
        else words.text("compare.overall_same")
    )


def _remarks(compared: Comparison, named: Names) -> Iterator[str]:
    words = named.words
    yield from _lone(compared.only_a, words.text("compare.only"), compared.run_a, named)
    yield from _lone(compared.only_b, words.text("compare.only"), compared.run_b, named)
    for warning in compared.warnings:
        yield sentences.noted(warning, words)


def _lone(cells: Sequence[LoneCell], template: str, run: str, named: Names) -> Iterable[str]:
    if not cells:
        return ()
    listed = "; ".join(
        f"{named.measure(each.measure)}, {named.cell(each.cell)}" for each in cells[:MOST_LONE]
    )
    return (template.format(run=run, count=len(cells), cells=listed),)


def beside_published(found: PublishedComparison, words: Words = EN) -> RenderableType:
    """Return the comparison with published figures for the terminal."""
    named = names(_factors(found), words)
    parts: list[RenderableType] = [Text(_published_title(found, words), style="bold")]
    parts += [Text(line, style="yellow") for line in _banner(found, words)]
    for written in _grids(found, named):
        table = _laid_out(written.heads, written.rows, range(written.labels, len(written.heads)))
        parts += ["", Text(written.caption, style="bold"), table]
    parts += [Text(line, style="dim") for line in _published_remarks(found, named)]
    return Group(*parts)


def beside_published_text(found: PublishedComparison, words: Words = EN) -> str:
    """Return the comparison with published figures as Markdown."""
    named = names(_factors(found), words)
    blocks = [
        f"# {MARKDOWN.escape(_published_title(found, words))}",
        *map(MARKDOWN.escape, _banner(found, words)),
    ]
    for written in _grids(found, named):
        blocks += [
            f"**{MARKDOWN.escape(written.caption)}**",
            MARKDOWN.grid(written.heads, written.rows, written.labels),
        ]
    blocks += [MARKDOWN.escape(line) for line in _published_remarks(found, named)]
    return "\n\n".join(blocks) + "\n"


def _factors(found: PublishedComparison) -> tuple[str, ...]:
    """Return the factors that identify the cells, and the factors over whose levels the figures were summarised."""
    return (*found.factors, *found.reference, *(row.over for row in found.rows if row.over))


def _published_title(found: PublishedComparison, words: Words) -> str:
    return words.text("published.title", run=found.run, source=found.source)


def _banner(found: PublishedComparison, words: Words) -> list[str]:
    named = names(_factors(found), words)
    lines = [words.text("published.functional")] if found.functional else []
    told = [
        words.text(
            "published.apart_factor",
            factor=named.factor(each.factor),
            published=", ".join(each.published),
            run=", ".join(each.measured) or words.text("none"),
        )
        for each in found.apart
    ]
    return [*lines, words.text("published.apart", factors="; ".join(told))] if told else lines


def _grids(found: PublishedComparison, named: Names) -> Iterator[Grid]:
    for key in dict.fromkeys((row.measure, row.metric, row.over) for row in found.rows):
        rows = [row for row in found.rows if (row.measure, row.metric, row.over) == key]
        yield _grid(rows, named, with_ratio=not found.functional)


def _grid(rows: Sequence[PublishedRow], named: Names, *, with_ratio: bool) -> Grid:
    words = named.words
    first = rows[0]
    factors = tuple(dict.fromkeys(name for row in rows for name in row.cell))
    values = [value for row in rows for value in (row.published, row.measured) if value is not None]
    by = numbers.scale(first.metric.name, first.unit, values)
    relative = any(row.published_ratio is not None and row.published_ratio != 1 for row in rows)
    statistic = words.text("published.statistic_over") if first.over else words.text("published.statistic")
    heads = [
        *map(named.factor, factors),
        statistic,
        *words.each("published.published", "published.run"),
    ]
    heads += [words.text("published.ratio")] if with_ratio else []
    heads += list(words.each("published.published_change", "published.run_change")) if relative else []
    written = []
    for row in rows:
        published, own = (
            words.text("none")
            if value is None
            else numbers.figure(value, by, _decimals(value * by.factor), words)
            for value in (row.published, row.measured)
        )
        figures = [published, numbers.at_least(own, row.is_bound, words)]
        times = words.text("none") if row.is_bound else _times(row.measured, row.published, words)
        figures += [times] if with_ratio else []
        ratio = _percent(row.measured_ratio, words)
        ratio = words.name("table.incomparable_names", row.apart) or ratio
        changes = [_percent(row.published_ratio, words), ratio]
        labels = [row.cell.get(name, "") for name in factors]
        written.append(
            (
                *labels,
                words.name("published.statistics", row.statistic),
                *figures,
                *(changes if relative else ()),
            )
        )
    metric = head(named.metric(first.metric), by.unit, words)
    places = {"measure": named.measure(first.measure), "metric": metric}
    caption = (
        words.text("table.levels_caption", over=named.factor(first.over), **places)
        if first.over
        else words.text("table.caption", **places)
    )
    return Grid(caption=caption, heads=tuple(heads), rows=tuple(written), labels=len(factors) + 1, notes=())


def _decimals(figure: float) -> int:
    """Return a number with three significant digits and at least one decimal, as in publications."""
    return max(min(numbers.decimals_exact(figure), numbers.decimals_for(0.0, figure)), FIGURE_DECIMALS)


def _times(measured: float, published: float | None, words: Words) -> str:
    return (
        words.text("published.times", ratio=f"{measured / published:.3g}")
        if published
        else words.text("none")
    )


def _percent(ratio: float | None, words: Words) -> str:
    return words.text("none") if ratio is None else numbers.percent(ratio, 0)


def _published_remarks(found: PublishedComparison, named: Names) -> Iterator[str]:
    if found.without:
        cells = dict.fromkeys(
            f"{named.measure(each.measure)}, {named.cell(each.cell)}" for each in found.without
        )
        listed = "; ".join(list(cells)[:MOST_WITHOUT])
        yield named.words.text("published.without", count=len(found.without), cells=listed)
    if found.reference and any(row.published_ratio not in (None, 1) for row in found.rows):
        yield named.words.text("published.reference", cell=named.cell(found.reference))
    yield named.words.text("published.caution")
