"""A run as text and tables for a README, a pull request or a wiki, in Markdown or PukiWiki markup."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from iolab.analysis.types import Analysis
from iolab.plan.types import unsupported
from iolab.report import environment, levels, packets, phases, sentences, tables, troubles
from iolab.report.environment import in_effect_grid
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names_of
from iolab.report.selection import leading
from iolab.store.records import StoredRun

MOST_ROWS = 120
MOST_LOST = 30


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$@!])")
_LINE_BREAKS = re.compile(r"\s*[\r\n]+\s*")
_WORD = re.compile(r"(?<![A-Za-z])((?:[A-Z][a-z]+){2,})(?![A-Za-z])")
"""Text that PukiWiki would read as a page name."""
_PUKIWIKI = re.compile(r"[\[\]|&'%~@{}]|\((?=\()|:(?=//)|(?<=[A-Z)]):|^[*\-+:,><#/ ]")
"""Text that is markup in PukiWiki: anywhere, if doubled, before an address, after a word in a table cell, or at the
start of a line."""


class Markup(Protocol):
    """Interface of a markup language."""

    def escape(self, raw: str) -> str:
        """Return a text on one line, with markup characters escaped."""
        ...

    def heading(self, depth: int, text: str) -> str:
        """Return a heading of depth 1 (the title) or 2.

        The text must be escaped already; this also applies to captions, quotation blocks and lists.
        """
        ...

    def strong(self, text: str) -> str:
        """Return a caption."""
        ...

    def quote(self, text: str) -> str:
        """Return a quotation block, for text that must be read first."""
        ...

    def bullets(self, lines: Iterable[tuple[int, str]]) -> str:
        """Return a list; each line has a depth, from 0."""
        ...

    def grid(self, heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
        """Return a table of unescaped texts; the first `labels` columns contain words, the other columns contain
        figures."""
        ...


class Markdown:
    """GitHub-flavoured Markdown."""

    def escape(self, raw: str) -> str:
        """Return a text with Markdown, HTML, mentions and line breaks escaped."""
        return _MARKDOWN.sub(r"\\\1", _LINE_BREAKS.sub(" ", raw))

    def heading(self, depth: int, text: str) -> str:
        """Return a heading."""
        return f"{'#' * depth} {text}"

    def strong(self, text: str) -> str:
        """Return a caption."""
        return f"**{text}**"

    def quote(self, text: str) -> str:
        """Return a quotation block."""
        return f"> {text}"

    def bullets(self, lines: Iterable[tuple[int, str]]) -> str:
        """Return a list."""
        return "\n".join(f"{'  ' * depth}- {text}" for depth, text in lines)

    def grid(self, heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
        """Return a table."""
        rule = ["---"] * labels + ["--:"] * (len(heads) - labels)
        lines = [map(self.escape, heads), rule, *(map(self.escape, row) for row in rows)]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


class PukiWiki:
    """PukiWiki 1.5 markup: asterisks start headings, bars separate table cells, a header row ends with h."""

    def escape(self, raw: str) -> str:
        """Return a text with markup characters as character references (&#124;)."""
        plain = _LINE_BREAKS.sub(" ", raw)
        plain = _PUKIWIKI.sub(lambda found: f"&#{ord(found.group())};", plain)
        return _WORD.sub(lambda found: f"&#{ord(found.group()[0])};{found.group()[1:]}", plain)

    def heading(self, depth: int, text: str) -> str:
        """Return a heading."""
        return f"{'*' * depth} {text}"

    def strong(self, text: str) -> str:
        """Return a caption."""
        return f"''{text}''"

    def quote(self, text: str) -> str:
        """Return a quotation block."""
        return f"> {text}"

    def bullets(self, lines: Iterable[tuple[int, str]]) -> str:
        """Return a list, up to three levels deep."""
        return "\n".join(f"{'-' * min(depth + 1, 3)} {text}" for depth, text in lines)

    def grid(self, heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
        """Return a table: words are left-aligned, figures right-aligned."""
        sides = ["LEFT:"] * labels + ["RIGHT:"] * (len(heads) - labels)
        head = "|" + "|".join(f"~{self.escape(text)}" for text in heads) + "|h"
        lines = ("|" + "|".join(map(self._cell, sides, row)) + "|" for row in rows)
        return "\n".join((head, *lines))

    def _cell(self, side: str, text: str) -> str:
        return f"{side}{self.escape(text)}" if text else ""


MARKDOWN = Markdown()


def text(
    run: StoredRun, analysis: Analysis, version: str, words: Words = EN, markup: Markup = MARKDOWN
) -> str:
    """Return a run as text, in Markdown or the given markup."""
    return _Text(markup).whole(run, analysis, version, words)


class _Text:
    """The parts of the text, in one markup language."""

    def __init__(self, markup: Markup) -> None:
        self._as = markup

    def whole(self, run: StoredRun, analysis: Analysis, version: str, words: Words) -> str:
        """Return the whole text."""
        named = names_of(run.plan, words)
        trials = sentences.counted(run.trials)
        blocks = [
            self._heading(1, run.plan.title),
            *map(self._as.escape, sentences.states(run, trials, named)),
        ]
        blocks += [self._as.quote(self._as.escape(line)) for line in sentences.banners(run, trials, named)]
        blocks += [self._heading(2, words.text("page.summary")), *self._summary(run, analysis, named)]
        blocks.append(self._heading(2, words.text("page.results")))
        for shown in leading(analysis, run.plan.measures, MOST_ROWS):
            blocks += self._results(tables.results(shown, run, analysis, named), words)
            flows = tables.flows(shown, run, analysis, named, MOST_ROWS)
            blocks += self._grid(flows) if flows is not None else []
            for each in phases.phase_grids(shown, run, analysis, named, MOST_ROWS):
                blocks += self._grid(each)
            for seen in phases.watch_grids(shown.measure, run, analysis, named, MOST_ROWS):
                blocks += self._grid(seen)
            for summed in levels.level_grids(shown.measure, run, analysis, named, MOST_ROWS):
                blocks += self._grid(summed)
            for found in analysis.forwarding:
                if found.measure == shown.measure:
                    grids = packets.result_grids(found, run, analysis, named, MOST_ROWS)
                    blocks += [block for each in grids for block in self._grid(each)]
        blocks += self._limits(run, analysis, named) if analysis.forwarding or analysis.streams else []
        blocks += self._instrument(run, analysis, named) if analysis.forwarding else []
        effective = in_effect_grid(trials, named)
        if effective is not None:
            blocks += [
                self._heading(2, effective.caption),
                self._as.grid(effective.heads, effective.rows, effective.labels),
            ]
        blocks += [self._heading(2, words.text("page.troubles")), *self._troubles(run, analysis, named)]
        blocks += [self._heading(2, words.text("page.environment")), *self._environment(run, words)]
        blocks += [self._heading(2, words.text("page.repeat")), self._repeat(run, version, words)]
        return "\n\n".join(blocks) + "\n"

    def _summary(self, run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
        measures = run.plan.measures
        lines = self._list(sentences.summary(analysis, measures, named, run.plan.baseline))
        notes = [
            sentences.legend(analysis, measures, named),
            *sentences.resolution(analysis, measures, named),
        ]
        return [lines, *(self._as.escape(note) for note in notes if note)]

    def _results(self, written: tables.ResultTable, words: Words) -> list[str]:
        heads = [
            *written.factors,
            tables.head(words.text("table.mean"), written.unit, words),
            *words.each("table.min", "table.max"),
        ]
        heads += [
            *([words.text("table.interval")] if written.with_ci else []),
            *(name for name, _ in written.side),
            words.text("table.n"),
            *([words.text("table.change")] if written.with_change else []),
        ]
        rows = []
        for index, row in enumerate(written.rows):
            mean = f"{row.mean} {tables.MARK}" if row.marked else row.mean
            side = [column[index] for _, column in written.side]
            ci, change = ([row.ci] if written.with_ci else []), ([row.change] if written.with_change else [])
            rows.append([*row.levels, mean, row.min, row.max, *ci, *side, row.n, *change])
        notes = [self._list(written.notes)] if written.notes else []
        return [
            self._as.strong(self._as.escape(written.caption)),
            self._as.grid(heads, rows, len(written.factors)),
            *notes,
        ]

    def _grid(self, written: tables.Grid) -> list[str]:
        notes = [self._list(written.notes)] if written.notes else []
        return [
            self._as.strong(self._as.escape(written.caption)),
            self._as.grid(written.heads, written.rows, written.labels),
            *notes,
        ]

    def _limits(self, run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
        """Return the limits of the rates, of streams and of frames."""
        words = named.words
        blocks = [self._heading(2, words.text("packets.limits"))]
        lines = packets.limit_lines(analysis, named)
        blocks += [self._list(lines)] if lines else []
        for streams in analysis.streams:
            blocks += self._grid(packets.stream_grid(streams, run, named, MOST_ROWS))
        for found in analysis.forwarding:
            if found.cells:
                blocks += self._grid(packets.verdict_grid(found, run, named, MOST_ROWS))
                blocks += self._grid(packets.balance_grid(found, run, named, MOST_ROWS))
            else:
                blocks.append(
                    self._as.escape(words.text("packets.no_samples", measure=named.measure(found.measure)))
                )
        return blocks

    def _instrument(self, run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
        """Return the description of the instrument that measured frames, and its calibration."""
        words = named.words
        blocks = [self._heading(2, words.text("packets.instrument"))]
        lines = packets.instrument_lines(analysis, named)
        blocks += [self._list(lines)] if lines else []
        paths = packets.path_grid(analysis.forwarding, named, MOST_ROWS)
        blocks += self._grid(paths) if paths is not None else []
        known = packets.calibration(run, named.words)
        facts = (
            self._as.bullets(self._facts(known, 0))
            if known
            else self._as.escape(words.text("packets.no_calibration"))
        )
        return [*blocks, self._as.strong(self._as.escape(words.text("packets.calibration"))), facts]

    def _facts(self, entries: Sequence[environment.Fact], depth: int) -> Iterator[tuple[int, str]]:
        for fact in entries:
            yield depth, self._as.escape(f"{fact.name}: {fact.text}" if fact.text else fact.name)
            yield from self._facts(fact.parts, depth + 1)

    def _heading(self, depth: int, raw: str) -> str:
        return self._as.heading(depth, self._as.escape(raw))

    def _list(self, lines: Iterable[str]) -> str:
        return self._as.bullets((0, self._as.escape(line)) for line in lines)

    def _troubles(self, run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
        words, said = named.words, named.words.said
        trials = sentences.counted(run.trials)
        found, lost, lacking = (
            troubles.warnings(trials),
            troubles.lost(trials),
            unsupported(run.plan),
        )
        blocks = []
        if found:
            rows = [
                [each.code, str(each.count), troubles.places(each, named), said.say(each.first),
                 said.advise(each.first)]
                for each in found
            ]  # fmt: skip
            columns = ("trouble.code", "trouble.count", "trouble.places", "trouble.example", "trouble.advice")
            blocks.append(self._as.grid([*words.each(*columns)], rows, 5))
        if lost:
            rows = [
                [words.name("trouble.statuses", each.status), named.measure(each.measure), named.cell(each.cell),
                 troubles.block_list(each.blocks, words), said.say_any(each.reason)]
                for each in lost[:MOST_LOST]
            ]  # fmt: skip
            heads = [
                *words.each(
                    "trouble.status", "table.measure", "trouble.cell", "trouble.blocks", "trouble.reason"
                ),
            ]
            blocks.append(self._as.grid(heads, rows, 5))
            if len(lost) > MOST_LOST:
                blocks.append(words.text("trouble.left_out", count=len(lost) - MOST_LOST))
        if lacking:
            rows = [
                [
                    words.text("trouble.unsupported"),
                    named.measure(each.measure),
                    str(each.count),
                    said.say(each.reason),
                ]
                for each in lacking
            ]
            blocks.append(
                self._as.grid(
                    [
                        *words.each("trouble.status", "table.measure", "trouble.cell", "trouble.reason"),
                    ],
                    rows,
                    4,
                )
            )
        notes = [sentences.noted(note, named.words) for note in analysis.notes]
        blocks += [self._list(notes)] if notes else []
        return blocks or [words.text("trouble.none")]

    def _environment(self, run: StoredRun, words: Words) -> list[str]:
        facts = packets.other_facts(run, words)
        if not facts:
            return [words.text("page.no_facts")]
        return [self._list(f"{fact.name}: {fact.text}" for fact in facts if fact.text)]

    def _repeat(self, run: StoredRun, version: str, words: Words) -> str:
        entries = (
            ("page.run", run.name),
            ("page.seed", str(run.plan.seed)),
            ("page.blocks", str(run.plan.blocks)),
            ("page.digest", run.plan.digest),
            ("page.version", version),
        )
        return self._list(f"{words.text(key)}: {value}" for key, value in entries)
