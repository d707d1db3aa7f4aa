"""Run fio on a standing lab: every combination by itself, or rounds until the disk is steady."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from iolab.agent.messages import CommandResult, FolderMade, Json
from iolab.experiment.machines import Disk
from iolab.experiment.measures import DiskMeasure
from iolab.lab.kernels import kernel_of
from iolab.lab.topology import NAME_PREFIX
from iolab.lab.volumes.places import holder_of, in_memory, mount_of, node_of, volume_path
from iolab.record.series import Series
from iolab.record.trial import CommandRecord
from iolab.statements.warnings import DiskLoadShort, DiskUnsteady, Warning
from iolab.trial.disk.caches import device_proved
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.fio_jobs import Job, fill_job, jobs_of, of_fio, size_of
from iolab.trial.disk.fio_report import LOGS, Accesses, accesses_of, figure_of, log_series, merged, parse_fio
from iolab.trial.disk.own import Residency
from iolab.trial.disk.ran import Ran, recorded, run_to_end
from iolab.trial.disk.run_on_disk import Patience, WorkedOn, run_on_disk
from iolab.trial.disk.steady import WINDOW, steadiness
from iolab.trial.lab_access import Site
from iolab.trial.measurement import TrialFailed

FILE = "iolab.fio"
"""What is written and read on a disk with a file system."""
FOLDER = "fio"
"""Of the agent, for fio's logs."""
TAKE = 'tail -v -n +1 "$0" "$@" && rm -f "$0" "$@"'
"""Reads fio's logs and removes them: the next run would be appended."""
SHORT_RATIO = 0.01
"""A rate of which more than this was not begun is another rate than the one that was offered."""


@dataclass(frozen=True, slots=True)
class Round:
    """One run of fio."""

    job: Job
    record: CommandRecord
    output: str
    log: str
    begin_ns: int
    done: tuple[Accesses, ...]
    """Per direction, or per section of a job file."""


class Fio:
    """fio on one disk: fills what it measures, runs, and takes its file back."""

    def __init__(self, site: Site, measure: DiskMeasure, disk: Disk, patience: Patience) -> None:
        self._measure = measure
        self._disk = disk
        self._lab, self._volume = site.lab, site.lab.volumes[disk.volume]
        self._holder = site.agent_of(holder_of(site.lab, self._volume))
        self._kernel = kernel_of(site.lab, measure.on)
        self._agent = site.agent_of(self._kernel)
        self._in_file = disk.fs is not None and measure.profile != "hdparm"
        node, folder = node_of(disk.volume, NAME_PREFIX), mount_of(disk.volume, NAME_PREFIX)
        self._target = f"{folder}/{FILE}" if self._in_file else node
        self._worked_on, self._patience = WorkedOn(measure.on, node), patience
        self._prepared: tuple[CommandRecord, ...] = ()

    def fill(self) -> None:
        """Write every byte that will be read, and flush it: a hole is read from no disk.

        Raises:
            TrialFailed: it could not be written.
            AgentError: the agent refused it, or is gone.
        """
        if self._measure.profile == "hdparm" or self._is_written():
            return
        twice = 2 if self._measure.profile == "steady-state" else 1
        text = fill_job(self._target, size_of(self._measure), twice)
        argv = ("fio", "--eta=never", "-")
        done = self._succeeded(self._run(argv, text), "filling what is measured")
        self._prepared = (recorded(self._measure.on, self._kernel, argv, done),)

    def run(self, device: Residency | None) -> Ran:
        """Run it; `device` is what the cache had of the disk just before.

        Raises:
            TrialFailed: it failed, or its output is not to be understood.
            AgentError: the agent refused it, or is gone.
        """
        logs = self._agent.ask(FolderMade, "folder.create", {"name": FOLDER}).path
        try:
            jobs = jobs_of(self._measure, self._disk, self._target, logs)
            steady = self._measure.profile == "steady-state"
            rounds = self._until_steady(jobs[0], logs) if steady else [self._round(job, logs) for job in jobs]
        finally:
            self._agent.call("folder.delete", {"name": FOLDER})
        direct = self._measure.profile != "hdparm"
        return Ran(
            figures=_steady_figures(rounds) if steady else _figures(rounds),
            proved=direct or device_proved(device),
            commands=tuple(each.record for each in rounds),
            prepared=self._prepared,
            said={"runs": [_said(each) for each in rounds]},
            warnings=_warnings(self._measure, rounds),
            series=lambda zero_ns: _series(rounds, zero_ns),
        )

    def clear(self) -> None:
        """Take the file away. Raises AgentError."""
        if self._in_file:
            self._agent.run(("rm", "-f", self._target))

    def _is_written(self) -> bool:
        """Tell whether every block of a bare disk was written: when its volume was made, and none was given back since.

        A steady state begins with writes of its own, and a volume in memory is not written when it is made.
        """
        steady, volume = self._measure.profile == "steady-state", self._volume
        if self._in_file or steady or in_memory(self._lab, volume):
            return False
        path = volume_path(self._disk.volume, NAME_PREFIX)
        shown = self._holder.run(("stat", "-c", "%b %B", path)).stdout.split()
        return len(shown) == 2 and int(shown[0]) * int(shown[1]) >= volume.size

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
            "fio",
            "--output-format=json+",
            "--eta=never",
            *(("--readonly",) if job.read_only else ()),
            "-",
        )
        done = self._succeeded(self._run(argv, job.text), "measuring")
        paths = [f"{logs}/log_{name}.log" for name in LOGS]
        log = self._succeeded(run_to_end(self._agent, ("sh", "-c", TAKE, *paths)), "reading its logs")
        try:
            accesses = accesses_of(job, parse_fio(done.stdout))
        except ValueError as error:
            raise TrialFailed(str(error)) from error
        record = recorded(self._measure.on, self._kernel, argv, done)
        return Round(job, record, done.stdout, log.stdout, done.begin_ns, accesses)

    def _run(self, argv: tuple[str, ...], text: str) -> CommandResult:
        return run_on_disk(self._agent, self._worked_on, argv, text, self._patience)

    def _succeeded(self, done: CommandResult, what: str) -> CommandResult:
        if not done.succeeded:
            raise TrialFailed(f"fio, {what}: {done.complaint}")
        if done.stdout_dropped_bytes:
            raise TrialFailed(f"fio, {what}: it printed {done.stdout_dropped_bytes} bytes more than are kept")
        return done


def _said(each: Round) -> Json:
    return {"job": each.job.text, "output": each.output}


def _figures(rounds: Sequence[Round]) -> tuple[DiskFigure, ...]:
    return tuple(figure_of(one) for each in rounds for one in each.done)


def _steady_figures(rounds: Sequence[Round]) -> tuple[DiskFigure, ...]:
    """Return the last rounds as one."""
    last = [each.done for each in rounds[-WINDOW:]]
    return tuple(figure_of(merged(same)) for same in zip(*last, strict=True))


def _rates(rounds: Sequence[Round]) -> list[float]:
    return [sum(one.per_s for one in each.done) for each in rounds]


def _warnings(measure: DiskMeasure, rounds: Sequence[Round]) -> tuple[Warning, ...]:
    found: list[Warning] = []
    if measure.profile == "steady-state":
        seen = steadiness(_rates(rounds))
        if seen is not None and not seen.reached:
            found.append(DiskUnsteady(
                rounds=len(rounds), spread_ratio=seen.spread_ratio, slope_ratio=seen.slope_ratio,
            ))  # fmt: skip
    offered = of_fio(measure).offered
    if offered is not None and measure.profile != "hdparm":
        reached = min(_rates([each]).pop() for each in rounds)
        if reached < offered * (1 - SHORT_RATIO):
            found.append(DiskLoadShort(offered_per_s=offered, reached_per_s=round(reached)))
    return tuple(found)


def _series(rounds: Sequence[Round], zero_ns: int) -> tuple[Series, ...]:
    """Return the series of all runs; of rounds that do the same, each continues the one before."""
    found: dict[object, list[Series]] = {}
    for each in rounds:
        for one in log_series(each.job, each.log, max(0, each.begin_ns - zero_ns)):
            found.setdefault(one.quantity, []).append(one)
    return tuple(_joined(same) for same in found.values())


def _joined(parts: Sequence[Series]) -> Series:
    at_ns = np.concatenate([one.at_ns for one in parts])
    return replace(parts[0], at_ns=at_ns, values=np.concatenate([one.values for one in parts]))
