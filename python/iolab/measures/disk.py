"""Disk programs on a machine: not built yet."""

from iolab.experiment.lab_view import View
from iolab.experiment.measure_references import check_machine
from iolab.experiment.measures import DiskMeasure
from iolab.experiment.sections import Section
from iolab.parts.rows import MeasureKind

DURATION_NS = 60_000_000_000
"""hdparm's and bonnie++'s order of magnitude [ns]."""


def _check_names(view: View, section: Section, measure: DiskMeasure) -> None:
    check_machine(view, section, ("on",), measure.on)


DISK = MeasureKind(
    model=DiskMeasure,
    duration_ns=lambda _: DURATION_NS,
    measure=None,
    check_names=_check_names,
    named_by=frozenset({"on"}),
    joined_by=lambda _: None,
)
