"""Build fio job files as text: one for each combination of a measure. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from iolab.experiment.model.files import Fio
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.trial.disk.disk_programs import size_of, times_as_hdparm
from iolab.units import NS_PER_MS

READ_SHARE = 70
"""Share of reads in mixed accesses [percent]."""
LOG_MS = 100
"""Averaging time of a point in fio's logs [ms]."""
RAMP_MS = 300
"""Time at the start of a phase on a throttled disk that is not counted, fio's ramp_time [ms].

After a pause, QEMU lets 0.1 s worth of data through unthrottled (block/throttle-groups and util/throttle.c: a bucket of
avg / 10 if no burst is set).
"""
OPEN_DEPTH = 256
"""Maximum queue depth with an offered rate: the operations of a quarter of a second at 1000 per second."""
HDPARM_BLOCK = 2 << 20
"""Size of one read of hdparm [bytes]."""


@dataclass(frozen=True, slots=True)
class JobSection:
    """A section of the user's job file in its run of fio."""

    name: str
    """Section name in the file."""
    jobs: int
    """Number of processes or threads in the run."""
    lasts_ms: int | None = None
    """Minimum duration, independent of the amount of work [ms]; None: the section ends when all work is done."""
    offered: Mapping[str, int] = field(default_factory=dict)
    """Offered reads or writes per second over all jobs, by direction; a direction without a rate is missing."""
    poisson: bool = False
    """Whether arrivals are random (Poisson)."""
    direct: bool = True
    """Whether the section bypasses the page cache."""
    timed: bool = True
    """Whether single operations are timed; gtod_reduce and disable_lat disable timing."""
    uncounted: bool = False
    """Whether the section transfers data that it does not count: during ramp_time, or with pre_read."""
    random: bool = False
    """Whether positions are random."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of fio."""

    phase: str
    """Access: read, write, mixed, cached, buffered; empty: given by `sections`."""
    block_bytes: int
    """Size of one read or write [bytes]; 0: the job file sets the size."""
    depth: int | None
    """Queue depth; None: the job file sets the depth."""
    text: str
    """Text of the job file."""
    read_only: bool = False
    """Whether fio runs with --readonly."""
    lasts_ms: int | None = None
    """Duration, independent of the amount of work [ms]; None: fio ends when all work is done."""
    sections: tuple[JobSection, ...] = ()
    """Sections of the user's job file in this run, in fio's numbering; empty: iolab wrote the job itself."""
    log_ms: int = LOG_MS
    """Averaging time of a point in the logs [ms]."""
    random: bool = False
    """Whether a job that iolab wrote itself uses random positions."""


def of_fio(measure: DiskMeasure) -> Fio:
    """Return fio's settings, with the defaults of the profile."""
    asked = measure.fio or Fio()
    steady, open_loop = measure.profile == "steady-state", asked.offered is not None
    depths = (OPEN_DEPTH,) if open_loop else (32,) if steady else (1, 8, 32)
    return asked.model_copy(update={
        "blocks": asked.blocks or ((4096,) if steady else (4096, 65536, 1 << 20)),
        "depths": asked.depths or depths,
        "access": asked.access or (("write",) if steady else ("read", "write", "mixed")),
    })  # fmt: skip


def jobs_of(measure: DiskMeasure, disk: Disk, target: str, logs: str) -> tuple[Job, ...]:
    """Return the runs of fio in order.

    `target` is the file or device, `logs` the folder for fio's logs. The kernel caches blocks of a FUSE export even if
    fio bypasses its own page cache: no random position is therefore repeated before all positions have been used.
    """
    if times_as_hdparm(measure):
        return tuple(_hdparm(target, logs))
    asked = of_fio(measure)
    head = _head(target, logs, size_of(measure))
    repeats = disk.via != "user"
    ramp_ms = 0 if disk.throttle is None else RAMP_MS
    return tuple(
        Job(
            access,
            block,
            depth,
            head + _combination(asked, access, block, depth, repeats=repeats, ramp_ms=ramp_ms),
            lasts_ms=_lasts_ms(asked),
            random=asked.order == "random",
        )
        for access, block, depth in product(asked.access or (), asked.blocks or (), asked.depths or ())
    )


def uncounted_bytes(measure: DiskMeasure, disk: Disk) -> int:
    """Return the maximum number of bytes that fio transfers without counting them on a throttled disk: twice what the
    throttle passes in the ramp time."""
    if disk.throttle is None or times_as_hdparm(measure):
        return 0
    asked, most = of_fio(measure), 0
    for _, block, _ in product(asked.access or (), asked.blocks or (), asked.depths or ()):
        limits = (disk.throttle.bytes, block * (disk.throttle.operations or 0))
        most += min((one for one in limits if one), default=0) * 2 * RAMP_MS // 1000
    return most * (asked.rounds if measure.profile == "steady-state" else 1)


def fill_job(target: str, size: int, loops: int) -> str:
    """Return the job file that writes all measured bytes `loops` times, with incompressible data."""
    rest = f"rw=write\nbs=1m\nioengine=psync\ndirect=1\nsize={size}\nloops={loops}\nend_fsync=1\nrefill_buffers=1\n"
    return f"[fill]\nfilename={target}\n{rest}"


def _head(target: str, logs: str, size: int | None) -> str:
    own = ("direct=1", "ioengine=io_uring", *(() if size is None else (f"size={size}",)))
    return "\n".join(("[global]", *common_lines(target, logs), *own, ""))


def common_lines(target: str, logs: str, log_ms: int = LOG_MS) -> tuple[str, ...]:
    """Return the lines that every run has: target and reporting."""
    return (
        f"filename={target}", "allow_file_create=0", "lat_percentiles=1", "clat_percentiles=0", "group_reporting=1",
        f"write_bw_log={logs}/log", f"write_iops_log={logs}/log", f"write_lat_log={logs}/log", f"log_avg_msec={log_ms}",
    )  # fmt: skip


def _combination(asked: Fio, access: str, block: int, depth: int, *, repeats: bool, ramp_ms: int) -> str:
    kind = {"read": "read", "write": "write", "mixed": "rw"}[access]
    lines = [
        f"rw={'rand' if asked.order == 'random' else ''}{kind}", f"bs={block}", f"iodepth={depth}",
        f"ioengine={asked.engine}", "refill_buffers=1", f"norandommap={int(repeats)}", "time_based=1",
        f"runtime={_lasts_ms(asked)}ms",
    ]  # fmt: skip
    if ramp_ms:
        lines.append(f"ramp_time={ramp_ms}ms")
    if access == "mixed":
        lines.append(f"rwmixread={READ_SHARE}")
    if asked.offered is not None:
        lines += [f"rate_iops={_offered(asked.offered, access)}", "rate_process=poisson"]
    return "\n".join((f"[{access}]", *lines, ""))


def _lasts_ms(asked: Fio) -> int:
    return max(1, asked.each // NS_PER_MS)


def _offered(rate: int, access: str) -> str:
    if access != "mixed":
        return str(rate)
    reads = max(1, rate * READ_SHARE // 100)
    return f"{reads},{max(1, rate - reads)}"


def _hdparm(target: str, logs: str) -> Iterator[Job]:
    """Yield fio jobs for hdparm's two timings: -T, then -t."""
    head = _head(target, logs, None).replace("direct=1", "direct=0").replace("io_uring", "psync")
    common = f"rw=read\nbs={HDPARM_BLOCK}\n"
    cached = f"[cached]\n{common}size={HDPARM_BLOCK}\npre_read=1\ntime_based=1\nruntime=2s\n"
    buffered = f"[buffered]\n{common}invalidate=1\nruntime=3s\n"
    yield Job("cached", HDPARM_BLOCK, 1, head + cached, read_only=True)
    yield Job("buffered", HDPARM_BLOCK, 1, head + buffered, read_only=True)
