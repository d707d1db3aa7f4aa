"""Properties of a measure's disk program, by its row and its profile. Checks and plans ask: nothing here measures."""

from iolab.experiment.model.measures import DiskMeasure
from iolab.registry.disk_programs import DISK_PROGRAMS, HDPARM, PROFILES, DiskProgram

DEFAULT_BYTES = 1 << 30
"""Of the file, where the measure says nothing: thput-fsys's own, 1024 MiB."""


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
    return measure.profile == HDPARM
