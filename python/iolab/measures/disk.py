"""Disk programs on a machine."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iolab.errors import InputError, Problem
from iolab.experiment.lab_view import View
from iolab.experiment.measure_references import check_machine
from iolab.experiment.measures import DiskMeasure
from iolab.experiment.sections import Section
from iolab.lab.needs.need import Need, NeedKind, Wanted
from iolab.lab.topology import Topology
from iolab.parts.rows import MeasureKind
from iolab.statements.purposes import Purpose
from iolab.statements.unbuilt import DiskProgramUnbuilt

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.measured import Measured
    from iolab.trial.site import Site

DURATIONS_NS = {"hdparm": 12_000_000_000, "thput-fsys": 30_000_000_000, "bonnie++": 60_000_000_000}
"""Order of magnitude with files of 1 GiB [ns]."""


def _measure(site: "Site", measure: DiskMeasure) -> "Measured":
    from iolab.trial.disk.measure import measure_disk

    return measure_disk(site, measure)


def _check_names(view: View, section: Section, measure: DiskMeasure) -> None:
    check_machine(view, section, ("on",), measure.on)


def _needs(purpose: Purpose, measure: DiskMeasure) -> Iterator[Wanted]:
    if measure.program == "fio":
        yield DiskProgramUnbuilt(purpose=purpose, program=measure.program)
    elif measure.program != "thput-fsys" and measure.profile is None:
        yield Need(NeedKind.PROGRAM, measure.program, purpose)


def _check(measure: DiskMeasure, lab: "Lab", _topology: Topology) -> None:
    """Check that the machine has one disk that the program can use. Raises InputError."""
    disks, what = lab.machines[measure.on].disks, f"measuring a disk of {measure.on}"
    if len(disks) != 1:
        seen, allowed = f"{len(disks)} disks", "one disk in every cell that is measured"
        raise InputError([Problem("measure", what, seen, allowed, f"write disks: [...] at {measure.on}")])


def _kernels(measure: DiskMeasure, topology: Topology) -> Iterator[str]:
    found = topology.endpoints(measure.on)
    yield found[0].kernel if found else ""


def _commands(measure: DiskMeasure, _topology: Topology) -> Sequence[str]:
    own = measure.program == "thput-fsys" or measure.profile is not None
    by = "`iolab-agent disk`" if own else "the package"
    return (f"# {measure.program} by {by} on the disk of {measure.on}",)


DISK = MeasureKind(
    model=DiskMeasure,
    duration_ns=lambda measure: DURATIONS_NS.get(measure.program, DURATIONS_NS["bonnie++"]),
    measure=_measure,
    check_names=_check_names,
    named_by=frozenset({"on"}),
    programs={"hdparm": "hdparm", "bonnie++": "bonnie++"},
    kernels=_kernels,
    needs=_needs,
    check=_check,
    joined_by=lambda measure: (measure.on, measure.program),
    commands=_commands,
    leading=("disk_bytes_per_s",),
)
