"""Two runs compared: a table per measure and a sentence over all its cells, for a terminal and as Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iolab.analysis.comparison import CellComparison, Comparison, LoneCell, OverallComparison
from iolab.analysis.unlike import OTHER_METHOD
from iolab.report import numbers, sentences
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names
from iolab.report.readme import MARKDOWN
from iolab.report.tables import head, limits

MOST_ROWS = 60
MOST_LONE = 5


@dataclass(frozen=True, slots=True)
class _Part:
    """One measure's table."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int
    """How many of the columns are factors."""
    note: str
    """What was left out; empty where nothing was."""


def comparison(compared: Comparison, words: Words = EN) -> RenderableType:
    """Render a comparison for the terminal."""
    named = _names(compared, words)
    parts: list[RenderableType] = [Text(_title(compared, words), style="bold")]
    for part in _parts(compared, named):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
        for index, name in enumerate(part.heads):
            figure = part.labels <= index < len(part.heads) - 1
            table.add_column(Text(name), justify="right" if figure else "left", no_wrap=True)
        for row in part.rows:
            table.add_row(*map(Text, row))
        parts += ["", Text(part.caption, style="bold"), table]
        parts += [Text(part.note, style="dim")] if part.note else []
    parts += ["", *(Text(line) for line in _overall(compared, named))]
    parts += [Text(line, style="yellow") for line in _remarks(compared, named)]
    return Group(*parts)


def comparison_text(compared: Comparison, words: Words = EN) -> str:
    """Render a comparison as Markdown."""
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
    """Both means, with the digits that the interval of their ratio supports."""
    size = max(abs(cell.mean_a), abs(cell.mean_b)) * by.factor
    relative = (cell.ci.high - cell.ci.low) / 2 if cell.ci is not None else 0.0
    decimals = numbers.decimals_for(relative * size, size)
    first, second = (numbers.figure(mean, by, decimals, words) for mean in (cell.mean_a, cell.mean_b))
    return (
        numbers.at_least(first, bool(cell.limited_a), words),
        numbers.at_least(second, bool(cell.limited_b), words),
    )


def _compared(cell: CellComparison, words: Words) -> str:
    """Say whether a difference is shown, or what of the instrument keeps it from being known."""
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
