"""The content of a run folder as frozen types, and its file names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan
from iolab.results.packets import PacketTrial
from iolab.results.trial import CommandRecord, TrialResult

if TYPE_CHECKING:
    from iolab.results.series import Series  # imports numpy

__all__ = ["TRIAL_SCHEMA", "CommandRecord", "RunStatus", "Samples", "StoredRun", "TrialRecord"]

TRIAL_SCHEMA = 3
"""Version of a line in trials.jsonl; a new meaning of a metric increments the version of its method instead."""
PACKETS_SCHEMA = 3
"""Version of the stored data of a packet trial."""
EXPERIMENT, PLAN, FACTS = "experiment.yaml", "plan.json", "facts.json"
TRIALS, COMMANDS, SAMPLES, REVISIONS = "trials.jsonl", "commands.jsonl", "samples", "revisions"
RAW, PACKETS, SERIES = ".raw.json.gz", ".packets.json.gz", ".parquet"
"""Suffixes of a trial's files in the samples folder, after its key."""
FIRST_RAW = ".json.gz"
"""Suffix that files of raw data had in runs of the first versions; they also contained the data that is now in
PACKETS."""
TABLES = ("trials.parquet", "factors.parquet", "series.parquet")
"""Figures of a packed run as tables."""
MACHINES = "machines"
PACKAGE_LISTS = "packages"
LABEL = "label.json"
"""Note and tags of a run."""
REDACTED = "redacted.json"
"""File of a copy of a run in which names were replaced."""
OUTCOME = "outcome.json"
"""Result of the gate that measured a run."""
DECIDED = "decided"
"""Folder of a decision that is already in effect, but whose files have not all been moved to their places."""
KEPT = "kept.json"
"""File of a revision with the number of the run's trial lines when the revision was kept."""


class RunStatus(StrEnum):
    """The state of a run."""

    COMPLETE = "complete"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One line of trials.jsonl."""

    key: str
    """Identity of the step: the resolved lab and measure, and the block."""
    measure: str
    """Name of the measure."""
    kind: str = ""
    """Kind of the measure: stream, forwarding, load-curve, latency, ..."""
    direction: str = ""
    """Direction of the measure, independent of labels: one-way, both-ways, dual; empty: the measure has no
    direction."""
    sets_each_load: bool = False
    """Whether the measure sets the load of each direction, in which case a rate of both ways is a sum of intended
    loads."""
    rest: str = ""
    """Digest of lab and measure without the direction: equal digests mean that only the direction differs."""
    block: int
    """Number of the block, from 1."""
    cell: Mapping[str, str]
    """Level label of each factor on which this measure depends, by factor name."""
    wall: str
    """Start time, in ISO 8601 with UTC offset."""
    result: TrialResult
    """Result of the trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The samples that one trial stores in addition to its record."""

    raw: object = None
    """Complete output of programs and agents, as evidence that no report reads; None: there is no output."""
    packets: PacketTrial | None = None
    """All data of a packet trial other than its metrics."""
    series: "tuple[Series, ...]" = ()
    """Metrics over time."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Captured frames, by the suffix of the file name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The content of a run folder."""

    folder: Path
    """Path of the folder."""
    name: str
    """Name of the folder, which is the run's name."""
    plan: Plan
    """Plan of the run."""
    facts: Mapping[str, object]
    """facts.json, as stored."""
    trials: tuple[TrialRecord, ...]
    """Trials in execution order; of trials with the same key, the last one is valid."""
    commands: tuple[CommandRecord, ...]
    """Commands that were run on the hosts, in order."""
    status: RunStatus
    """Status of the run: complete if every step of the plan has a record."""
    trial_schema: int = TRIAL_SCHEMA
    """Oldest schema of the trials' lines in the file."""
    joined_late: int = 0
    """Number of trials that `iolab extend` added to blocks measured before; they were not run in the blocks' order."""
    notes: tuple[TrialWarning, ...] = field(default=())
    """Notes on reading the folder, for example about an incomplete last line."""


def records_folder(folder: Path) -> Path:
    """Return the folder with the trials and samples of a run; for a revision, this is the folder of its run."""
    whole = folder.resolve()
    return whole.parent.parent if whole.parent.name == REVISIONS else folder
