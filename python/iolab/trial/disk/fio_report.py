"""What fio says: its JSON and its logs, read strictly, as exact counts, merged latencies and series. Pure.

A disk is steady by the rule of the Solid State Storage Performance Test Specification (SNIA PTS 2.0).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iolab.registry.disk_programs import FIO
from iolab.results.metric import Dimensions, unit_of
from iolab.results.series import Series, series
from iolab.trial.disk.figures import LATENCY, OPERATIONS, RATE, DiskFigure, DiskLatency
from iolab.trial.disk.fio_jobs import Job, JobSection
from iolab.units import NS_PER_MS
from iolab.untrusted_json import read_untrusted

WINDOW = 5
"""Rounds that are looked at: the last ones."""
MOST_SPREAD, MOST_SLOPE = 0.2, 0.1
"""Of the window's mean: between its greatest and least round, and what a straight line through it rises or falls."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How the last rounds lie."""

    spread_ratio: float
    """Greatest less least, of the mean."""
    slope_ratio: float
    """What the line through them rises or falls over the window, of the mean."""

    @property
    def reached(self) -> bool:
        """Whether the disk is steady."""
        return self.spread_ratio <= MOST_SPREAD and self.slope_ratio <= MOST_SLOPE


Count = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[float, Field(ge=0)]
QUANTILES: Mapping[str, tuple[float, int]] = {
    "p50": (0.5, 20), "p90": (0.9, 100), "p99": (0.99, 1000), "p999": (0.999, 10_000),
}  # fmt: skip
"""Metric's word to its share and the fewest operations that show it."""
KIB = 1024
DIRECTIONS = ("read", "write")
"""As fio's logs number them."""
LOGS: Mapping[str, tuple[str, float]] = {
    "bw": (RATE, KIB), "iops": (OPERATIONS, 1), "lat": (LATENCY.format("mean"), 1),
}  # fmt: skip
"""fio's logs: metric, and what one of fio's units is in it."""
LEAST_RATIO = 0.8
"""Of the time that it was to go on, what fio's last read or write must have reached."""
HEADER, HEADER_END = "==> ", " <=="
"""Around a file's name in what `tail -v` prints."""


class _Part(BaseModel):
    """A part of the report; fio says much more."""

    model_config = ConfigDict(frozen=True)


class Latencies(_Part):
    """Histogram of one direction."""

    max: Count
    mean: Positive
    bins: dict[str, Count] = {}


class Direction(_Part):
    """Reads, or writes, of one job."""

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
    """Errors with which it went on (continue_on_error)."""


class FioReport(_Part):
    """What one run of fio says."""

    timestamp_ms: Count = 0
    """When it was written, by the clock of the day [ms]."""
    jobs: Annotated[tuple[FioJob, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Accesses:
    """Reads, or writes, of one combination, over one run or several."""

    phase: str
    """read, write, mixed-read, mixed-write; of a section read or write."""
    block_bytes: int
    depth: int | None
    bytes: int
    operations: int
    duration_ns: int
    cpu_ns: int
    bins: Mapping[int, int]
    """Latency to how many had it [ns]; fio's bins are 1/64 wide."""
    total_ns: float
    """Of all latencies [ns]."""
    most_ns: int
    """The longest [ns]."""
    section: str | None = None
    """Of a job file; None: iolab's own combination."""
    offered_per_s: int | None = None
    """Operations that were begun per second; None: as fast as they ended."""
    random: bool = False
    """Whether their places were random."""

    @property
    def per_s(self) -> float:
        """Operations per second."""
        return self.operations / self.duration_ns * 1e9


def parse_fio(text: str) -> FioReport:
    """Return the report; fio may write notes before it.

    Raises:
        ValueError: there is none, or a job failed; the message says which.
    """
    begin = text.find("{\n")
    if begin < 0:
        raise ValueError(f"fio printed no JSON: {text[:200]!r}")
    try:
        report = FioReport.model_validate(read_untrusted(text[begin:]))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"fio's report, {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return report


def accesses_of(job: Job, report: FioReport) -> tuple[Accesses, ...]:
    """Return what a run of fio did, each direction by itself.

    Raises:
        ValueError: it ended early. One whose process is killed says of itself that all went well.
    """
    return tuple(found for each in report.jobs for found in _accesses(job, each, _section_of(job, each)))


def _section_of(job: Job, done: FioJob) -> JobSection | None:
    """Return the section of a job file that fio calls by its number. Raises ValueError."""
    if not job.sections:
        return None
    if not (done.jobname.isdecimal() and 1 <= int(done.jobname) <= len(job.sections)):
        raise ValueError(f"fio's report has the job {done.jobname[:80]!r}, which it was not given")
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
            raise ValueError(f"fio's job {name}: {one.total_ios} operations in 0 ms, which is no measurement")
        phase = phase_of(job.phase or name, direction, both=both) if section is None else direction
        yield Accesses(
            phase, job.block_bytes, job.depth, one.io_bytes, one.total_ios, one.runtime * NS_PER_MS, cpu_ns,
            _bins(one.lat_ns.bins), one.lat_ns.mean * one.total_ios, one.lat_ns.max,
            section=name if section is not None else None,
            offered_per_s=section.offered.get(direction) if section is not None else None,
            random=(job if section is None else section).random,
        )  # fmt: skip


def _check_done(name: str, lasts_ms: int | None, done: FioJob) -> None:
    """Check that a job ran to its end, without errors. Raises ValueError."""
    if done.error:
        raise ValueError(f"fio's job {name}: error {done.error}")
    if done.total_err:
        raise ValueError(f"fio's job {name}: it went on after {done.total_err} errors of the disk")
    if not done.read.total_ios + done.write.total_ios:
        raise ValueError(f"fio's job {name}: it read and wrote nothing, and called that no error")
    ran_ms = max(done.read.runtime, done.write.runtime)
    if lasts_ms is not None and ran_ms < lasts_ms * LEAST_RATIO:
        raise ValueError(f"fio's job {name}: it ended after {ran_ms} of {lasts_ms} ms")


def phase_of(name: str, direction: str, *, both: bool) -> str:
    """Return the phase of one direction: that of the job, where it does nothing else."""
    return f"{name}-{direction}" if both else name


def _bins(written: Mapping[str, int]) -> dict[int, int]:
    found = {int(word): count for word, count in written.items() if word.isdecimal()}
    if len(found) < len(written):
        raise ValueError("fio's histogram: a bin has no number of nanoseconds")
    return found


def merged(rounds: Sequence[Accesses]) -> Accesses:
    """Return several runs of one combination as one: counts and histograms are added."""
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
    """Return what a table shows of them."""
    timed = bool(done.bins or done.most_ns)  # gtod_reduce and disable_lat leave it out
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
    """Return fio's logs, as `tail -v` printed them, as series; `begin_ns` is when the logs' time was 0.

    Raises:
        ValueError: a line is none of a log.
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
"""Direction to times [ms] and values of one log."""
LOG_NAME = re.compile(r"log_([a-z]+)\.([0-9]{1,6})\.log")
"""What is logged, and the number of the job."""


def _logs(text: str) -> dict[tuple[str, int], list[str]]:
    """Return the lines of each log that is known."""
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
                raise ValueError(f"fio's log has the line {line[:80]!r}")
    return {direction: _rising(own) for direction, own in found.items()}


def _rising(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Leave out a point that is not later than all before it: fio writes its last one twice at times."""
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
    """Give the series of a section: rates of its jobs are added, latencies weighted with what each job did."""
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
    """Return the logs of several jobs as one, on the steps of a clock; beside each stand the operations of its job."""
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
    """Return how the last rounds of a rate lie; None: there are not enough yet."""
    last = np.asarray(rounds[-WINDOW:], dtype=np.float64)
    if len(last) < WINDOW or last.mean() <= 0:
        return None
    slope = float(np.polyfit(np.arange(WINDOW), last, 1)[0])
    return Steadiness(float(np.ptp(last) / last.mean()), abs(slope) * (WINDOW - 1) / float(last.mean()))
