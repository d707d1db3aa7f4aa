"""Disk programs: a row per program with its properties, its supported keys, its effect on caches, and its runner.

A new program needs a row in this table, and a runner in `trial/disk`, which is imported when a disk is measured. If a
single command or the agent (contract/disk-v1.md) does the I/O, the runner is an object in `trial/disk/programs.py`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from iolab.frozen import frozen

DiskProgramName = Literal["hdparm", "thput-fsys", "bonnie++", "fio", "flush-check"]
DiskProfile = Literal["legacy-2006", "honest", "modern", "hdparm", "steady-state"]
FIO: DiskProgramName = "fio"
HDPARM: DiskProgramName = "hdparm"
"""fio profile with the timings of hdparm."""
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
"""Changes that each profile makes to a program's definition; the last two profiles are for fio only."""
DEFINITIONS: tuple[DiskProfile, ...] = ("legacy-2006", "honest", "modern")
"""Profiles with the definitions of 2006."""


@frozen(kw_only=True)
class DiskProgram:
    """One program."""

    runner: str
    """The runner, a `trial.disk.ran.Runner`, as module:name."""
    package: str | None = None
    """Debian package whose command has the program's name; None: there is no package."""
    own: bool = False
    """Whether the agent has its own implementation of the program, which is used if there is no package, or if a
    profile is requested."""
    profiles: tuple[DiskProfile, ...] = ()
    """Valid values of `profile`."""
    takes: frozenset[str] = frozenset()
    """Keys of a profile's definition that the program supports."""
    duration_ns: int | None = None
    """Approximate duration with a file of 1 GiB [ns]; None: the measure determines the duration."""
    writes_files: bool = False
    """Whether the program writes files on a file system, so its memory can be limited."""
    reads_device: bool = False
    """Whether the program reads the block device itself, through the page cache."""
    reads_cold: bool = False
    """Whether the caches are dropped before reads, whatever the profile."""
    direct: bool = False
    """Whether the program uses direct I/O, whatever the profile."""
    claims_device: bool = False
    """Whether the program checks the device for file system signatures before it writes."""
    takes_jobs: bool = False
    """Whether the program supports the key `fio`."""
    fills_disk: bool = False
    """Whether the data that the program reads is written before the program starts."""
    finds_blocks: bool = False
    """Whether the program searches for its blocks in the volume's file."""
    leading_part: str | None = None
    """Phase of the leading metric, if earlier phases measure memory and system calls more than the disk."""


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
"""Row of each program, by name."""
