"""Warnings, failed and invalid trials; equal warnings and failures are merged and counted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from iolab.messages.failures import Failure
from iolab.messages.warnings import TrialWarning
from iolab.report.locale import Words
from iolab.results.trial import Status
from iolab.store.records import TrialRecord

MOST_BLOCKS = 12
"""Maximum number of block numbers in a list."""


@dataclass(frozen=True, slots=True)
class WarningCount:
    """A warning code with the number of trials that have it."""

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
    """Count warnings by code, the most frequent first."""
    firsts: dict[str, WarningCount] = {}
    counts: dict[str, int] = {}
    for trial in trials:
        for warning in {each.code: each for each in reversed(trial.result.warnings)}.values():
            counts[warning.code] = counts.get(warning.code, 0) + 1
            if warning.code not in firsts:
                firsts[warning.code] = WarningCount(
                    warning.code, 0, warning, trial.measure, trial.cell, trial.block
                )
    order = sorted(firsts, key=lambda code: (-counts[code], code))
    return [replace(firsts[code], count=counts[code]) for code in order]


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
