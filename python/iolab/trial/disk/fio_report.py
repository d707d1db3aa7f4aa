"""Parse fio's JSON report and logs strictly: exact counts, merged latencies and series. Pure.

The steady state is defined by the Solid State Storage Performance Test Specification (SNIA PTS 2.0).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iolab.locale import Phrase
from iolab.registry.disk_programs import FIO
from iolab.results.metric import Dimensions, unit_of
from iolab.results.series import Series, series
from iolab.trial.disk.figures import LATENCY, OPERATIONS, RATE, DiskFigure, DiskLatency
from iolab.trial.disk.fio_jobs import Job, JobSection
from iolab.trial.measurement import invalid_field
from iolab.units import NS_PER_MS
from iolab.untrusted_json import read_untrusted

WINDOW = 5
"""Number of rounds to evaluate, counted from the last one."""
MOST_SPREAD, MOST_SLOPE = 0.2, 0.1
"""Limits for the steady state, relative to the mean of the window: the spread between rounds, and the change of a
fitted straight line."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Spread and trend of the last rounds."""

    spread_ratio: float
    """Maximum minus minimum, relative to the mean."""
    slope_ratio: float
    """Change of a fitted straight line over the window, relative to the mean."""

    @property
    def reached(self) -> bool:
        """Whether the disk is in a steady state."""
        return self.spread_ratio <= MOST_SPREAD and self.slope_ratio <= MOST_SLOPE


Count = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[float, Field(ge=0)]
QUANTILES: Mapping[str, tuple[float, int]] = {
    "p50": (0.5, 20), "p90": (0.9, 100), "p99": (0.99, 1000), "p999": (0.999, 10_000),
}  # fmt: skip
"""Each quantile, with the minimum number of operations that it requires, by metric suffix."""
KIB = 1024
DIRECTIONS = ("read", "write")
"""Directions in the order of fio's logs."""
LOGS: Mapping[str, tuple[str, float]] = {
    "bw": (RATE, KIB), "iops": (OPERATIONS, 1), "lat": (LATENCY.format("mean"), 1),
}  # fmt: skip
"""Metric name and conversion factor to its unit, by the name of fio's log."""
LEAST_RATIO = 0.8
"""Minimum time of fio's last operation, as a share of the intended duration."""
HEADER, HEADER_END = "==> ", " <=="
"""Text before and after a file name in the output of `tail -v`."""


class _Part(BaseModel):
    """A part of the report; unused fields are ignored."""

    model_config = ConfigDict(frozen=True)


class Latencies(_Part):
    """Latency histogram of one direction."""

    max: Count
    mean: Positive
    bins: dict[str, Count] = {}


class Direction(_Part):
    """Reads or writes of one fio job."""

    io_bytes: Count
    total_ios: Count
    runtime: Count
    lat_ns: Latencies


class FioJob(_Part):
    """One job."""

    jobname: str
    error: int
    read: Direction
    write: Direction
    job_runtime: Count
    usr_cpu: Positive
    sys_cpu: Positive
    total_err: int = 0
    """Number of errors that were ignored (continue_on_error)."""


class FioReport(_Part):
    """Report of one run of fio."""

    timestamp_ms: Count = 0
    """Time of the report on the wall clock [ms]."""
    jobs: Annotated[tuple[FioJob, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Accesses:
    """Reads or writes of one combination, over one or several runs."""

    phase: str
    """Phase: read, write, mixed-read, mixed-write; for a section read or write."""
    block_bytes: int
    depth: int | None
    bytes: int
    operations: int
    duration_ns: int
    cpu_ns: int
    bins: Mapping[int, int]
    """Number of operations by latency [ns]; fio's bins are 1/64 wide."""
    total_ns: float
    """Sum of all latencies [ns]."""
    most_ns: int
    """Maximum latency [ns]."""
    section: str | None = None
    """Section of the job file; None: iolab wrote the job itself."""
    offered_per_s: int | None = None
    """Offered operations per second; None: unlimited."""
    random: bool = False
    """Whether positions were random."""

    @property
    def per_s(self) -> float:
        """Return the operations per second."""
        return self.operations / self.duration_ns * 1e9


def parse_fio(text: str) -> FioReport:
    """Return fio's report; messages before the report are ignored.

    Raises:
        ValueError: there is no report, or it is invalid; the message states the error.
    """
    begin = text.find("{\n")
    if begin < 0:
        raise ValueError(Phrase("trial.no-json-printed", program=FIO, output=repr(text[:200])))
    try:
        report = FioReport.model_validate(read_untrusted(text[begin:]))
    except ValidationError as error:
        raise ValueError(invalid_field(FIO, error)) from error
    return report


def accesses_of(job: Job, report: FioReport) -> tuple[Accesses, ...]:
    """Return the results of a fio run, by direction.

    Raises:
        ValueError: a job ended early; a killed job reports success.
    """
    return tuple(found for each in report.jobs for found in _accesses(job, each, _section_of(job, each)))


def _section_of(job: Job, done: FioJob) -> JobSection | None:
    """Return the section of a job file that the fio job with a given number ran. Raises ValueError."""
    if not job.sections:
        return None
    if not (done.jobname.isdecimal() and 1 <= int(done.jobname) <= len(job.sections)):
        raise ValueError(Phrase("trial.fio-job-unknown", name=repr(done.jobname[:80])))
    return job.sections[int(done.jobname) - 1]


def _accesses(job: Job, done: FioJob, section: JobSection | None) -> Iterator[Accesses]:
    name = section.name if section is not None else done.jobname
    _check_done(name, section.lasts_ms if section is not None else job.lasts_ms, done)
    both = bool(done.read.total_ios and done.write.total_ios)
    cpu_ns = round((done.usr_cpu + done.sys_cpu) / 100 * done.job_runtime * NS_PER_MS)
    for direction, one in zip(DIRECTIONS, (done.read, done.write), strict=True):
        if not one.total_ios:
            continue
        if not one.runtime:
            raise ValueError(Phrase("trial.fio-job-in-no-time", name=name, count=one.total_ios))
        phase = phase_of(job.phase or name, direction, both=both) if section is None else direction
        yield Accesses(
            phase, job.block_bytes, job.depth, one.io_bytes, one.total_ios, one.runtime * NS_PER_MS, cpu_ns,
            _bins(one.lat_ns.bins), one.lat_ns.mean * one.total_ios, one.lat_ns.max,
            section=name if section is not None else None,
            offered_per_s=section.offered.get(direction) if section is not None else None,
            random=(job if section is None else section).random,
        )  # fmt: skip


def _check_done(name: str, lasts_ms: int | None, done: FioJob) -> None:
    """Check that a job ran to its end without errors. Raises ValueError."""
    if done.error:
        raise ValueError(Phrase("trial.fio-job-error", name=name, code=done.error))
    if done.total_err:
        raise ValueError(Phrase("trial.fio-job-went-on", name=name, count=done.total_err))
    if not done.read.total_ios + done.write.total_ios:
        raise ValueError(Phrase("trial.fio-job-did-nothing", name=name))
    ran_ms = max(done.read.runtime, done.write.runtime)
    if lasts_ms is not None and ran_ms < lasts_ms * LEAST_RATIO:
        raise ValueError(Phrase("trial.fio-job-ended-early", name=name, done=ran_ms, planned=lasts_ms))


def phase_of(name: str, direction: str, *, both: bool) -> str:
    """Return the phase of one direction: that of the job if the job has no other direction."""
    return f"{name}-{direction}" if both else name


def _bins(written: Mapping[str, int]) -> dict[int, int]:
    found = {int(word): count for word, count in written.items() if word.isdecimal()}
    if len(found) < len(written):
        raise ValueError(Phrase("trial.fio-bin-unreadable"))
    return found


def merged(rounds: Sequence[Accesses]) -> Accesses:
    """Merge several runs of one combination: counts and histograms are added."""
    bins: dict[int, int] = {}
    for each in rounds:
        for low, count in each.bins.items():
            bins[low] = bins.get(low, 0) + count
    first = rounds[0]
    return Accesses(
        first.phase, first.block_bytes, first.depth, sum(one.bytes for one in rounds),
        sum(one.operations for one in rounds), sum(one.duration_ns for one in rounds),
        sum(one.cpu_ns for one in rounds), bins, sum(one.total_ns for one in rounds),
        max(one.most_ns for one in rounds), random=first.random,
    )  # fmt: skip


def figure_of(done: Accesses) -> DiskFigure:
    """Return these reads or writes as a phase of the disk program."""
    timed = bool(done.bins or done.most_ns)  # false if gtod_reduce or disable_lat is set
    latency = DiskLatency(done.total_ns / done.operations, dict(_quantiles(done))) if timed else None
    return DiskFigure(
        done.phase, done.block_bytes, done.bytes, done.operations, done.duration_ns,
        cpu_ns=done.cpu_ns, depth=done.depth, latency=latency, section=done.section, offered_per_s=done.offered_per_s,
        random=done.random,
    )  # fmt: skip


def _quantiles(done: Accesses) -> Iterator[tuple[str, int]]:
    counted = sum(done.bins.values())
    for word, (share, fewest) in QUANTILES.items():
        if counted >= fewest:
            yield word, min(_quantile(done.bins, share, counted), done.most_ns)
    yield "max", done.most_ns


def _quantile(bins: Mapping[int, int], share: float, counted: int) -> int:
    rank, passed = -int(-share * counted // 1), 0
    for low in sorted(bins):
        passed += bins[low]
        if passed >= rank:
            return low
    return max(bins)


def log_series(job: Job, text: str, begin_ns: int) -> tuple[Series, ...]:
    """Return fio's logs, as printed by `tail -v`, as series; `begin_ns` is the time zero of the logs.

    Raises:
        ValueError: a line is not a log line.
    """
    points: dict[int, dict[str, Points]] = {}
    for (name, number), lines in _logs(text).items():
        points.setdefault(number, {})[name] = _points(lines)
    if not job.sections:
        return tuple(_of_combination(job, points.get(1, {}), begin_ns))
    first = 1
    found: list[Series] = []
    for section in job.sections:
        own = [points[number] for number in range(first, first + section.jobs) if number in points]
        found += _of_section(section, own, begin_ns, job.log_ms)
        first += section.jobs
    return tuple(found)


Points = Mapping[int, Sequence[tuple[int, float]]]
"""Times [ms] and values of one log, by direction."""
LOG_NAME = re.compile(r"log_([a-z]+)\.([0-9]{1,6})\.log")
"""Log name and job number."""


def _logs(text: str) -> dict[tuple[str, int], list[str]]:
    """Return the lines of each known log."""
    logs: dict[tuple[str, int], list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(HEADER) and line.endswith(HEADER_END):
            lines = []
            found = LOG_NAME.fullmatch(line[len(HEADER) : -len(HEADER_END)].rsplit("/", 1)[-1])
            if found is not None and found[1] in LOGS:
                lines = logs.setdefault((found[1], int(found[2])), [])
        elif line.strip():
            lines.append(line)
    return logs


def _points(lines: Iterable[str]) -> Points:
    found: dict[int, list[tuple[int, float]]] = {}
    for line in lines:
        match [field.strip() for field in line.split(",")]:
            case [at, value, direction, *_] if all(word.isdecimal() for word in (at, value, direction)):
                if int(direction) < len(DIRECTIONS):
                    found.setdefault(int(direction), []).append((int(at), float(value)))
            case _:
                raise ValueError(Phrase("trial.fio-log-unreadable", line=repr(line[:80])))
    return {direction: _rising(own) for direction, own in found.items()}


def _rising(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return the points in ascending order of time, without repeated times: fio sometimes writes the last point
    twice."""
    kept = [points[0]]
    for point in points[1:]:
        if point[0] > kept[-1][0]:
            kept.append(point)
    return kept


def _of_combination(job: Job, logs: Mapping[str, Points], begin_ns: int) -> Iterator[Series]:
    both = len({direction for own in logs.values() for direction in own}) > 1
    for name, found in logs.items():
        for direction, points in sorted(found.items()):
            phase = phase_of(job.phase, DIRECTIONS[direction], both=both)
            about = Dimensions(part=phase, block_bytes=job.block_bytes or None, depth=job.depth)
            yield _series(name, about, points, begin_ns)


def _of_section(
    section: JobSection, logs: Sequence[Mapping[str, Points]], begin_ns: int, step_ms: int
) -> Iterator[Series]:
    """Yield the series of a section: rates of its jobs are added, latencies are weighted by the jobs' operations."""
    for name in LOGS:
        for direction, word in enumerate(DIRECTIONS):
            own = [
                (each[name][direction], each.get("iops", {}).get(direction, ()))
                for each in logs
                if direction in each.get(name, {})
            ]
            points = own[0][0] if len(own) == 1 else _together(own, step_ms, mean=name == "lat")
            within = [point for point in points if begin_ns + point[0] * NS_PER_MS >= 0]
            if within:
                yield _series(name, Dimensions(section=section.name, part=word), within, begin_ns)


Timed = Sequence[tuple[int, float]]


def _together(logs: Sequence[tuple[Timed, Timed]], step_ms: int, *, mean: bool) -> Timed:
    """Merge the logs of several jobs in equal time steps; each log comes with its job's operations."""
    totals: dict[int, float] = {}
    weights: dict[int, float] = {}
    for points, operations in logs:
        done = {at // step_ms: value for at, value in operations}
        for step, value in {at // step_ms: value for at, value in points}.items():
            weight = done.get(step, 1.0) or 1.0
            totals[step] = totals.get(step, 0.0) + (value * weight if mean else value)
            weights[step] = weights.get(step, 0.0) + weight
    return [
        (step * step_ms, total / weights[step] if mean else total) for step, total in sorted(totals.items())
    ]


def _series(name: str, about: Dimensions, points: Sequence[tuple[int, float]], begin_ns: int) -> Series:
    metric, factor = LOGS[name]
    scaled = [(begin_ns + at * NS_PER_MS, value * factor) for at, value in points]
    return series(metric, unit_of(metric), scaled, about, FIO)


def steadiness(rounds: Sequence[float]) -> Steadiness | None:
    """Return spread and trend of the last rounds; None if there are too few."""
    last = np.asarray(rounds[-WINDOW:], dtype=np.float64)
    if len(last) < WINDOW or last.mean() <= 0:
        return None
    slope = float(np.polyfit(np.arange(WINDOW), last, 1)[0])
    return Steadiness(float(np.ptp(last) / last.mean()), abs(slope) * (WINDOW - 1) / float(last.mean()))
