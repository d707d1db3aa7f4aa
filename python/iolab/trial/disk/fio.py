"""Run fio in a lab: each combination separately, or rounds until the disk reaches a steady state."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import sqrt
from typing import TypeVar

import numpy as np

from iolab.agent.answers import CommandResult
from iolab.agent.messages import FolderMade, Json, Walls
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.kernels import kernel_of
from iolab.lab.volumes.places import holder_of, in_memory, mount_of, node_of, volume_path
from iolab.locale import Phrase, Text
from iolab.messages.disks import JobKeysReplaced, SectionLoadShort
from iolab.messages.warnings import DiskLoadShort, DiskUnsteady, TrialWarning
from iolab.registry.disk_programs import FIO
from iolab.results.series import Series
from iolab.results.trial import CommandRecord
from iolab.trial.disk.caches import device_proved
from iolab.trial.disk.disk_programs import size_of, times_as_hdparm
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.fio_jobs import Job, JobSection, fill_job, jobs_of, of_fio, uncounted_bytes
from iolab.trial.disk.fio_report import (
    LOGS,
    WINDOW,
    Accesses,
    accesses_of,
    figure_of,
    log_series,
    merged,
    parse_fio,
    steadiness,
)
from iolab.trial.disk.job_file import JobFile
from iolab.trial.disk.layers import look
from iolab.trial.disk.ledger import Counted, LayerName, Ledger, Way, rows_of, steps
from iolab.trial.disk.own import Residency
from iolab.trial.disk.ran import ConfinedResult, Patience, Ran, Runner, Running, recorded, run_to_end
from iolab.trial.disk.run_on_disk import HUNG_LIMIT_S, Reaches, run_on_disk, worked_on
from iolab.trial.disk.section_runs import job_of, lasts_ns, passes_cache, runs_of, sections_of, way_of, writes
from iolab.trial.lab_access import Site
from iolab.trial.measurement import LabUnusable, TrialFailed
from iolab.units import NS_PER_MS, NS_PER_S

Done = TypeVar("Done", bound=CommandResult)
MOST_SPREAD = 3
"""Number of standard deviations by which random arrivals may fall short of the offered rate without a warning."""
FILE = "iolab.fio"
"""Name of the file that is written and read on a disk with a file system."""
TAKE = (
    'for log in "$0" "$@"; do [ ! -L "$log" ] && [ -f "$log" ] || { echo "$log is no plain file" >&2; exit 1; }; done'
    ' && tail -v -n +1 "$0" "$@" && rm -f "$0" "$@"'
)
"""Script that prints fio's logs and deletes them, because fio appends to existing logs; symbolic links are
rejected."""
SLOWEST = 2
"""Factor by which the time limit of fio exceeds the run time in a job file."""
SHORT_RATIO = 0.01
"""Maximum shortfall of an offered rate without a warning [ratio]."""


@dataclass(frozen=True, slots=True)
class Round:
    """One run of fio."""

    job: Job
    record: CommandRecord
    output: str
    log: str
    log_zero_ns: int
    """Time at which the log's clock was 0 [ns, monotonic clock]."""
    done: tuple[Accesses, ...]
    """Results per direction, or per section of a job file."""
    walls: Walls | None
    """Confinement of fio; None: not confined."""


class Fio:
    """An fio that works on one disk: it fills the measured part, runs, and deletes its file."""

    def __init__(self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience) -> None:
        self._site, self._measure, self._disk = site, measure, disk
        self._lab, self._volume = site.lab, site.lab.volumes[disk.volume]
        self._holder = site.agent_of(holder_of(site.lab, self._volume))
        self._kernel = kernel_of(site.lab, measure.on)
        self._agent = site.agent_of(self._kernel)
        self._in_file = disk.fs is not None and not times_as_hdparm(measure)
        node, folder = (
            node_of(disk.volume),
            mount_of(disk.volume),
        )
        self._target = f"{folder}/{FILE}" if self._in_file else node
        self._reaches = Reaches(folders=(folder,)) if self._in_file else Reaches(devices=(node,))
        self._worked_on, self._patience = worked_on(site, measure.on, disk), patience
        self._job = job_of(measure)
        self._writes = writes(measure)
        if self._job is not None:
            longest_ns = max(patience.longest_ns, SLOWEST * lasts_ns(self._job, measure))
            self._patience = replace(patience, longest_ns=longest_ns)
        self._prepared: tuple[CommandRecord, ...] = ()

    def fill(self) -> None:
        """Write all bytes that will be read, and flush them, because reads of a hole do not reach the disk.

        Raises:
            TrialFailed: the data could not be written.
            AgentError: the agent refused the request, or is lost.
        """
        if times_as_hdparm(self._measure) or self._is_written():
            return
        if self._volume.exists and not self._writes:
            return  # the device is measured with its existing content
        twice = 2 if self._measure.profile == "steady-state" else 1
        text = fill_job(self._target, size_of(self._measure), twice)
        argv = (FIO, "--eta=never", "-")
        done = self._succeeded(self._run(argv, text, self._reaches), Phrase("trial.filling-what-is-measured"))
        self._prepared = (recorded(self._measure.on, self._kernel, argv, done),)

    def run(self, device: Residency | None) -> Ran:
        """Run fio; `device` is the cache content of the device just before fio starts.

        Raises:
            TrialFailed: fio failed, or its output is invalid.
            AgentError: the agent refused the request, or is lost.
        """
        logs = self._agent.ask(FolderMade, "folder.create", {"name": FIO}).path
        job = self._job
        ledgers: tuple[Ledger, ...] = ()
        steady = self._measure.profile == "steady-state"
        try:
            if job is not None:
                rounds, ledgers = self._sections(runs_of(job, self._measure, self._target, logs), logs)
            else:
                jobs = jobs_of(self._measure, self._disk, self._target, logs)
                rounds = (
                    self._until_steady(jobs[0], logs) if steady else [self._round(one, logs) for one in jobs]
                )
        except BaseException:  # the first error matters more than a failed clean-up
            self._agent.begin("folder.delete", {"name": FIO}).settled_within(HUNG_LIMIT_S)
            raise
        self._agent.call("folder.delete", {"name": FIO})
        return Ran(
            figures=_steady_figures(rounds) if steady else _figures(rounds),
            proved=passes_cache(self._measure) or device_proved(device),
            commands=tuple(each.record for each in rounds),
            walls=rounds[-1].walls,
            prepared=self._prepared,
            said={"runs": [_said(each) for each in rounds]},
            warnings=(*_replaced(job), *_warnings(self._measure, rounds)),
            ledgers=ledgers,
            series=lambda zero_ns: _series(rounds, zero_ns),
        )

    def _sections(self, jobs: Sequence[Job], logs: str) -> tuple[list[Round], tuple[Ledger, ...]]:
        """Run the sections of a job file; if fio runs several times, read the counters of all layers between the
        runs."""
        rounds: list[Round] = []
        ledgers: list[Ledger] = []
        done: list[JobSection] = []
        counted = self._counted() if len(jobs) > 1 else {}
        for job in jobs:
            rounds.append(self._round(job, logs))
            if len(jobs) > 1:
                before, counted = counted, self._counted()
                rows = rows_of(_figures(rounds[-1:]), before, counted)
                names = tuple(one.name for one in job.sections)
                ledgers.append(Ledger(names, rows, steps(rows, way_of(job.sections, self._disk, done))))
                done += job.sections
        return rounds, tuple(ledgers)

    def _counted(self) -> Mapping[LayerName, Counted]:
        return look(self._site, self._measure.on, self._disk)

    def clear(self) -> None:
        """Delete fio's file. Raises AgentError."""
        if self._in_file:
            run_on_disk(
                self._agent,
                self._worked_on,
                ("rm", "-f", self._target),
                patience=self._patience,
                reaches=None,
            )

    def _is_written(self) -> bool:
        """Whether all blocks of a disk without file system are allocated: written on creation and not discarded since.

        The steady-state profile starts with separate writes, and a volume in memory is not written on creation.
        """
        steady, volume = self._measure.profile == "steady-state", self._volume
        if self._in_file or steady or volume.exists or in_memory(self._lab, volume):
            return False
        path = volume_path(self._lab, self._disk.volume)
        shown = self._holder.run(("stat", "-c", "%b %B", path)).stdout.split()
        return len(shown) == 2 and int(shown[0]) * int(shown[1]) >= volume.size_bytes

    def _until_steady(self, job: Job, logs: str) -> list[Round]:
        rounds: list[Round] = []
        for _ in range(of_fio(self._measure).rounds):
            rounds.append(self._round(job, logs))
            seen = steadiness(_rates(rounds))
            if seen is not None and seen.reached:
                break
        return rounds

    def _round(self, job: Job, logs: str) -> Round:
        argv = (
            FIO,
            "--output-format=json+",
            "--eta=never",
            *(("--readonly",) if job.read_only or (self._volume.exists and not self._writes) else ()),
            "-",
        )
        done = self._succeeded(self._run(argv, job.text, self._with_logs(logs)), "measuring")
        paths = _log_paths(job, logs)
        log = self._succeeded(
            run_to_end(self._agent, ("sh", "-c", TAKE, *paths)), Phrase("trial.reading-its-logs")
        )
        try:
            report = parse_fio(done.stdout)
            accesses = accesses_of(job, report)
        except ValueError as error:
            raise TrialFailed(str(error)) from error
        record = recorded(self._measure.on, self._kernel, argv, done)
        by_day = done.end_ns - report.timestamp_ms * NS_PER_MS
        return Round(
            job,
            record,
            done.stdout,
            log.stdout,
            by_day if job.sections else done.begin_ns,
            accesses,
            done.walls,
        )

    def _run(self, argv: tuple[str, ...], text: str, reaches: Reaches) -> ConfinedResult:
        return run_on_disk(
            self._agent, self._worked_on, argv, text, self._patience, reaches, alters=self._writes
        )

    def _with_logs(self, logs: str) -> Reaches:
        return replace(self._reaches, folders=(*self._reaches.folders, logs))

    def _succeeded(self, done: Done, what: Text) -> Done:
        if not done.succeeded:
            raise TrialFailed(Phrase("trial.fio-failed", what=what, reason=done.complaint))
        if done.stdout_dropped_bytes:
            raise TrialFailed(
                Phrase("trial.fio-printed-too-much", what=what, bytes=done.stdout_dropped_bytes)
            )
        return done


class FioRunner(Runner):
    """Runner of fio."""

    @contextmanager
    def ready(self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience) -> Iterator[Running]:
        """See Runner."""
        fio = Fio(site, measure, disk, patience)
        try:
            fio.fill()
            yield fio.run
        except LabUnusable:
            raise
        except TrialFailed:
            with suppress(TrialFailed):
                fio.clear()
            raise
        # An interrupted run does not delete the file: its lab is removed, and files on a hung disk cannot be deleted.
        fio.clear()

    def reads_device(self, measure: DiskMeasure) -> bool:
        """See Runner."""
        return not passes_cache(measure)

    def way(self, measure: DiskMeasure, disk: Disk) -> Way:
        """See Runner."""
        job = job_of(measure)
        if job is not None:
            return way_of(sections_of(job, measure), disk)
        counted = replace(super().way(measure, disk), direct=passes_cache(measure))
        return replace(counted, uncounted_bytes=uncounted_bytes(measure, disk))


RUNNER = FioRunner()
"""Runner to which the program's registry row refers."""


def _log_paths(job: Job, logs: str) -> list[str]:
    """Return the paths of a run's logs."""
    timed = [one.timed for one in job.sections for _ in range(one.jobs)] or [True]
    return [
        f"{logs}/log_{name}.{number}.log"
        for number, latency in enumerate(timed, 1)
        for name in LOGS
        if latency or name != "lat"
    ]


def _said(each: Round) -> Json:
    return {"job": each.job.text, "output": each.output}


def _figures(rounds: Sequence[Round]) -> tuple[DiskFigure, ...]:
    return tuple(figure_of(one) for each in rounds for one in each.done)


def _steady_figures(rounds: Sequence[Round]) -> tuple[DiskFigure, ...]:
    """Return the figures of the last rounds, merged into one round."""
    last = [each.done for each in rounds[-WINDOW:]]
    return tuple(figure_of(merged(same)) for same in zip(*last, strict=True))


def _replaced(job: JobFile | None) -> tuple[JobKeysReplaced, ...]:
    """Return a warning about keys of a job file that iolab replaced."""
    keys = dict.fromkeys(one.key for one in job.replaced) if job is not None else {}
    return (JobKeysReplaced(names=tuple(keys)),) if keys else ()


def _rates(rounds: Sequence[Round]) -> list[float]:
    return [sum(one.per_s for one in each.done) for each in rounds]


def _warnings(measure: DiskMeasure, rounds: Sequence[Round]) -> tuple[TrialWarning, ...]:
    found: list[TrialWarning] = []
    if measure.profile == "steady-state":
        seen = steadiness(_rates(rounds))
        if seen is not None and not seen.reached:
            found.append(DiskUnsteady(
                rounds=len(rounds), spread_ratio=seen.spread_ratio, slope_ratio=seen.slope_ratio,
            ))  # fmt: skip
    return (*found, *_short_loads(measure, rounds))


def _short_loads(measure: DiskMeasure, rounds: Sequence[Round]) -> Iterator[TrialWarning]:
    """Yield a warning for each offered rate, of the measure or of a section, that was not reached."""
    offered = of_fio(measure).offered
    if offered is not None and not times_as_hdparm(measure):
        reached, took_ns = min(
            (sum(one.per_s for one in each.done), each.done[0].duration_ns) for each in rounds
        )
        if _is_short(reached, offered, took_ns, poisson=True):
            yield DiskLoadShort(offered_per_s=offered, reached_per_s=round(reached))
    for each in rounds:
        at_random = {one.name for one in each.job.sections if one.poisson}
        for one in each.done:
            rate = one.offered_per_s
            if rate is not None and _is_short(
                one.per_s, rate, one.duration_ns, poisson=one.section in at_random
            ):
                yield SectionLoadShort(
                    section=one.section or "", offered_per_s=rate, reached_per_s=round(one.per_s)
                )


def _is_short(reached_per_s: float, offered_per_s: int, took_ns: int, *, poisson: bool) -> bool:
    """Whether the reached rate is below the offered rate by more than random arrivals explain."""
    least = offered_per_s * (1 - SHORT_RATIO)
    if poisson:
        least = min(least, offered_per_s - MOST_SPREAD * sqrt(offered_per_s * NS_PER_S / took_ns))
    return reached_per_s < least


def _series(rounds: Sequence[Round], zero_ns: int) -> tuple[Series, ...]:
    """Return the series of all runs; equal rounds are joined in time order."""
    found: dict[object, list[Series]] = {}
    for each in rounds:
        zero = each.log_zero_ns - zero_ns
        for one in log_series(each.job, each.log, zero if each.job.sections else max(0, zero)):
            found.setdefault(one.quantity, []).append(one)
    return tuple(_joined(same) for same in found.values())


def _joined(parts: Sequence[Series]) -> Series:
    at_ns = np.concatenate([one.at_ns for one in parts])
    return replace(parts[0], at_ns=at_ns, values=np.concatenate([one.values for one in parts]))
