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
"""Maximum size of a file as a share of its volume, because the file system itself needs space."""


def _check_names(view: View, section: Section, measure: DiskMeasure) -> None:
    check_machine(view, section, ("on",), measure.on)
    check_any_cpus(view, section, ("on",), measure.on)
    known = row_of(measure).profiles
    if measure.profile not in (None, *known):
        none = Phrase("check.no-key", key="profile")
        allowed = Phrase("check.one-of-options", options=known) if known else none
        view.say(section, ("profile",), _with_program(f"profile: {measure.profile}", measure), allowed)
    if measure.memory is not None:
        _check_memory(view, section, measure, measure.memory)
    if measure.fio is not None:
        _check_fio(view, section, measure, measure.fio)


def _check_memory(view: View, section: Section, measure: DiskMeasure, memory_bytes: int) -> None:
    from iolab.trial.disk.memory_limit import LEAST_BYTES

    if not row_of(measure).writes_files:
        view.say(section, ("memory",), _with_program("memory", measure), _only_with("writes_files", "memory"))
    if memory_bytes < LEAST_BYTES:
        seen = Phrase("check.bytes", count=memory_bytes)
        allowed = Phrase("measures.at-least-bytes", least=LEAST_BYTES)
        view.say(section, ("memory",), seen, allowed)


def _with_program(key: str, measure: DiskMeasure) -> Phrase:
    return Phrase("measures.key-with-program", key=key, program=measure.program)


def _only_with(fact: str, key: str) -> Phrase:
    """Return the programs with a given property."""
    names = [name for name, row in DISK_PROGRAMS.items() if getattr(row, fact)]
    return Phrase("measures.key-only-with-programs", key=key, names=names)


def _check_fio(view: View, section: Section, measure: DiskMeasure, fio: Fio) -> None:
    if not row_of(measure).takes_jobs:
        view.say(section, ("fio",), _with_program("fio", measure), _only_with("takes_jobs", "fio"))
    if fio.job is not None and fio.job_file is not None:
        seen = Phrase("measures.both-keys", keys=["job", "job_file"])
        view.say(section, ("fio", "job_file"), seen, Phrase("check.one-of-the-two"))
    elif fio.job_text is not None:
        _check_job(view, section, measure, fio)
    combinations = [len(one or ()) for one in (fio.blocks, fio.depths, fio.access)]
    if measure.profile == "steady-state" and max(combinations) > 1:
        seen, allowed = Phrase("measures.several-combinations"), Phrase("measures.one-combination")
        view.say(section, ("fio",), seen, allowed)


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
        seen = Phrase("measures.profile-with-job", profile=measure.profile)
        view.say(section, ("profile",), seen, Phrase("check.one-of-the-two"))
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
        seen = Phrase("measures.count-of-disks", count=len(disks))
        allowed = Phrase("measures.one-disk-per-cell")
        raise InputError(
            [Problem("measure", what, seen, allowed, Phrase("measures.write-disks-at", machine=measure.on))]
        )
    (disk,) = disks
    if row_of(measure).writes_files and disk.fs is None:
        seen = Phrase("measures.program-on-bare-disk", program=measure.program)
        allowed = Phrase("measures.disk-with-file-system")
        raise InputError([Problem("measure", what, seen, allowed, Phrase("measures.add-fs-to-volume"))])
    if lab.volumes[disk.volume].exists:
        _check_consent(measure, lab, disk, what)
    if row_of(measure).finds_blocks:
        _check_findable(measure, lab, disk, what)
    if row_of(measure).fills_disk and not times_as_hdparm(measure) and not lab.volumes[disk.volume].exists:
        room = int(lab.volumes[disk.volume].size_bytes * (MOST_SHARE if disk.fs is not None else 1))
        if (size := size_of(measure)) > room:
            seen = Phrase("measures.size-of-bytes", size=size)
            allowed = Phrase("measures.at-most-on-volume", most=room, volume=disk.volume)
            advice = Phrase("measures.smaller-size-or-larger-volume")
            raise InputError([Problem("measure", what, seen, allowed, advice)])


def _check_consent(measure: DiskMeasure, lab: "Lab", disk: "Disk", what: Text) -> None:
    """Check that the file permits a program that writes to an existing device. Raises InputError."""
    from iolab.trial.disk.section_runs import writes

    if not row_of(measure).takes_jobs or not writes(measure) or lab.volumes[disk.volume].writes is not None:
        return
    seen = Phrase("measures.writes-to-device", program=measure.program, volume=disk.volume)
    allowed = Phrase("measures.reads-of-device")
    advice = Phrase("measures.permit-writes", volume=disk.volume)
    raise InputError([Problem("measure", what, seen, allowed, advice)])


def _check_findable(measure: DiskMeasure, lab: "Lab", disk: "Disk", what: Text) -> None:
    """Check that blocks of the disk can be found in the volume's file. Raises InputError."""
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
            volume.exists,
            Phrase("measures.volume-that-exists", volume=disk.volume),
            Phrase("measures.a-volume-of-lab"),
            Phrase("measures.add-another-volume"),
        ),
        (
            in_memory(lab, volume),
            Phrase("measures.volume-in-memory", volume=disk.volume, machine=volume.on),
            Phrase("measures.a-volume-on-disk"),
            Phrase("measures.put-volume-on-host"),
        ),
        (
            not volume.exists and (measure.size or 0) > volume.size_bytes,
            Phrase("measures.size-of-bytes", size=measure.size),
            Phrase("measures.at-most", most=volume.size_bytes),
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


def _commands(measure: DiskMeasure, _topology: Topology) -> Sequence[Text]:
    by = Phrase("measures.the-package") if _runs(measure) else "`iolab-agent disk`"
    return (Phrase("measures.disk-program-runs", program=measure.program, by=by, machine=measure.on),)


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
    alone=("page-cache",),
    check=_check,
    joined_by=lambda measure: (measure.on, measure.program, measure.profile, measure.size, measure.memory),
    commands=_commands,
    leading=("disk_bytes_per_s", "disk_blocks_kept"),
    leading_parts=tuple(row.leading_part for row in DISK_PROGRAMS.values() if row.leading_part is not None),
)
