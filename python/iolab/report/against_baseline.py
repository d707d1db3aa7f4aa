"""Sentences on changes against the baseline, per cell: round-trip times under load, and phases of disk programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iolab.analysis.types import Analysis, Estimate, cell_key
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.selection import ROUND_TRIP, Shown, is_baseline, is_timed
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

PHASES = (
    "cached", "buffered", "write", "read", "put-byte", "put-block", "rewrite", "get-byte", "get-block", "seeks",
)  # fmt: skip
"""Phases of disk programs that get a sentence each; the results of creating and deleting files are only in the
table."""
RATE, OPERATIONS = "disk_bytes_per_s", "disk_operations_per_s"
MOST_CELLS = 12
"""Maximum number of cells in one sentence; the table has all cells."""


def under_load(
    analysis: Analysis, measures: Sequence[str], baseline: Mapping[str, str], names: Names
) -> Iterator[tuple[str, str]]:
    """Yield each measure with round-trip times and a sentence that compares its cells with their baseline."""
    timed = [name for name in measures if is_timed(analysis, name)]
    if len(timed) == len(measures):
        return
    words = names.words
    for measure in timed:
        estimates = list(analysis.estimates.by_metric[measure, ROUND_TRIP])
        changed = [_changed(one, estimates, baseline, names) for one in estimates]
        clauses = [text for text in changed if text][:MOST_CELLS]
        if clauses:
            metric = names.metric(ROUND_TRIP)
            changes = names.words.text("wire.clauses").join(clauses)
            yield (
                measure,
                words.text(
                    "summary.under_load", measure=names.measure(measure), metric=metric, changes=changes
                ),
            )


def phases(
    analysis: Analysis, measures: Sequence[str], baseline: Mapping[str, str], names: Names
) -> Iterator[tuple[str, str]]:
    """Yield each disk program with a sentence per phase: all cells at the largest block size, and their changes."""
    for measure in measures:
        every = analysis.estimates.of_measure(measure)
        found = [
            of
            for of in every
            if of.name in (RATE, OPERATIONS) and of.dimensions.part in PHASES and of.dimensions.depth is None
        ]
        largest = {
            part: max((of for of in found if of.dimensions.part == part), key=_block)
            for part in sorted({of.dimensions.part or "" for of in found}, key=PHASES.index)
        }
        for of in largest.values():
            cells = list(every[of])
            if len(cells) > 1:
                by = numbers.scale(of.name, cells[0].unit, [one.mean for one in cells])
                texts = [_phase_cell(one, by, baseline, names) for one in cells[:MOST_CELLS]]
                listed = names.words.text("wire.clauses").join(texts)
                yield (
                    measure,
                    names.words.text(
                        "summary.phase",
                        measure=names.measure(measure),
                        phase=names.component(of.dimensions),
                        cells=listed,
                    ),
                )


def _phase_cell(one: Estimate, by: numbers.Scale, baseline: Mapping[str, str], names: Names) -> str:
    words = names.words
    value = _written(one, by, names)
    if one.ratio is None or is_baseline(one.cell, baseline):
        return words.text("summary.phase_cell", cell=names.cell(one.cell), value=value)
    change = numbers.change(one.ratio, one.ratio_ci, names.words)
    return words.text("summary.phase_cell_changed", cell=names.cell(one.cell), value=value, change=change)


def _written(one: Estimate, by: numbers.Scale, names: Names) -> str:
    text = numbers.quantity(one.mean, by, numbers.estimate_decimals(one, by), names.words)
    return numbers.at_least(text, one.bounds > 0, names.words)


def _block(of: Quantity) -> int:
    return of.dimensions.block_bytes or 0


def _changed(one: Estimate, estimates: Sequence[Estimate], baseline: Mapping[str, str], names: Names) -> str:
    """Return the comparison of a cell with its baseline as text; empty if the cell is the baseline or has no
    baseline."""
    touched = {name: label for name, label in baseline.items() if name in one.cell}
    if is_baseline(one.cell, baseline):
        return ""
    wanted = cell_key({**one.cell, **touched})
    below = next((each for each in estimates if cell_key(each.cell) == wanted), None)
    if below is None:
        return ""
    by = numbers.scale(ROUND_TRIP.name, one.unit, [one.mean, below.mean])
    value, value_there = (_written(each, by, names) for each in (one, below))
    own = {name: label for name, label in one.cell.items() if name in touched}
    rest = names.cell(one.cell, without=touched)
    words = names.words
    sentence = (
        words.text("summary.under_load_cell")
        if one.ratio is not None
        else words.text("summary.under_load_cell_alone")
    )
    return sentence.format(
        cell=f"{rest}: " if rest else "",
        level=names.cell(own),
        value=value,
        reference=names.cell(touched),
        value_there=value_there,
        change=numbers.change(one.ratio, one.ratio_ci, names.words),
    )


def without_baseline(shown: Shown, run: StoredRun, names: Names) -> list[str]:
    """Return a note that explains why percentages are missing from the table."""
    used = {factor for each in shown.estimates for factor in each.cell}
    baseline = {factor: label for factor, label in run.plan.baseline.items() if factor in used}
    lacking = sum(each.ratio is None for each in shown.estimates)
    apart = dict.fromkeys(each.apart for each in shown.estimates if each.apart)
    if apart:
        words = names.words
        reasons = names.words.listed(words.name("table.incomparable_names", code) for code in apart)
        return [words.text("table.incomparable", count=lacking, total=len(shown.estimates), reasons=reasons)]
    if not baseline or not lacking:
        return []
    fixed = run.plan.fixed()
    elsewhere = {factor: label for factor, label in baseline.items() if fixed.get(factor, label) != label}
    if elsewhere:
        text, levels = (
            names.words.text("table.baseline_elsewhere"),
            replace(names, fixed=frozenset()).cell(elsewhere),
        )
        return [text.format(count=lacking, total=len(shown.estimates), levels=levels)]
    text = names.words.text("table.no_baseline")
    return [text.format(count=lacking, total=len(shown.estimates), baseline=names.cell(baseline))]
