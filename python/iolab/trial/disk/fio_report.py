"""What fio says: its JSON and its logs, read strictly, as exact counts, merged latencies and series. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iolab.record.dimensions import Dimensions
from iolab.record.series import Series, series
from iolab.trial.disk.figures import LATENCY, OPERATIONS, RATE, DiskFigure, DiskLatency
from iolab.trial.disk.fio_jobs import NS_PER_MS, Job
from iolab.untrusted_json import read_untrusted

Count = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[float, Field(ge=0)]
QUANTILES: Mapping[str, tuple[float, int]] = {
    "p50": (0.5, 20), "p90": (0.9, 100), "p99": (0.99, 1000), "p999": (0.999, 10_000),
}  # fmt: skip
"""Metric's word to its share and the fewest operations that show it."""
KIB = 1024
DIRECTIONS = ("read", "write")
"""As fio's logs number them."""
LOGS: Mapping[str, tuple[str, str, float]] = {
    "bw": (RATE, "byte/s", KIB), "iops": (OPERATIONS, "op/s", 1), "lat": (LATENCY.format("mean"), "ns", 1),
}  # fmt: skip
"""fio's logs: metric, unit, and what one of fio's units is in it."""
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


class FioReport(_Part):
    """What one run of fio says."""

    jobs: Annotated[tuple[FioJob, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Accesses:
    """Reads, or writes, of one combination, over one run or several."""

    phase: str
    """read, write, mixed-read, mixed-write, or the section's name of a job file."""
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
    for job in report.jobs:
        if job.error:
            raise ValueError(f"fio's job {job.jobname}: error {job.error}")
        if not job.read.total_ios + job.write.total_ios:
            raise ValueError(f"fio's job {job.jobname}: it read and wrote nothing, and called that no error")
    return report


def accesses_of(job: Job, report: FioReport) -> tuple[Accesses, ...]:
    """Return what a run of fio did, each direction by itself.

    Raises:
        ValueError: it ended early. One whose process is killed says of itself that all went well.
    """
    for each in report.jobs:
        ran_ms = max(each.read.runtime, each.write.runtime)
        if job.lasts_ms is not None and ran_ms < job.lasts_ms * LEAST_RATIO:
            raise ValueError(f"fio's job {each.jobname}: it ended after {ran_ms} of {job.lasts_ms} ms")
    return tuple(found for each in report.jobs for found in _accesses(job, each))


def _accesses(job: Job, done: FioJob) -> Iterator[Accesses]:
    both = bool(done.read.total_ios and done.write.total_ios)
    cpu_ns = round((done.usr_cpu + done.sys_cpu) / 100 * done.job_runtime * NS_PER_MS)
    for name, one in zip(DIRECTIONS, (done.read, done.write), strict=True):
        if not one.total_ios:
            continue
        if not one.runtime:
            raise ValueError(
                f"fio's job {done.jobname}: {one.total_ios} operations in 0 ms, which is no measurement"
            )
        phase = phase_of(job.phase or done.jobname, name, both=both)
        yield Accesses(
            phase, job.block_bytes, job.depth, one.io_bytes, one.total_ios, one.runtime * NS_PER_MS, cpu_ns,
            _bins(one.lat_ns.bins), one.lat_ns.mean * one.total_ios, one.lat_ns.max,
        )  # fmt: skip


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
        max(one.most_ns for one in rounds),
    )  # fmt: skip


def figure_of(done: Accesses) -> DiskFigure:
    """Return what a table shows of them."""
    latency = DiskLatency(done.total_ns / done.operations, dict(_quantiles(done)))
    return DiskFigure(
        done.phase, done.block_bytes, done.bytes, done.operations, done.duration_ns,
        cpu_ns=done.cpu_ns, depth=done.depth, latency=latency,
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
    """Return fio's logs, as `tail -v` printed them, as series; `begin_ns` is when this run of fio began.

    Raises:
        ValueError: a line is none of a log.
    """
    logs: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith(HEADER) and line.endswith(HEADER_END):
            name = line[len(HEADER) : -len(HEADER_END)].rsplit("/log_", 1)[-1].removesuffix(".log")
            logs[name] = []
        elif line.strip() and logs:
            list(logs.values())[-1].append(line)
    points = {name: _points(lines) for name, lines in logs.items() if name in LOGS}
    both = len({direction for own in points.values() for direction in own}) > 1
    return tuple(
        _series(job, LOGS[name], phase_of(job.phase, DIRECTIONS[direction], both=both), own, begin_ns)
        for name, found in points.items()
        for direction, own in sorted(found.items())
    )


def _points(lines: Iterable[str]) -> dict[int, list[tuple[int, float]]]:
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
    """Leave out a point that is not later than the one before: fio writes its last one twice at times."""
    return [points[0], *(late for early, late in pairwise(points) if late[0] > early[0])]


def _series(
    job: Job, log: tuple[str, str, float], phase: str, points: Sequence[tuple[int, float]], begin_ns: int
) -> Series:
    name, unit, factor = log
    about = Dimensions(part=phase, block_bytes=job.block_bytes or None, depth=job.depth)
    return series(
        name, unit, [(begin_ns + at * NS_PER_MS, value * factor) for at, value in points], about, "fio"
    )
