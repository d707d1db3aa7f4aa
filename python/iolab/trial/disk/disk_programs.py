"""The disk programs: a row each says what it is, what it takes and what it leaves in caches.

A program of a Debian package is a row here and, in `packaged.py`, its command line and how its output is read; one of
the agent's own (contract/disk-v1.md) is a row here and, in `own.py`, its request. Checks and plans read this table, so
it imports nothing that measures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from iolab.experiment.model.measures import DiskMeasure

FIO, FLUSH_CHECK = "fio", "flush-check"
"""Programs that do what the measure says in keys of their own, not by a profile alone."""
DEFAULT_BYTES = 1 << 30
"""Of the file, where the measure says nothing: thput-fsys's own, 1024 MiB."""
PROFILES: Mapping[str | None, Mapping[str, str | bool]] = MappingProxyType(
    {
        None: {},
        "legacy-2006": {},
        "honest": {"data": "incompressible", "cache": "cold"},
        "modern": {"data": "incompressible", "cache": "cold", "direct": True},
        "hdparm": {"cache": "cold"},
        "steady-state": {"data": "incompressible", "cache": "cold", "direct": True},
    }
)
"""Profile to what it changes in a program's definition; the last two are fio's alone."""
DEFINITIONS = ("legacy-2006", "honest", "modern")
"""Profiles of programs that are defined as they were in 2006."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskProgram:
    """One program."""

    package: str | None = None
    """Debian's package of it, whose command has the program's name; None: no package has it."""
    own: bool = False
    """Whether the agent has it, by its definition: where no package has it, or a profile is asked for."""
    profiles: tuple[str, ...] = ()
    """What `profile` may be."""
    takes: frozenset[str] = frozenset()
    """Keys of a profile's definition that it takes."""
    duration_ns: int | None = None
    """How long it takes with a file of 1 GiB, in order of magnitude [ns]; None: the measure says how long."""
    writes_files: bool = False
    """Whether it writes files on a file system, so that its memory can be limited."""
    reads_device: bool = False
    """Whether it reads the disk itself, through the page cache."""
    reads_cold: bool = False
    """Whether what it reads is dropped from the caches whatever its profile says."""
    leading_part: str | None = None
    """The phase that stands for it, where those before measure memory and system calls more than the disk."""


DISK_PROGRAMS: Mapping[str, DiskProgram] = MappingProxyType(
    {
        "hdparm": DiskProgram(
            package="hdparm",
            own=True,
            profiles=DEFINITIONS,
            takes=frozenset({"cache", "direct"}),
            duration_ns=12_000_000_000,
            reads_device=True,
            reads_cold=True,
            leading_part="buffered",
        ),
        "thput-fsys": DiskProgram(
            own=True,
            profiles=DEFINITIONS,
            takes=frozenset({"data", "cache", "direct"}),
            duration_ns=30_000_000_000,
            writes_files=True,
        ),
        "bonnie++": DiskProgram(
            package="bonnie++",
            own=True,
            profiles=DEFINITIONS,
            takes=frozenset({"data", "cache"}),
            duration_ns=60_000_000_000,
            writes_files=True,
            leading_part="put-block",
        ),
        FIO: DiskProgram(package="fio", profiles=("modern", "hdparm", "steady-state"), reads_cold=True),
        FLUSH_CHECK: DiskProgram(own=True, duration_ns=2_000_000_000),
    }
)
"""The table."""


def row_of(measure: DiskMeasure) -> DiskProgram:
    """Return the row of a measure's program."""
    return DISK_PROGRAMS[measure.program]


def runs_own(measure: DiskMeasure) -> bool:
    """Whether the agent's own program measures: where no package has it, or a profile asks for its definition."""
    row = row_of(measure)
    return row.own and (row.package is None or measure.profile is not None)


def definition_of(measure: DiskMeasure) -> dict[str, str | bool]:
    """Return what a measure's profile changes in the definition of its program."""
    takes = row_of(measure).takes
    return {key: value for key, value in PROFILES[measure.profile].items() if key in takes}


def size_of(measure: DiskMeasure) -> int:
    """Return how much of the disk is written and read [bytes]."""
    return measure.size or DEFAULT_BYTES


def times_as_hdparm(measure: DiskMeasure) -> bool:
    """Whether fio takes the two timings of hdparm, and nothing else."""
    return measure.profile == "hdparm"
