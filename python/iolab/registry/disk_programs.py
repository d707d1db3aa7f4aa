"""Disk programs: a row each says what a program is, what it takes, what it leaves in caches, and what runs it.

A new program is a row here, and what runs it in `trial/disk`, which is loaded when a disk is measured: of one that
writes or reads by a single command, or by the agent (contract/disk-v1.md), an object in `trial/disk/programs.py`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from iolab.frozen import frozen

DiskProgramName = Literal["hdparm", "thput-fsys", "bonnie++", "fio", "flush-check"]
DiskProfile = Literal["legacy-2006", "honest", "modern", "hdparm", "steady-state"]
FIO: DiskProgramName = "fio"
HDPARM: DiskProgramName = "hdparm"
"""A profile of fio times as it does."""
PROFILES: Mapping[DiskProfile | None, Mapping[str, str | bool]] = MappingProxyType(
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
DEFINITIONS: tuple[DiskProfile, ...] = ("legacy-2006", "honest", "modern")
"""Profiles of programs that are defined as they were in 2006."""


@frozen(kw_only=True)
class DiskProgram:
    """One program."""

    runner: str
    """What runs it, a `trial.disk.ran.Runner`, as module:name."""
    package: str | None = None
    """Debian's package of it, whose command has the program's name; None: no package has it."""
    own: bool = False
    """Whether the agent has it, by its definition: where no package has it, or a profile is asked for."""
    profiles: tuple[DiskProfile, ...] = ()
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
    direct: bool = False
    """Whether it passes the page cache of its kernel whatever its profile says."""
    claims_device: bool = False
    """Whether it claims the disk, for which its kernel looks for signatures there."""
    takes_jobs: bool = False
    """Whether it takes the key `fio`."""
    fills_disk: bool = False
    """Whether as much is written before it begins as it will read."""
    finds_blocks: bool = False
    """Whether it looks for its blocks below the file of the volume."""
    leading_part: str | None = None
    """The phase that stands for it, where those before measure memory and system calls more than the disk."""


DISK_PROGRAMS: Mapping[DiskProgramName, DiskProgram] = MappingProxyType(
    {
        "hdparm": DiskProgram(
            runner="iolab.trial.disk.programs:HDPARM",
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
            runner="iolab.trial.disk.programs:THPUT_FSYS",
            own=True,
            profiles=DEFINITIONS,
            takes=frozenset({"data", "cache", "direct"}),
            duration_ns=30_000_000_000,
            writes_files=True,
        ),
        "bonnie++": DiskProgram(
            runner="iolab.trial.disk.programs:BONNIE",
            package="bonnie++",
            own=True,
            profiles=DEFINITIONS,
            takes=frozenset({"data", "cache"}),
            duration_ns=60_000_000_000,
            writes_files=True,
            leading_part="put-block",
        ),
        "fio": DiskProgram(
            runner="iolab.trial.disk.fio:RUNNER",
            package="fio",
            profiles=("modern", "hdparm", "steady-state"),
            reads_cold=True,
            takes_jobs=True,
            fills_disk=True,
        ),
        "flush-check": DiskProgram(
            runner="iolab.trial.disk.flush_check:RUNNER",
            own=True,
            duration_ns=2_000_000_000,
            direct=True,
            claims_device=True,
            finds_blocks=True,
        ),
    }
)
"""The table."""
