"""What fio is asked: a job file for each combination of a measure, as text. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from iolab.experiment.model.files import Fio
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.trial.disk.disk_programs import size_of, times_as_hdparm
from iolab.units import NS_PER_MS

READ_SHARE = 70
"""Of mixed accesses, those that read [percent]."""
LOG_MS = 100
"""Each point of fio's logs is of this time [ms]."""
RAMP_MS = 300
"""Before a phase on a throttled disk counts [ms]. QEMU lets a tenth of a second's worth through at once after a pause
(block/throttle-groups and util/throttle.c: a bucket of avg / 10 where no burst is set)."""
OPEN_DEPTH = 256
"""Under way at most where a rate is offered: enough for a quarter of a second of a thousand per second."""
HDPARM_BLOCK = 2 << 20
"""Of one read of hdparm [bytes]."""


@dataclass(frozen=True, slots=True)
class JobSection:
    """A section of a job file of the user's own, in the run of fio that carries it out."""

    name: str
    """As the file has it."""
    jobs: int
    """Processes or threads that it has in the run."""
    lasts_ms: int | None = None
    """How long it goes on at least, whatever there is to do; None: until all is done [ms]."""
    offered: Mapping[str, int] = field(default_factory=dict)
    """Direction to the reads or writes that are begun per second, all its jobs together; one without a rate: absent."""
    poisson: bool = False
    """Whether they begin at random times."""
    direct: bool = True
    """Whether it passes the page cache by."""
    timed: bool = True
    """Whether single reads and writes are timed; gtod_reduce and disable_lat leave that out."""
    uncounted: bool = False
    """Whether it reads or writes more than it counts: before its ramp_time is over, or to read all beforehand."""
    random: bool = False
    """Whether it reads or writes at random places."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of fio."""

    phase: str
    """What is done: read, write, mixed, cached, buffered; empty: `sections` say."""
    block_bytes: int
    """Of one read or write; 0: the job file says [bytes]."""
    depth: int | None
    """Kept under way; None: the job file says."""
    text: str
    """The job file."""
    read_only: bool = False
    """Whether fio is kept from writing."""
    lasts_ms: int | None = None
    """How long it goes on, whatever there is to do; None: until all is done [ms]."""
    sections: tuple[JobSection, ...] = ()
    """Of a job file of the user's own, those that this run carries out, as fio numbers them; empty: a combination."""
    log_ms: int = LOG_MS
    """Time of each point of its logs [ms]."""
    random: bool = False
    """Whether a combination reads or writes at random places."""


def of_fio(measure: DiskMeasure) -> Fio:
    """Return what fio does, with the defaults of the profile."""
    asked = measure.fio or Fio()
    steady, open_loop = measure.profile == "steady-state", asked.offered is not None
    depths = (OPEN_DEPTH,) if open_loop else (32,) if steady else (1, 8, 32)
    return asked.model_copy(update={
        "blocks": asked.blocks or ((4096,) if steady else (4096, 65536, 1 << 20)),
        "depths": asked.depths or depths,
        "access": asked.access or (("write",) if steady else ("read", "write", "mixed")),
    })  # fmt: skip


def jobs_of(measure: DiskMeasure, disk: Disk, target: str, logs: str) -> tuple[Job, ...]:
    """Return the runs of fio, in their order.

    `target` is the file or device, `logs` the folder that fio writes its logs to. The kernel keeps blocks of a
    door, also where fio passes its own cache by: there no random place comes again before all have come.
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
    """Return what fio moves at most before its phases on a throttled disk count: ramp and credit, twice over."""
    if disk.throttle is None or times_as_hdparm(measure):
        return 0
    asked, most = of_fio(measure), 0
    for _, block, _ in product(asked.access or (), asked.blocks or (), asked.depths or ()):
        limits = (disk.throttle.bytes, block * (disk.throttle.operations or 0))
        most += min((one for one in limits if one), default=0) * 2 * RAMP_MS // 1000
    return most * (asked.rounds if measure.profile == "steady-state" else 1)


def fill_job(target: str, size: int, loops: int) -> str:
    """Return the job file that writes every measured byte, `loops` times, with data that no store can shorten."""
    rest = f"rw=write\nbs=1m\nioengine=psync\ndirect=1\nsize={size}\nloops={loops}\nend_fsync=1\nrefill_buffers=1\n"
    return f"[fill]\nfilename={target}\n{rest}"


def _head(target: str, logs: str, size: int | None) -> str:
    own = ("direct=1", "ioengine=io_uring", *(() if size is None else (f"size={size}",)))
    return "\n".join(("[global]", *common_lines(target, logs), *own, ""))


def common_lines(target: str, logs: str, log_ms: int = LOG_MS) -> tuple[str, ...]:
    """Return what every run has: where it reads and writes, and how it reports."""
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
    """Give hdparm's two timings as fio's: -T, then -t."""
    head = _head(target, logs, None).replace("direct=1", "direct=0").replace("io_uring", "psync")
    common = f"rw=read\nbs={HDPARM_BLOCK}\n"
    cached = f"[cached]\n{common}size={HDPARM_BLOCK}\npre_read=1\ntime_based=1\nruntime=2s\n"
    buffered = f"[buffered]\n{common}invalidate=1\nruntime=3s\n"
    yield Job("cached", HDPARM_BLOCK, 1, head + cached, read_only=True)
    yield Job("buffered", HDPARM_BLOCK, 1, head + buffered, read_only=True)
