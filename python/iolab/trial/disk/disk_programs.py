"""Return properties of a measure's disk program from the program's row and the measure's profile. Checks and plans use
this module; it measures nothing."""

from iolab.experiment.model.measures import DiskMeasure
from iolab.registry.disk_programs import DISK_PROGRAMS, HDPARM, PROFILES, DiskProgram

DEFAULT_BYTES = 1 << 30
"""Default file size [bytes]: 1024 MiB, as in thput-fsys."""


def row_of(measure: DiskMeasure) -> DiskProgram:
    """Return the registry row of a measure's disk program."""
    return DISK_PROGRAMS[measure.program]


def runs_own(measure: DiskMeasure) -> bool:
    """Whether the agent's own program is run, because no package has the program or the measure sets a profile."""
    row = row_of(measure)
    return row.own and (row.package is None or measure.profile is not None)


def definition_of(measure: DiskMeasure) -> dict[str, str | bool]:
    """Return the changes that a measure's profile makes to the definition of its program."""
    takes = row_of(measure).takes
    return {key: value for key, value in PROFILES[measure.profile].items() if key in takes}


def size_of(measure: DiskMeasure) -> int:
    """Return the size of the measured part of the disk [bytes]."""
    return measure.size or DEFAULT_BYTES


def times_as_hdparm(measure: DiskMeasure) -> bool:
    """Whether fio repeats the two timings of hdparm instead of its own combinations."""
    return measure.profile == HDPARM
