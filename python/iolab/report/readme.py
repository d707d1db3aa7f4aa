"""Markdown for a repository's README or a pull request: summary, tables, warnings, environment."""

import re
from collections.abc import Iterable, Sequence

from iolab.analysis.types import Analysis
from iolab.report import environment, levels, packets, phases, sentences, tables, troubles
from iolab.report.names import Names, names_of
from iolab.report.selection import leading
from iolab.report.words import EN, Words
from iolab.store.records import StoredRun

MOST_ROWS = 120
MOST_LOST = 30
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$@!])")
_LINE_BREAKS = re.compile(r"\s*[\r\n]+\s*")


def text(run: StoredRun, analysis: Analysis, version: str, words: Words = EN) -> str:
    """Render a run as GitHub-flavoured Markdown."""
    named = names_of(run.plan, words)
    trials = sentences.counted(run.trials)
    blocks = [f"# {escape(run.plan.title)}", *map(escape, sentences.states(run, trials, named))]
    blocks += [f"> {escape(line)}" for line in sentences.banners(run, trials, named)]
    blocks += [f"## {words.page.summary}", *_summary(run, analysis, named)]
    blocks.append(f"## {words.page.results}")
    for shown in leading(analysis, run.plan.measures, MOST_ROWS):
        blocks += _results(tables.results(shown, run, analysis, named), words)
        flows = tables.flows(shown, run, analysis, named, MOST_ROWS)
        blocks += _grid(flows) if flows is not None else []
        for each in phases.phase_grids(shown, run, analysis, named, MOST_ROWS):
            blocks += _grid(each)
        for summed in levels.level_grids(shown.measure, run, analysis, named, MOST_ROWS):
            blocks += _grid(summed)
        for found in analysis.forwarding:
            if found.measure == shown.measure:
                grids = packets.result_grids(found, run, analysis, named, MOST_ROWS)
                blocks += [block for each in grids for block in _grid(each)]
    blocks += _limits(run, analysis, named) if analysis.forwarding or analysis.streams else []
    blocks += _instrument(run, analysis, named) if analysis.forwarding else []
    blocks += [f"## {words.page.troubles}", *_troubles(run, analysis, named)]
    blocks += [f"## {words.page.environment}", *_environment(run, words)]
    blocks += [f"## {words.page.repeat}", _repeat(run, version, words)]
    return "\n\n".join(blocks) + "\n"


def escape(raw: str) -> str:
    """Make a text show as it is: no markup, no HTML, no mention, no line break."""
    return _SPECIAL.sub(r"\\\1", _LINE_BREAKS.sub(" ", raw))


def _summary(run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
    measures = run.plan.measures
    lines = "\n".join(f"- {escape(line)}" for line in sentences.summary(analysis, measures, named))
    notes = [sentences.legend(analysis, measures, named), *sentences.resolution(analysis, measures, named)]
    return [lines, *(escape(note) for note in notes if note)]


def _results(written: tables.ResultTable, words: Words) -> list[str]:
    text = words.table
    heads = [*written.factors, tables.head(text.mean, written.unit, words), text.min, text.max]
    heads += [
        *([text.interval] if written.with_ci else []),
        *(name for name, _ in written.side),
        text.n,
        *([text.change] if written.with_change else []),
    ]
    rows = []
    for index, row in enumerate(written.rows):
        mean = f"{row.mean} {tables.MARK}" if row.marked else row.mean
        side = [column[index] for _, column in written.side]
        ci, change = ([row.ci] if written.with_ci else []), ([row.change] if written.with_change else [])
        rows.append([*row.levels, mean, row.min, row.max, *ci, *side, row.n, *change])
    notes = ["\n".join(f"- {escape(note)}" for note in written.notes)] if written.notes else []
    return [f"**{escape(written.caption)}**", grid(heads, rows, len(written.factors)), *notes]


def _grid(written: tables.Grid) -> list[str]:
    notes = ["\n".join(f"- {escape(note)}" for note in written.notes)] if written.notes else []
    return [f"**{escape(written.caption)}**", grid(written.heads, written.rows, written.labels), *notes]


def _limits(run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
    """What limited the rates, of streams and of frames."""
    text = named.words.packets
    blocks = [f"## {text.limits}"]
    lines = packets.limit_lines(analysis, named)
    blocks += ["\n".join(f"- {escape(line)}" for line in lines)] if lines else []
    for streams in analysis.streams:
        blocks += _grid(packets.stream_grid(streams, run, named, MOST_ROWS))
    for found in analysis.forwarding:
        if found.cells:
            blocks += _grid(packets.verdict_grid(found, run, named, MOST_ROWS))
            blocks += _grid(packets.balance_grid(found, run, named, MOST_ROWS))
        else:
            blocks.append(escape(text.no_samples.format(measure=named.measure(found.measure))))
    return blocks


def _instrument(run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
    """What measured frames, and what it was known to be able to."""
    text = named.words.packets
    blocks = [f"## {text.instrument}"]
    lines = packets.instrument_lines(analysis, named)
    blocks += ["\n".join(f"- {escape(line)}" for line in lines)] if lines else []
    paths = packets.path_grid(analysis.forwarding, named, MOST_ROWS)
    blocks += _grid(paths) if paths is not None else []
    known = packets.calibration(run, named.words)
    facts = "\n".join(_facts(known, 0)) if known else escape(text.no_calibration)
    return [*blocks, f"**{escape(text.calibration)}**", facts]


def _facts(entries: Sequence[environment.Fact], depth: int) -> Iterable[str]:
    for fact in entries:
        yield f"{'  ' * depth}- {escape(fact.name)}" + (f": {escape(fact.text)}" if fact.text else "")
        yield from _facts(fact.parts, depth + 1)


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
    """Lay out a table; its first `labels` columns are words, the others figures."""
    rule = ["---"] * labels + ["--:"] * (len(heads) - labels)
    lines = [map(escape, heads), rule, *(map(escape, row) for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _troubles(run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
    words, said = named.words.trouble, named.words.said
    trials = sentences.counted(run.trials)
    found, lost, lacking = troubles.warnings(trials), troubles.lost(trials), troubles.unsupported(run.plan)
    blocks = []
    if found:
        rows = [[each.code, str(each.count), said.say(each.first), said.advise(each.first)] for each in found]
        blocks.append(grid([words.code, words.count, words.example, words.advice], rows, 4))
    if lost:
        rows = [
            [getattr(words, each.status.value), named.measure(each.measure), named.cell(each.cell),
             troubles.block_list(each.blocks, named.words.comma), said.say_any(each.reason)]
            for each in lost[:MOST_LOST]
        ]  # fmt: skip
        heads = [words.status, named.words.table.measure, words.cell, words.blocks, words.reason]
        blocks.append(grid(heads, rows, 5))
        if len(lost) > MOST_LOST:
            blocks.append(words.left_out.format(count=len(lost) - MOST_LOST))
    if lacking:
        rows = [
            [words.unsupported, named.measure(each.measure), str(each.count), said.say(each.reason)]
            for each in lacking
        ]
        blocks.append(grid([words.status, named.words.table.measure, words.cell, words.reason], rows, 4))
    notes = [sentences.noted(note, named.words) for note in analysis.notes]
    blocks += ["\n".join(f"- {escape(note)}" for note in notes)] if notes else []
    return blocks or [words.none]


def _environment(run: StoredRun, words: Words) -> list[str]:
    facts = packets.other_facts(run, words)
    if not facts:
        return [words.page.no_facts]
    return ["\n".join(f"- {escape(fact.name)}: {escape(fact.text)}" for fact in facts if fact.text)]


def _repeat(run: StoredRun, version: str, words: Words) -> str:
    page = words.page
    entries = [
        (page.run, run.name), (page.seed, str(run.plan.seed)), (page.blocks, str(run.plan.blocks)),
        (page.digest, run.plan.digest), (page.version, version),
    ]  # fmt: skip
    return "\n".join(f"- {name}: {escape(value)}" for name, value in entries)
