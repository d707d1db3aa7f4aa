"""Warnings, failed and invalid trials; equal warnings and failures are merged and counted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iolab.messages.failures import Failure
from iolab.messages.warnings import TrialWarning
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.results.trial import Status
from iolab.store.records import TrialRecord

MOST_BLOCKS = 12
"""Maximum number of block numbers in a list."""
MOST_PLACES = 6
"""Maximum number of cells listed for a warning."""


@dataclass(frozen=True, slots=True)
class WarningCount:
    """A warning code and cause with the number of trials that have it."""

    code: str
    """The code."""
    count: int
    """Number of trials with the warning."""
    first: TrialWarning
    """The first warning with this code."""
    measure: str
    """Measure of the first trial with the warning."""
    cell: Mapping[str, str]
    """Cell of the first trial with the warning."""
    block: int
    """Block of the first trial with the warning."""
    where: tuple[tuple[str, Mapping[str, str], int], ...]
    """Measure, cell, and number of trials with the warning, the most frequent first."""


@dataclass(frozen=True, slots=True)
class LostTrials:
    """Unsuccessful trials of one cell that have the same reason."""

    status: Status
    """Failed or invalid."""
    measure: str
    """Name of the measure."""
    cell: Mapping[str, str]
    """Factor to label."""
    reason: Failure | None
    """The recorded reason."""
    blocks: tuple[int, ...]
    """Blocks of the trials."""


def warnings(trials: Iterable[TrialRecord]) -> list[WarningCount]:
    """Count warnings by code and cause, the most frequent first; each trial counts once."""
    found: dict[tuple[str, str], list[tuple[TrialRecord, TrialWarning]]] = {}
    for trial in trials:
        own = {(each.code, _cause(each)): each for each in reversed(trial.result.warnings)}
        for kind, warning in own.items():
            found.setdefault(kind, []).append((trial, warning))
    order = sorted(found, key=lambda kind: (-len(found[kind]), kind))
    return [_counted(kind[0], found[kind]) for kind in order]


def _cause(warning: TrialWarning) -> str:
    """Return the code of a warning's cause, which decides its advice; empty if it has one advice."""
    return str(getattr(getattr(warning, "cause", None), "code", ""))


def _counted(code: str, seen: list[tuple[TrialRecord, TrialWarning]]) -> WarningCount:
    trial, warning = seen[0]
    cells = Counter((each.measure, tuple(each.cell.items())) for each, _ in seen)
    where = tuple((measure, dict(cell), count) for (measure, cell), count in cells.most_common())
    return WarningCount(code, len(seen), warning, trial.measure, trial.cell, trial.block, where)


def places(warning: WarningCount, named: Names) -> str:
    """Return the cells that have a warning, with the number of trials, the most frequent first."""
    words = named.words
    shown = [
        words.text("trouble.place", measure=named.measure(measure), cell=named.cell(cell), count=count)
        for measure, cell, count in warning.where[:MOST_PLACES]
    ]
    left = len(warning.where) - len(shown)
    return "; ".join([*shown, words.text("trouble.more_places", count=left)] if left else shown)


def lost(trials: Iterable[TrialRecord]) -> list[LostTrials]:
    """Group failed and invalid trials by cell and reason, in the order of their occurrence."""
    groups: dict[tuple[str, str, frozenset[tuple[str, str]], Failure | None], list[TrialRecord]] = {}
    for trial in trials:
        if trial.result.status is not Status.OK:
            cell = frozenset(trial.cell.items())
            key = (trial.result.status.value, trial.measure, cell, trial.result.reason)
            groups.setdefault(key, []).append(trial)
    return [
        LostTrials(
            group[0].result.status,
            group[0].measure,
            group[0].cell,
            group[0].result.reason,
            tuple(sorted(trial.block for trial in group)),
        )
        for group in groups.values()
    ]


def block_list(blocks: tuple[int, ...], words: Words) -> str:
    """Return a list of block numbers, shortened if there are many."""
    listed = words.listed(str(block) for block in blocks[:MOST_BLOCKS])
    return listed if len(blocks) <= MOST_BLOCKS else f"{listed}, …"
