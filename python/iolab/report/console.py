"""The result in a terminal, 80 columns and up, as rich renderables; printing is the command line's business."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iolab.analysis.types import Analysis
from iolab.report import numbers, sentences, tables, troubles
from iolab.report.names import Names, names
from iolab.report.selection import leading
from iolab.report.words import EN, Words
from iolab.store.records import StoredRun

MOST_ROWS = 60
"""Cells that still fit into a scrolled screen or two."""
MOST_LOST = 10


def terminal(run: StoredRun, analysis: Analysis, words: Words = EN) -> RenderableType:
    """Render state, summary, one table per measure, and a line per kind of trouble."""
    named = names([factor.name for factor in run.plan.factors], words)
    trials = sentences.counted(run.trials)
    parts: list[RenderableType] = [Text(run.plan.title, style="bold"), Text(sentences.state(run, trials, words), style="dim")]
    parts += [Text(line, style="yellow") for line in (sentences.progress(run, trials, words), sentences.functional(trials, named)) if line]
    for shown in leading(analysis, run.plan.measures, MOST_ROWS):
        written = tables.results(shown, run, analysis, named)
        parts += ["", _table(written, words), *(Text(note, style="dim") for note in written.notes)]
    parts += ["", *(Text(line) for line in sentences.summary(analysis, run.plan.measures, named))]
    legend = sentences.legend(analysis, run.plan.measures, named)
    parts += [Text(legend, style="dim")] if legend else []
    parts += _troubles(run, named)
    return Group(*parts)


def _table(written: tables.ResultTable, words: Words) -> Table:
    text = words.table
    table = Table(title=Text(written.caption, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for factor in written.factors:
        table.add_column(Text(factor), overflow="fold")
    figures = [text.min, text.max, text.interval] if written.with_ci else [text.min, text.max]
    table.add_column(Text(tables.head(text.mean, written.unit, words)), justify="right", no_wrap=True)
    for name in (*figures, text.n):
        table.add_column(Text(name), justify="right", no_wrap=True)
    if written.with_change:
        table.add_column(Text(text.change), justify="right", no_wrap=True)
    means, lows, highs = (_aligned([getattr(row, name) for row in written.rows]) for name in ("mean", "min", "max"))
    for row, mean, low, high in zip(written.rows, means, lows, highs, strict=True):
        marked = f"{mean} {tables.MARK}" if row.marked else f"{mean}  " if any(each.marked for each in written.rows) else mean
        texts = [*row.levels, marked, low, high, *([row.ci] if written.with_ci else []), row.n]
        table.add_row(*map(Text, texts), *([Text(row.change)] if written.with_change else []), style="dim" if row.reference else "")
    return table


def _aligned(texts: list[str]) -> list[str]:
    return numbers.align(texts, " ", " ")


def _troubles(run: StoredRun, named: Names) -> list[RenderableType]:
    words = named.words
    trials = sentences.counted(run.trials)
    lines = []
    for warning in troubles.warnings(trials):
        text = words.trouble.warning.format(code=warning.code, count=warning.count, total=len(trials), text=sentences.stop(warning.text))
        lines.append(words.trouble.advice_after.format(text=text, advice=sentences.stop(warning.advice)) if warning.advice else text)
    lost = troubles.lost(trials)
    lines += [_lost(each, named) for each in lost[:MOST_LOST]]
    if len(lost) > MOST_LOST:
        lines.append(words.trouble.left_out.format(count=len(lost) - MOST_LOST))
    return ["", *(Text(line, style="yellow") for line in lines)] if lines else []


def _lost(lost: troubles.LostTrials, named: Names) -> str:
    words = named.words.trouble
    return words.terminal_trial.format(
        status=getattr(words, lost.status.value),
        measure=named.measure(lost.measure),
        cell=named.cell(lost.cell),
        count=len(lost.blocks),
        reason=lost.reason,
    )
