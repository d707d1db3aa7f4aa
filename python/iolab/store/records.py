"""What a run folder holds, as frozen types, and what its files are called."""

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
    from iolab.results.series import Series  # loads numpy

__all__ = ["TRIAL_SCHEMA", "CommandRecord", "RunStatus", "Samples", "StoredRun", "TrialRecord"]

TRIAL_SCHEMA = 3
"""Version of a line in trials.jsonl; a change of a metric's meaning raises the version of its method instead."""
PACKETS_SCHEMA = 3
"""Version of what is stored of a packet trial beside its line."""
EXPERIMENT, PLAN, FACTS = "experiment.yaml", "plan.json", "facts.json"
TRIALS, COMMANDS, SAMPLES, REVISIONS = "trials.jsonl", "commands.jsonl", "samples", "revisions"
RAW, PACKETS, SERIES = ".raw.json.gz", ".packets.json.gz", ".parquet"
"""Endings of what a trial stores in the samples folder, after its key."""
FIRST_RAW = ".json.gz"
"""The same of RAW, in runs of the first versions: what is now in the file PACKETS was a part of it."""
MACHINES = "machines"
PACKAGE_LISTS = "packages"
DECIDED = "decided"
"""Folder of a decision that counts and whose files are not all in their places yet."""
KEPT = "kept.json"
"""In a revision: how many lines of the run's trials there were when it was kept."""


class RunStatus(StrEnum):
    """How far a run is."""

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
    """What kind of measure it is: stream, forwarding, load-curve, latency, ..."""
    direction: str = ""
    """The measure's direction here, whatever its level is called: one-way, both-ways, dual; empty: it has none."""
    sets_each_load: bool = False
    """Whether the measure sets how much each direction sends: a rate of both ways is a sum of what was asked for."""
    rest: str = ""
    """Digest of lab and measure without the direction: trials of which it is equal differ in nothing else."""
    block: int
    """From 1."""
    cell: Mapping[str, str]
    """Factor name to level label; only factors that this measure depends on."""
    wall: str
    """When it began, ISO 8601 with offset."""
    result: TrialResult
    """What happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What one trial stores beside its record."""

    raw: object = None
    """What programs and agents said, whole: evidence, which no report reads; None: nothing."""
    packets: PacketTrial | None = None
    """Everything behind the metrics of a packet trial."""
    series: "tuple[Series, ...]" = ()
    """Metrics over time."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Captures, by the end of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run folder, read."""

    folder: Path
    """Where it lies."""
    name: str
    """The folder's name, which is the run's name."""
    plan: Plan
    """The plan it follows."""
    facts: Mapping[str, object]
    """facts.json, as stored."""
    trials: tuple[TrialRecord, ...]
    """In the order they were done; the last one of each key counts."""
    commands: tuple[CommandRecord, ...]
    """What was run on the hosts, in order."""
    status: RunStatus
    """Complete when every step of the plan has a record."""
    trial_schema: int = TRIAL_SCHEMA
    """Oldest schema of its trials' lines, as they are in the file."""
    joined_late: int = 0
    """Trials that `iolab extend` added to blocks which had been measured before: not done in turn with the others."""
    notes: tuple[TrialWarning, ...] = field(default=())
    """What reading found, e.g. a torn last line that was ignored."""


def records_folder(folder: Path) -> Path:
    """Return where the trials and samples of a run lie: a revision's are with the run that it is of."""
    whole = folder.resolve()
    return whole.parent.parent if whole.parent.name == REVISIONS else folder
