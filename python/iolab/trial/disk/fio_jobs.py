"""What fio is asked: a job file for each combination of a measure, and what a user's own may say. Pure."""

import configparser
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from iolab.experiment.fio import MOST_SECTIONS, Fio
from iolab.experiment.machines import Disk
from iolab.experiment.measures import DiskMeasure
from iolab.trial.disk.own import DEFAULT_BYTES

READ_SHARE = 70
"""Of mixed accesses, those that read [percent]."""
LOG_MS = 100
"""Each point of fio's logs is of this time [ms]."""
NS_PER_MS = 1_000_000
OPEN_DEPTH = 256
"""Under way at most where a rate is offered: enough for a quarter of a second of a thousand per second."""
HDPARM_BLOCK = 2 << 20
"""Of one read of hdparm [bytes]."""
OWN_KEYS = frozenset({
    "rw", "readwrite", "bs", "blocksize", "bsrange", "bssplit", "blockalign", "rwmixread", "rwmixwrite",
    "size", "io_size", "offset", "offset_increment", "iodepth", "iodepth_batch", "iodepth_batch_submit",
    "iodepth_batch_complete", "iodepth_batch_complete_min", "iodepth_batch_complete_max", "iodepth_low",
    "numjobs", "ioengine", "direct", "buffered", "sync", "fsync", "fdatasync", "end_fsync", "invalidate",
    "runtime", "time_based", "ramp_time", "startdelay", "loops", "stonewall", "wait_for_previous", "thread",
    "rate", "rate_iops", "rate_min", "rate_iops_min", "rate_process", "thinktime", "thinktime_blocks",
    "thinktime_spin", "io_submit_mode", "latency_target", "latency_window", "latency_percentile",
    "max_latency", "random_distribution", "percentage_random", "randrepeat", "allrandrepeat", "randseed",
    "norandommap", "random_generator", "refill_buffers", "zero_buffers", "scramble_buffers",
    "buffer_compress_percentage", "dedupe_percentage", "verify", "do_verify", "verify_fatal", "hipri",
    "sqthread_poll", "registerfiles", "fixedbufs", "nonvectored", "nice", "prio", "prioclass",
    "cpus_allowed", "cpus_allowed_policy",
})  # fmt: skip
"""Keys of fio's job files that say what is done. The others say where, start programs, or write files."""
ENGINES = frozenset({"io_uring", "libaio", "psync", "pvsync", "pvsync2", "sync", "vsync", "posixaio"})
"""Of fio, those that read and write the file that they are given."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of fio."""

    phase: str
    """What is done: read, write, mixed, cached, buffered; empty: a job file of the user's own, whose sections say."""
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


def size_of(measure: DiskMeasure) -> int:
    """Return how much of the disk is written and read [bytes]."""
    return measure.size or DEFAULT_BYTES


def jobs_of(measure: DiskMeasure, disk: Disk, target: str, logs: str) -> tuple[Job, ...]:
    """Return the runs of fio, in their order.

    `target` is the file or device, `logs` the folder that fio writes its logs to. The kernel keeps blocks of a
    door, also where fio passes its own cache by: there no random place comes again before all have come.
    """
    if measure.profile == "hdparm":
        return tuple(_hdparm(target, logs))
    asked, size = of_fio(measure), size_of(measure)
    head = _head(target, logs, size)
    if asked.job is not None:
        return (Job("", 0, None, f"{head}{asked.job.strip()}\n"),)
    repeats = disk.via != "user"
    return tuple(
        Job(
            access,
            block,
            depth,
            head + _combination(asked, access, block, depth, repeats=repeats),
            lasts_ms=_lasts_ms(asked),
        )
        for access, block, depth in product(asked.access or (), asked.blocks or (), asked.depths or ())
    )


def fill_job(target: str, size: int, loops: int) -> str:
    """Return the job file that writes every measured byte, `loops` times, with data that no store can shorten."""
    rest = f"rw=write\nbs=1m\nioengine=psync\ndirect=1\nsize={size}\nloops={loops}\nend_fsync=1\nrefill_buffers=1\n"
    return f"[fill]\nfilename={target}\n{rest}"


def own_job_troubles(text: str) -> tuple[str, ...]:
    """Return what is wrong with a job file of the user's own, each as a few words; empty: nothing."""
    parser = configparser.ConfigParser(
        allow_no_value=True, interpolation=None, default_section="", delimiters=("=",),
        comment_prefixes=("#", ";"),
    )  # fmt: skip
    try:
        parser.read_string(text)
    except configparser.Error as error:
        return (str(error).splitlines()[0],)
    return tuple(_troubles(parser))


def _troubles(parser: configparser.ConfigParser) -> Iterator[str]:
    sections = parser.sections()
    if not 1 <= len([name for name in sections if name != "global"]) <= MOST_SECTIONS:
        yield f"{len(sections)} sections"
    for name in sections:
        yield from (
            f"[{name}] and [{twin}]" for twin in (f"{name}-read", f"{name}-write") if twin in sections
        )
    for name in sections:
        for key, value in parser.items(name):
            if key not in OWN_KEYS:
                yield f"{key} in [{name}]"
            elif key == "ioengine" and value not in ENGINES:
                yield f"ioengine={value} in [{name}]"
            elif "$" in (value or ""):  # fio computes and substitutes there
                yield f"{key}={value} in [{name}]"


def _head(target: str, logs: str, size: int | None) -> str:
    lines = (
        f"filename={target}", "allow_file_create=0", "direct=1", "ioengine=io_uring",
        *(() if size is None else (f"size={size}",)),
        "lat_percentiles=1", "clat_percentiles=0", "group_reporting=1", f"write_bw_log={logs}/log",
        f"write_iops_log={logs}/log", f"write_lat_log={logs}/log", f"log_avg_msec={LOG_MS}", "per_job_logs=0",
    )  # fmt: skip
    return "\n".join(("[global]", *lines, ""))


def _combination(asked: Fio, access: str, block: int, depth: int, *, repeats: bool) -> str:
    kind = {"read": "read", "write": "write", "mixed": "rw"}[access]
    lines = [
        f"rw={'rand' if asked.order == 'random' else ''}{kind}", f"bs={block}", f"iodepth={depth}",
        f"ioengine={asked.engine}", "refill_buffers=1", f"norandommap={int(repeats)}", "time_based=1",
        f"runtime={_lasts_ms(asked)}ms",
    ]  # fmt: skip
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
