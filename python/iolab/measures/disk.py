"""Disk programs on a machine."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Section
from iolab.experiment.model.files import Fio
from iolab.experiment.model.measures import DiskMeasure
from iolab.experiment.references.view import View, check_any_cpus, check_machine
from iolab.lab.topology import Topology
from iolab.lab.volumes.places import in_memory
from iolab.locale import Phrase, Text
from iolab.registry.disk_programs import DISK_PROGRAMS, HDPARM
from iolab.registry.rows import Later, MeasureKind
from iolab.trial.disk.disk_programs import row_of, runs_own, size_of, times_as_hdparm

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.experiment.model.machines import Disk

MOST_SHARE = 0.8
"""Of a volume, what a file on it may have: file systems need room of their own."""


def _check_names(view: View, section: Section, measure: DiskMeasure) -> None:
    check_machine(view, section, ("on",), measure.on)
    check_any_cpus(view, section, ("on",), measure.on)
    allowed = row_of(measure).profiles
    if measure.profile not in (None, *allowed):
        seen = f"{measure.profile} of {measure.program}"
        view.say(section, ("profile",), seen, ", ".join(allowed) or "no profile")
    if measure.memory is not None:
        _check_memory(view, section, measure, measure.memory)
    if measure.fio is not None:
        _check_fio(view, section, measure, measure.fio)


def _check_memory(view: View, section: Section, measure: DiskMeasure, memory_bytes: int) -> None:
    from iolab.trial.disk.memory_limit import LEAST_BYTES

    if not row_of(measure).writes_files:
        view.say(
            section, ("memory",), f"memory of {measure.program}", f"with {_all_with('writes_files')} alone"
        )
    if memory_bytes < LEAST_BYTES:
        view.say(section, ("memory",), f"{memory_bytes} bytes", f"at least {LEAST_BYTES} bytes (16M)")


def _all_with(fact: str) -> str:
    """Return the programs of which a fact is true."""
    return " and ".join(name for name, row in DISK_PROGRAMS.items() if getattr(row, fact))


def _check_fio(view: View, section: Section, measure: DiskMeasure, fio: Fio) -> None:
    if not row_of(measure).takes_jobs:
        view.say(
            section, ("fio",), f"fio of {measure.program}", f"with program: {_all_with('takes_jobs')} alone"
        )
    if fio.job is not None and fio.job_file is not None:
        view.say(section, ("fio", "job_file"), "job and job_file", "one of the two")
    elif fio.job_text is not None:
        _check_job(view, section, measure, fio)
    combinations = [len(one or ()) for one in (fio.blocks, fio.depths, fio.access)]
    if measure.profile == "steady-state" and max(combinations) > 1:
        view.say(
            section, ("fio",), "several combinations", "one block, one depth and one access with steady-state"
        )


def _check_job(view: View, section: Section, measure: DiskMeasure, fio: Fio) -> None:
    from iolab.trial.disk.job_file import JobFileError, read_job
    from iolab.trial.disk.job_keys import REPLACEABLE
    from iolab.trial.disk.section_runs import run_problems

    place = ("fio", "job" if fio.job is not None else "job_file")
    for name in fio.replace:
        if name not in REPLACEABLE:
            view.add(
                section, ("fio", "replace"), name, sorted(REPLACEABLE), Phrase("measures.key-that-iolab-sets")
            )
    if measure.profile is not None:
        view.say(section, ("profile",), f"{measure.profile} beside a job file", "either of them")
    try:
        problems = tuple(run_problems(read_job(fio.job_text or "", fio.replace), size_of(measure)))
    except JobFileError as error:
        problems = error.problems
    for problem in problems:
        view.say(section, place, problem.seen, problem.allowed, problem.advice)


def _runs(measure: DiskMeasure) -> tuple[str, ...]:
    return () if runs_own(measure) else (measure.program,)


def _check(measure: DiskMeasure, lab: "Lab", _topology: Topology) -> None:
    """Check that the machine has one disk that the program can use. Raises InputError."""
    disks, what = lab.machines[measure.on].disks, Phrase("measures.measuring-a-disk", machine=measure.on)
    if len(disks) != 1:
        seen, allowed = (
            Phrase("measures.count-of-disks", count=len(disks)),
            Phrase("measures.one-disk-per-cell"),
        )
        raise InputError(
            [Problem("measure", what, seen, allowed, Phrase("measures.write-disks-at", machine=measure.on))]
        )
    (disk,) = disks
    if row_of(measure).writes_files and disk.fs is None:
        seen, allowed = (
            Phrase("measures.program-on-bare-disk", program=measure.program),
            Phrase("measures.disk-with-file-system"),
        )
        raise InputError([Problem("measure", what, seen, allowed, Phrase("measures.add-fs-to-volume"))])
    if row_of(measure).finds_blocks:
        _check_findable(measure, lab, disk, what)
    if row_of(measure).fills_disk and not times_as_hdparm(measure):
        room = int(lab.volumes[disk.volume].size * (MOST_SHARE if disk.fs is not None else 1))
        if (size := size_of(measure)) > room:
            seen, allowed = (
                Phrase("measures.size-of-bytes", size=size),
                Phrase("measures.at-most-on-volume", most=room, volume=disk.volume),
            )
            advice = Phrase("measures.smaller-size-or-larger-volume")
            raise InputError([Problem("measure", what, seen, allowed, advice)])


def _check_findable(measure: DiskMeasure, lab: "Lab", disk: "Disk", what: Text) -> None:
    """Check that blocks on the disk can be found again below the volume's file. Raises InputError."""
    volume, machine = lab.volumes[disk.volume], lab.machines[measure.on]
    xen = machine.kind == "vm" and machine.engine == "xen"
    refused = (
        (
            disk.fs is not None,
            Phrase("measures.disk-with-fs", fs=disk.fs),
            Phrase("measures.bare-disk"),
            Phrase("measures.remove-fs-from-disk"),
        ),
        (
            disk.via == "kernel",
            Phrase("measures.disk-via-kernel"),
            Phrase("measures.disk-via-other"),
            Phrase("measures.take-one-of-these"),
        ),
        (
            xen,
            Phrase("measures.a-domain-of-xen"),
            Phrase("measures.guest-host-or-namespace"),
            Phrase("measures.measure-such-machine"),
        ),
        (
            in_memory(lab, volume),
            Phrase("measures.volume-in-memory", volume=disk.volume, machine=volume.on),
            Phrase("measures.a-volume-on-disk"),
            Phrase("measures.put-volume-on-host"),
        ),
        (
            (measure.size or 0) > volume.size,
            Phrase("measures.size-of-bytes", size=measure.size),
            Phrase("measures.at-most", most=volume.size),
            Phrase("measures.smaller-size-or-larger-volume"),
        ),
    )
    for wrong, seen, allowed, advice in refused:
        if wrong:
            raise InputError(
                [
                    Problem(
                        "measure",
                        what,
                        Phrase("measures.key-with-qdisc", key=measure.program, qdisc=seen),
                        allowed,
                        advice,
                    )
                ]
            )


def _kernels(measure: DiskMeasure, topology: Topology) -> Iterator[str]:
    found = topology.endpoints(measure.on)
    yield found[0].kernel if found else ""


def _duration_ns(measure: DiskMeasure) -> int:
    alike = DISK_PROGRAMS[HDPARM] if times_as_hdparm(measure) else row_of(measure)
    if alike.duration_ns is not None:
        return alike.duration_ns
    from iolab.trial.disk.fio_jobs import of_fio

    asked = of_fio(measure)
    if asked.job_text is not None:
        from iolab.trial.disk.section_runs import job_of, lasts_ns

        job = job_of(measure)
        return 0 if job is None else lasts_ns(job, measure)
    if measure.profile == "steady-state":
        return asked.each * asked.rounds
    return asked.each * len(asked.blocks or ()) * len(asked.depths or ()) * len(asked.access or ())


def _commands(measure: DiskMeasure, _topology: Topology) -> Sequence[str]:
    by = "the package" if _runs(measure) else "`iolab-agent disk`"
    return (f"# {measure.program} by {by} on the disk of {measure.on}",)


DISK = MeasureKind(
    model=DiskMeasure,
    duration_ns=_duration_ns,
    measure=Later("iolab.trial.disk.measure:measure_disk"),
    conclude=Later("iolab.trial.disk.measure:conclude_disk"),
    check_names=_check_names,
    named_by=frozenset({"on"}),
    on_hosts={name: row.package for name, row in DISK_PROGRAMS.items() if row.package is not None},
    runs=_runs,
    kernels=_kernels,
    check=_check,
    joined_by=lambda measure: (measure.on, measure.program, measure.profile, measure.size, measure.memory),
    commands=_commands,
    leading=("disk_bytes_per_s", "disk_blocks_kept"),
    leading_parts=tuple(row.leading_part for row in DISK_PROGRAMS.values() if row.leading_part is not None),
)
