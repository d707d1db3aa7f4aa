"""The sections of a user's job file as runs of fio, each with a job file that iolab writes from what it has read. Pure.

Sections that begin together are one run; each that waits for all before it begins another, so that every layer below
can be counted between them.
"""

from collections.abc import Iterator, Mapping, Sequence

from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.trial.disk.disk_programs import size_of, times_as_hdparm
from iolab.trial.disk.fio_jobs import LOG_MS, Job, JobSection, common_lines, of_fio
from iolab.trial.disk.job_file import MOST, OURS, JobFile, JobProblem, Section, number, read_job
from iolab.trial.disk.ledger import Way
from iolab.units import NS_PER_MS

GUESSED_NS = 10_000_000_000
"""Of a section that goes on until all is done [ns]."""
LONG_NS = 600_000_000_000
"""Of the same, where logs must have room for it [ns]."""
MOST_BUFFER_BYTES = 8 << 30
"""Blocks that are in flight at once, in all sections that begin together."""
LINES_PER_POINT = 6
"""Of logs: three of them, in two directions."""
MOST_LOG_LINES = 80_000
"""Of all logs of a run: what is kept of a program's output holds as many."""
END_EARLY = (
    "exitall", "exitall_on_error", "number_ios", "io_size", "rate_min", "rate_iops_min", "max_latency",
    "latency_target", "steadystate", "verify_only", "loops",
)  # fmt: skip
"""Keys with which a section may end before its time."""
PLACES = ("size", "io_size", "offset", "offset_increment")
"""Keys that say which part of the disk is measured, in shares of it as well."""
DIRECTIONS = ("read", "write")


def job_of(measure: DiskMeasure) -> JobFile | None:
    """Return the job file of a measure, which was checked before; None: it has none."""
    if measure.fio is None or measure.fio.job_text is None:
        return None
    return read_job(measure.fio.job_text, measure.fio.replace)


def passes_cache(measure: DiskMeasure) -> bool:
    """Return whether fio passes the page cache of its kernel."""
    job = job_of(measure)
    if job is not None:
        return all(_is_direct(one) for one in job.sections)
    return not times_as_hdparm(measure)


def way_of(sections: Sequence[JobSection], disk: Disk, before: Sequence[JobSection] = ()) -> Way:
    """Return what lies between these sections and their device; `before` are those of earlier runs.

    What an earlier one left in the page cache is written while these go on.
    """
    return Way(
        direct=all(one.direct for one in sections),
        file_system=disk.fs is not None,
        door=disk.via == "user",
        uncounted=any(one.uncounted for one in sections) or not all(one.direct for one in before),
    )


def groups_of(job: JobFile) -> tuple[tuple[Section, ...], ...]:
    """Return the sections that begin together, in their order."""
    groups: list[list[Section]] = []
    for section in job.sections:
        awaited = section.options.get("wait_for")
        alone = groups and len(groups[-1]) == 1 and groups[-1][0].own_name == awaited
        if not groups or section.is_on("stonewall") or alone:
            groups.append([])
        groups[-1].append(section)
    return tuple(tuple(group) for group in groups)


def runs_of(job: JobFile, measure: DiskMeasure, target: str, logs: str) -> tuple[Job, ...]:
    """Return the runs of fio, in their order: `target` is the file or device, `logs` the folder for fio's logs."""
    return tuple(_run(group, measure, target, logs) for group in groups_of(job))


def _run(group: Sequence[Section], measure: DiskMeasure, target: str, logs: str) -> Job:
    lines = sum(LINES_PER_POINT * one.jobs * _long_ns(one, measure) // (LOG_MS * NS_PER_MS) for one in group)
    log_ms = LOG_MS * max(1, -(-lines // MOST_LOG_LINES))
    head = "\n".join(("[global]", *common_lines(target, logs, log_ms), *_OWN, ""))
    text = head + "".join(_text(place, group, measure) for place in range(len(group)))
    return Job(
        "", 0, None, text, sections=tuple(_section(one, group, measure) for one in group), log_ms=log_ms
    )


def _long_ns(section: Section, measure: DiskMeasure) -> int:
    """Return how long a section may go on, a rough bound where it does not say [ns]."""
    return _runtime_ns(section, measure) if section.is_on("time_based") else LONG_NS


_OWN = (
    "new_group=1", "per_job_logs=1", "log_unix_epoch=1", "unified_rw_reporting=none", "verify_state_save=0",
    "verify_state_load=0", "verify_dump=0", "unlink=0", "stats=1",
)  # fmt: skip
"""What a section of the user's cannot change."""


def _text(place: int, group: Sequence[Section], measure: DiskMeasure) -> str:
    """Return the text of one section; in place of its name stands its number."""
    section = group[place]
    lines = [f"[{place + 1}]"]
    names = [one.own_name for one in group[:place]]
    for key, value in _effective(section, measure).items():
        if key == "wait_for":
            lines += [f"wait_for={names.index(value) + 1}"] if value in names else []
        elif key != "stonewall":  # each run has what begins together
            lines.append(key if value is None else f"{key}={value}")
    if section.is_on("exitall"):
        lines.append("exit_what=stonewall")  # a group is a section here, and all of a run is one stonewall
    return "\n".join((*lines, ""))


def _effective(section: Section, measure: DiskMeasure) -> Mapping[str, str | None]:
    """Return what fio gets: iolab's values for those that were replaced, and bytes for shares of the disk."""
    asked = of_fio(measure)
    ours = {"runtime": f"{asked.each // 1000}us", "ioengine": asked.engine}
    found: dict[str, str | None] = {}
    for key, value in section.options.items():
        if value == OURS:
            if key in ours:
                found[key] = ours[key]
        elif key not in PLACES and key != "exit_what":
            found[key] = value
    return {**found, **{key: str(value) for key, value in _places(section, size_of(measure)).items()}}


def _places(section: Section, region: int) -> dict[str, int]:
    """Return where a section reads and writes [bytes]."""
    grain = int(_bytes(section, "offset_align", region) or 0) or _least_block(section)
    offset = _bytes(section, "offset", region, grain) or 0
    step = _bytes(section, "offset_increment", region, grain) or 0
    size = _bytes(section, "size", region) or None  # fio takes 0 for all there is
    found = {
        "size": region - offset
        if size is None
        else min(size, region - offset)
        if _is_share(section)
        else size
    }
    total = _bytes(section, "io_size", region)
    if offset:
        found["offset"] = offset
    if step:
        found["offset_increment"] = step
    return found if total is None else {**found, "io_size": total}


def _is_share(section: Section) -> bool:
    return (section.options.get("size") or "").endswith("%")


def _bytes(section: Section, key: str, region: int, grain: int = 1) -> int | None:
    """Return a size of the file's, of `region` bytes where it is a share of the disk; None: iolab has its own."""
    text = section.options.get(key) or OURS
    if text == OURS:
        return None
    if text.endswith("%"):
        return region * int(text[:-1]) // 100 // grain * grain
    return number(text)


def _least_block(section: Section) -> int:
    words = [word for word in (section.options.get("bs") or "").split(",") if word]
    return min((number(word) for word in words), default=4096) or 4096


def run_problems(job: JobFile, region: int) -> Iterator[JobProblem]:
    """Yield what runs of a job file on `region` bytes would ask too much of the machine or of the disk."""
    for group in groups_of(job):
        where = ", ".join(f"[{one.name}]" for one in group)
        jobs, buffers = sum(one.jobs for one in group), sum(one.buffer_bytes for one in group)
        if jobs > MOST["numjobs"]:
            seen = f"{where}: {jobs} jobs at once"
            yield JobProblem(seen, f"at most {MOST['numjobs']}", "write a smaller numjobs, or stonewall")
        if buffers > MOST_BUFFER_BYTES:
            seen, allowed = f"{where}: {buffers} bytes of buffers", f"at most {MOST_BUFFER_BYTES}"
            yield JobProblem(seen, allowed, "write a smaller bs, iodepth or numjobs, or stonewall")
    yield from _place_problems(job, region)


def _place_problems(job: JobFile, region: int) -> Iterator[JobProblem]:
    """Yield the sections that would read or write beyond the `region` bytes that are measured."""
    for section in job.sections:
        where = f"line {section.line} of the job, [{section.name}]"
        found = _places(section, region)
        step = found.get("offset_increment", 0)
        if step and section.options.get("size") in (None, OURS):
            yield JobProblem(f"{where}: offset_increment alone", "a size beside it", "write size=")
            continue
        end = found.get("offset", 0) + step * (section.jobs - 1) + found["size"]
        if end > region or found["size"] <= 0:
            seen = f"{where}: the first {end} bytes, size={section.options.get('size')}"
            advice = "write a larger `size` at the measure, or `replace: [size]`"
            yield JobProblem(seen, f"at most the {region} bytes that are measured", advice)


def sections_of(job: JobFile, measure: DiskMeasure) -> tuple[JobSection, ...]:
    """Return every section as its run has it."""
    return tuple(_section(one, group, measure) for group in groups_of(job) for one in group)


def _section(section: Section, group: Sequence[Section], measure: DiskMeasure) -> JobSection:
    options = _effective(section, measure)
    timed = section.is_on("time_based") and not any(key in options for key in END_EARLY)
    whole = timed and not any(one.is_on("exitall") for one in group)
    return JobSection(
        section.name,
        section.jobs,
        lasts_ms=_runtime_ns(section, measure) // NS_PER_MS if whole else None,
        offered=dict(_offered(section)),
        poisson=section.options.get("rate_process") == "poisson",
        direct=_is_direct(section),
        timed=not (section.is_on("gtod_reduce") or section.is_on("disable_lat")),
        uncounted=bool(section.time_ns("ramp_time")) or section.is_on("pre_read"),
        random=_is_random(section),
    )


def _runtime_ns(section: Section, measure: DiskMeasure) -> int:
    return of_fio(measure).each if section.options.get("runtime") == OURS else section.time_ns("runtime")


def _is_random(section: Section) -> bool:
    """Return whether a section reads or writes at random places: of rw and readwrite the later counts."""
    kinds = [value or "" for key, value in section.options.items() if key in ("rw", "readwrite")]
    return bool(kinds) and kinds[-1].startswith("rand")


def _is_direct(section: Section) -> bool:
    """Return whether a section passes the page cache by: of direct and buffered the later counts."""
    direct = False
    for key, value in section.options.items():
        if key in ("direct", "buffered"):
            direct = (value == "1") is (key == "direct")
    return direct


def _offered(section: Section) -> Iterator[tuple[str, int]]:
    """Yield the rate of each direction that is begun at one, of all jobs; fio takes the first for both."""
    words = (section.options.get("rate_iops") or "").split(",")
    for direction, word in zip(DIRECTIONS, (words[0], words[min(1, len(words) - 1)]), strict=True):
        if word and number(word):
            yield direction, number(word) * section.jobs


def lasts_ns(job: JobFile, measure: DiskMeasure) -> int:
    """Return how long all sections take, by their times; those without one are guessed [ns]."""
    return sum(
        max(
            one.time_ns("startdelay") + one.time_ns("ramp_time") + (_runtime_ns(one, measure) or GUESSED_NS)
            for one in group
        )
        for group in groups_of(job)
    )
