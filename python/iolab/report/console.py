"""Results for a terminal of at least 80 columns, as rich renderables; the command line prints them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from iolab.analysis.types import Analysis
from iolab.report import (
    environment,
    levels,
    numbers,
    packets,
    phases,
    sentences,
    tables,
    troubles,
)
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names_of
from iolab.report.selection import leading
from iolab.store.records import StoredRun

MOST_ROWS = 60
"""Maximum number of cells in a table: about two screens."""
MOST_PACKET_ROWS = 24
"""Maximum number of rows in each additional table of a measure that sends frames."""
MOST_FLOW_ROWS = 24
"""Maximum number of cells in the table of flows."""
MOST_CELLS = 8
"""Maximum number of cells whose verdict and frame accounting are shown as sentences."""
MOST_LOST = 10


def terminal(run: StoredRun, analysis: Analysis, words: Words = EN) -> RenderableType:
    """Return the state, the summary, a table per measure, and a line per kind of warning or failure."""
    named = names_of(run.plan, words)
    trials = sentences.counted(run.trials)
    parts: list[RenderableType] = [Text(run.plan.title, style="bold")]
    parts += [Text(line, style="dim") for line in sentences.states(run, trials, named)]
    parts += [Text(line, style="yellow") for line in sentences.banners(run, trials, named)]
    for shown in leading(analysis, run.plan.measures, MOST_ROWS):
        written = tables.results(shown, run, analysis, named)
        parts += ["", Text(written.caption, style="bold"), _Fitting(written, words)]
        parts += [*(Text(note, style="dim") for note in written.notes)]
        flows = tables.flows(shown, run, analysis, named, MOST_FLOW_ROWS)
        parts += _grid(flows, words) if flows is not None else []
        for grid in phases.short_grids(phases.phase_grids(shown, run, analysis, named, MOST_FLOW_ROWS)):
            parts += _grid(grid, words)
        for grid in phases.watch_grids(shown.measure, run, analysis, named, MOST_FLOW_ROWS):
            parts += _grid(grid, words)
        for grid in phases.profile_grids(shown, run, analysis, named, MOST_FLOW_ROWS):
            parts += _grid(grid, words)
        for grid in levels.level_grids(shown.measure, run, analysis, named, MOST_PACKET_ROWS):
            parts += _grid(grid, words) if not grid.folded else []
    for found in analysis.forwarding:
        for grid in packets.short_grids(found, run, analysis, named, MOST_PACKET_ROWS):
            parts += _grid(grid, words)
    for found in analysis.forwarding:
        if found.cells:
            caption = words.text("packets.verdicts", measure=named.measure(found.measure))
            parts += ["", Text(caption, style="bold")]
            parts += [Text(line) for line in packets.cell_lines(found, named, MOST_CELLS)]
    parts += [
        "",
        *(Text(line) for line in sentences.summary(analysis, run.plan.measures, named, run.plan.baseline)),
    ]
    parts += [Text(line) for line in packets.limit_lines(analysis, named)]
    legend = sentences.legend(analysis, run.plan.measures, named)
    parts += [Text(legend, style="dim")] if legend else []
    instrument = packets.instrument_lines(analysis, named) if analysis.forwarding else []
    parts += [Text(line, style="dim") for line in instrument]
    effective = environment.short_lines(trials, named, environment.SHORT)
    parts += ["", *(Text(line, style="dim") for line in effective)]
    parts += _troubles(run, analysis, named)
    return Group(*parts)


def _grid(grid: tables.Grid, words: Words) -> list[RenderableType]:
    notes = (Text(note, style="dim") for note in grid.notes)
    return ["", Text(grid.caption, style="bold"), _FittingGrid(grid, words), *notes]


@dataclass(frozen=True, slots=True)
class _FittingGrid:
    """A table that omits its last columns of figures if the terminal is too narrow."""

    grid: tables.Grid
    """Rows of the table."""
    words: Words
    """Language of the table."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=10_000)
        columns = len(self.grid.heads)
        while columns > self.grid.labels + 1:
            if Measurement.get(console, wide, self._table(columns)).maximum <= options.max_width:
                break
            columns -= 1
        yield self._table(columns)
        yield from _left_out(self.grid.heads[columns:], self.words)

    def _table(self, columns: int) -> Table:
        """Return the table with the units below the column titles."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
        for index, name in enumerate(self.grid.heads[:columns]):
            figure = index >= self.grid.labels
            head = Text(name.replace(" [", "\n["))
            table.add_column(head, justify="right" if figure else "left", no_wrap=figure, overflow="fold")
        for row in self.grid.rows:
            table.add_row(*map(Text, row[:columns]))
        return table


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A result table that omits columns if the terminal is too narrow."""

    written: tables.ResultTable
    """Rows of the table."""
    words: Words
    """Language of the table."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=10_000)
        fewer = (_Parts(False, False, side) for side in range(len(self.written.side), -1, -1))
        for shown in (_Parts(), _Parts(extremes=False), *fewer):
            table = _table(self.written, self.words, shown)
            if Measurement.get(console, wide, table).maximum <= options.max_width:
                break
        yield table
        kept = {name for name, _ in _columns(self.written, self.words, shown)}
        heads = (name for name, _ in _columns(self.written, self.words, _Parts()))
        yield from _left_out([head for head in heads if head not in kept], self.words)


def _left_out(heads: Sequence[str], words: Words) -> Iterator[Text]:
    """Return a note that names the omitted columns, so that readers do not think the values were not measured."""
    if heads:
        names = words.listed(head.partition("\n")[0].partition(" [")[0].strip() for head in heads)
        yield Text(words.text("table.left_out", columns=names), style="dim")


@dataclass(frozen=True, slots=True)
class _Parts:
    """The columns that a result table shows, in the order in which they are omitted if space is short."""

    extremes: bool = True
    """Whether the columns min and max are shown."""
    ci: bool = True
    """Whether the confidence interval of the mean is shown; the interval of the change is always shown."""
    side: int | None = None
    """Number of additional figures to show; None: all."""


def _table(written: tables.ResultTable, words: Words, parts: _Parts) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for factor in written.factors:
        table.add_column(Text(factor), overflow="fold")
    shown = list(_columns(written, words, parts))
    for name, _ in shown:
        table.add_column(Text(name), justify="right", no_wrap=True)
    figures = [column for _, column in shown]
    for index, row in enumerate(written.rows):
        texts = [*row.levels, *(column[index] for column in figures)]
        table.add_row(*map(Text, texts), style="dim" if row.reference else "")
    return table


def _columns(written: tables.ResultTable, words: Words, parts: _Parts) -> Iterator[tuple[str, Sequence[str]]]:
    rows = written.rows
    room = "  " if any(row.marked for row in rows) else ""
    means = _aligned([row.mean for row in rows])
    marks = [f" {tables.MARK}" if row.marked else room for row in rows]
    yield (
        _head(words.text("table.mean"), written.unit),
        [mean + mark for mean, mark in zip(means, marks, strict=True)],
    )
    if parts.extremes:
        yield words.text("table.min"), _aligned([row.min for row in rows])
        yield words.text("table.max"), _aligned([row.max for row in rows])
    if written.with_ci and parts.ci:
        yield words.text("table.interval"), [row.ci for row in rows]
    yield from ((name.replace(" [", "\n["), column) for name, column in written.side[: parts.side])
    yield words.text("table.n"), [row.n for row in rows]
    if written.with_change:
        yield words.text("table.change"), [row.change for row in rows]


def _head(name: str, unit: str) -> str:
    """Return a column title with the unit on a second line, to save width."""
    return f"{name}\n[{unit}]" if unit else name


def _aligned(texts: list[str]) -> list[str]:
    return numbers.align(texts, " ", " ")


def _troubles(run: StoredRun, analysis: Analysis, named: Names) -> list[RenderableType]:
    words = named.words
    trials = sentences.counted(run.trials)
    lines = []
    for warning in troubles.warnings(trials):
        text = words.text(
            "trouble.warning",
            code=warning.code,
            count=warning.count,
            total=len(trials),
            text=sentences.stop(words.said.say(warning.first)),
        )
        lines.append(sentences.advised(text, words.said.advise(warning.first), words))
    lines += [sentences.noted(note, words) for note in analysis.notes]
    lost = troubles.lost(trials)
    lines += [_lost(each, named) for each in lost[:MOST_LOST]]
    if len(lost) > MOST_LOST:
        lines.append(words.text("trouble.left_out", count=len(lost) - MOST_LOST))
    return ["", *(Text(line, style="yellow") for line in lines)] if lines else []


def _lost(lost: troubles.LostTrials, named: Names) -> str:
    words = named.words
    where = (named.measure(lost.measure), named.cell(lost.cell))
    return words.text(
        "trouble.terminal_trial",
        status=words.name("trouble.statuses", lost.status),
        where=named.words.listed(filter(None, where)),
        count=len(lost.blocks),
        reason=named.words.said.say_any(lost.reason),
    )
