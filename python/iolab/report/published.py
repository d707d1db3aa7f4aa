"""A run beside published figures: a table per measure and metric, for a terminal and as Markdown."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iolab.analysis.published import PublishedComparison, PublishedRow
from iolab.report import numbers
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names
from iolab.report.readme import MARKDOWN
from iolab.report.tables import Grid, head

MOST_WITHOUT = 5
FIGURE_DECIMALS = 1


def beside_published(found: PublishedComparison, words: Words = EN) -> RenderableType:
    """Render for the terminal."""
    named = names(_factors(found), words)
    parts: list[RenderableType] = [Text(_title(found, words), style="bold")]
    parts += [Text(line, style="yellow") for line in _banner(found, words)]
    for written in _grids(found, named):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
        for index, name in enumerate(written.heads):
            table.add_column(Text(name), justify="left" if index < written.labels else "right", no_wrap=True)
        for row in written.rows:
            table.add_row(*map(Text, row))
        parts += ["", Text(written.caption, style="bold"), table]
    parts += [Text(line, style="dim") for line in _remarks(found, named)]
    return Group(*parts)


def beside_published_text(found: PublishedComparison, words: Words = EN) -> str:
    """Render as Markdown."""
    named = names(_factors(found), words)
    blocks = [f"# {MARKDOWN.escape(_title(found, words))}", *map(MARKDOWN.escape, _banner(found, words))]
    for written in _grids(found, named):
        blocks += [
            f"**{MARKDOWN.escape(written.caption)}**",
            MARKDOWN.grid(written.heads, written.rows, written.labels),
        ]
    blocks += [MARKDOWN.escape(line) for line in _remarks(found, named)]
    return "\n\n".join(blocks) + "\n"


def _factors(found: PublishedComparison) -> tuple[str, ...]:
    """Factors that need a name: of cells, and those that were summed up over."""
    return (*found.factors, *found.reference, *(row.over for row in found.rows if row.over))


def _title(found: PublishedComparison, words: Words) -> str:
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
    """Three digits where it has so many, and one behind the point always, as publications have it."""
    return max(min(numbers.decimals_exact(figure), numbers.decimals_for(0.0, figure)), FIGURE_DECIMALS)


def _times(measured: float, published: float | None, words: Words) -> str:
    return (
        words.text("published.times", ratio=f"{measured / published:.3g}")
        if published
        else words.text("none")
    )


def _percent(ratio: float | None, words: Words) -> str:
    return words.text("none") if ratio is None else numbers.percent(ratio, 0)


def _remarks(found: PublishedComparison, named: Names) -> Iterator[str]:
    if found.without:
        cells = dict.fromkeys(
            f"{named.measure(each.measure)}, {named.cell(each.cell)}" for each in found.without
        )
        listed = "; ".join(list(cells)[:MOST_WITHOUT])
        yield named.words.text("published.without", count=len(found.without), cells=listed)
    if found.reference and any(row.published_ratio not in (None, 1) for row in found.rows):
        yield named.words.text("published.reference", cell=named.cell(found.reference))
    yield named.words.text("published.caution")
