"""Split the sections of a user's job file into runs of fio, each with a job file that iolab writes from the parsed
keys. Pure.

Sections that start together form one run. A section that waits for all previous sections starts a new run, so that the
counters of every layer can be read between runs.
"""

from collections.abc import Iterator, Mapping, Sequence

from iolab.experiment.experiment import Setup
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.locale import Phrase
from iolab.registry.disk_programs import FIO
from iolab.trial.disk.disk_programs import size_of, times_as_hdparm
from iolab.trial.disk.fio_jobs import LOG_MS, Job, JobSection, common_lines, of_fio
from iolab.trial.disk.job_file import (
    MOST,
    OURS,
    JobFile,
    JobProblem,
    Section,
    number,
    place_of,
    read_job,
    seen_at,
)
from iolab.trial.disk.ledger import Way
from iolab.units import NS_PER_MS

GUESSED_NS = 10_000_000_000
"""Assumed duration of a section that runs until its work is done [ns]."""
LONG_NS = 600_000_000_000
"""Assumed maximum duration of a section that runs until its work is done, for the size of its logs [ns]."""
MOST_BUFFER_BYTES = 8 << 30
"""Maximum memory of blocks in flight, over all sections that start together [bytes]."""
LINES_PER_POINT = 6
"""Number of log lines per point: three logs in two directions."""
MOST_LOG_LINES = 80_000
"""Maximum number of log lines of a run: this many lines fit into the kept output of a program."""
END_EARLY = (
    "exitall", "exitall_on_error", "number_ios", "io_size", "rate_min", "rate_iops_min", "max_latency",
    "latency_target", "steadystate", "verify_only", "loops",
)  # fmt: skip
"""Keys with which a section may end before its time."""
PLACES = ("size", "io_size", "offset", "offset_increment")
"""Keys that set the measured part of the disk, also as a percentage."""
DIRECTIONS = ("read", "write")


def job_of(measure: DiskMeasure) -> JobFile | None:
    """Return the measure's job file, which was checked before; None if the measure has no job file."""
    if measure.fio is None or measure.fio.job_text is None:
        return None
    return read_job(measure.fio.job_text, measure.fio.replace)


def passes_cache(measure: DiskMeasure) -> bool:
    """Whether fio bypasses the page cache of its kernel."""
    job = job_of(measure)
    if job is not None:
        return all(_is_direct(one) for one in job.sections)
    return not times_as_hdparm(measure)


def writes(measure: DiskMeasure) -> bool:
    """Whether fio writes to the disk."""
    job = job_of(measure)
    if job is not None:
        keys = ("rw", "readwrite")
        kinds = [str(one.options.get(key, "read")) for one in job.sections for key in keys]
        return any(kind.partition(":")[0] not in ("read", "randread") for kind in kinds)
    return not times_as_hdparm(measure) and any(one != "read" for one in of_fio(measure).access or ())


def written_bytes(setup: Setup, measure: str, volume: str) -> int | None:
    """Return the size of the part of an existing volume, from its start, to which a measure may write [bytes].

    The result is 0 if the measure only reads, and None if the measure uses no disk. A guest to which the volume is
    attached may write to it.
    """
    asked, lab = setup.measures[measure], setup.lab
    if not isinstance(asked, DiskMeasure):
        return None
    owners = [name for name, one in lab.machines.items() if volume in [disk.volume for disk in one.disks]]
    alters = asked.on in owners and asked.program == FIO and writes(asked)
    alters = alters or any(lab.machines[owner].kind == "vm" for owner in owners)
    return size_of(asked) if alters and lab.volumes[volume].writes is not None else 0


def way_of(sections: Sequence[JobSection], disk: Disk, before: Sequence[JobSection] = ()) -> Way:
    """Return the layers between these sections and their device; `before` has the sections of earlier runs.

    Dirty pages of an earlier section are written back while these sections run.
    """
    return Way(
        direct=all(one.direct for one in sections),
        file_system=disk.fs is not None,
        door=disk.via == "user",
        uncounted=any(one.uncounted for one in sections) or not all(one.direct for one in before),
    )


def groups_of(job: JobFile) -> tuple[tuple[Section, ...], ...]:
    """Return the groups of sections that start together, in order."""
    groups: list[list[Section]] = []
    for section in job.sections:
        awaited = section.options.get("wait_for")
        alone = groups and len(groups[-1]) == 1 and groups[-1][0].own_name == awaited
        if not groups or section.is_on("stonewall") or alone:
            groups.append([])
        groups[-1].append(section)
    return tuple(tuple(group) for group in groups)


def runs_of(job: JobFile, measure: DiskMeasure, target: str, logs: str) -> tuple[Job, ...]:
    """Return the runs of fio in order; `target` is the file or device, `logs` the folder for fio's logs."""
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
    """Return the maximum duration of a section [ns]; a rough bound if the section sets no duration."""
    return _runtime_ns(section, measure) if section.is_on("time_based") else LONG_NS


_OWN = (
    "new_group=1", "per_job_logs=1", "log_unix_epoch=1", "unified_rw_reporting=none", "verify_state_save=0",
    "verify_state_load=0", "verify_dump=0", "unlink=0", "stats=1",
)  # fmt: skip
"""Lines that a user's section cannot change."""


def _text(place: int, group: Sequence[Section], measure: DiskMeasure) -> str:
    """Return the text of one section, with its number in place of its name."""
    section = group[place]
    lines = [f"[{place + 1}]"]
    names = [one.own_name for one in group[:place]]
    for key, value in _effective(section, measure).items():
        if key == "wait_for":
            lines += [f"wait_for={names.index(value) + 1}"] if value in names else []
        elif key != "stonewall":  # sections that start together form one run
            lines.append(key if value is None else f"{key}={value}")
    if section.is_on("exitall"):
        lines.append("exit_what=stonewall")  # each section is a group, and each run a stonewall group
    return "\n".join((*lines, ""))


def _effective(section: Section, measure: DiskMeasure) -> Mapping[str, str | None]:
    """Return the section's keys for fio, with iolab's values for replaced keys, and bytes in place of percentages of
    the disk."""
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
    """Return the section's position and size [bytes]."""
    grain = int(_bytes(section, "offset_align", region) or 0) or _least_block(section)
    offset = _bytes(section, "offset", region, grain) or 0
    step = _bytes(section, "offset_increment", region, grain) or 0
    size = _bytes(section, "size", region) or None  # fio treats 0 as the whole size
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
    """Return a size in the job file; percentages are relative to `region` bytes; None: iolab sets the size."""
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
    """Yield problems of a job file whose runs on `region` bytes would exceed the limits of the machine or disk."""
    for group in groups_of(job):
        where = ", ".join(f"[{one.name}]" for one in group)
        jobs, buffers = sum(one.jobs for one in group), sum(one.buffer_bytes for one in group)
        if jobs > MOST["numjobs"]:
            allowed, keys = Phrase("check.at-most", most=MOST["numjobs"]), ["numjobs"]
            yield JobProblem(
                seen_at(where, Phrase("trial.jobs-at-once", count=jobs)), allowed, _smaller(keys)
            )
        if buffers > MOST_BUFFER_BYTES:
            allowed, keys = Phrase("measures.at-most", most=MOST_BUFFER_BYTES), ["bs", "iodepth", "numjobs"]
            yield JobProblem(
                seen_at(where, Phrase("trial.buffers-of-bytes", size=buffers)), allowed, _smaller(keys)
            )
    yield from _place_problems(job, region)


def _smaller(keys: Sequence[str]) -> Phrase:
    return Phrase("trial.write-smaller-or-stonewall", names=keys)


def _place_problems(job: JobFile, region: int) -> Iterator[JobProblem]:
    """Yield the sections that would access the disk beyond the measured `region` bytes."""
    for section in job.sections:
        where = place_of(section.line, section.name)
        found = _places(section, region)
        step = found.get("offset_increment", 0)
        if step and section.options.get("size") in (None, OURS):
            seen = Phrase("trial.key-without-key", key="offset_increment", other="size")
            allowed, advice = Phrase("trial.key-as-well", key="size"), Phrase("trial.write-size")
            yield JobProblem(seen_at(where, seen), allowed, advice)
            continue
        end = found.get("offset", 0) + step * (section.jobs - 1) + found["size"]
        if end > region or found["size"] <= 0:
            seen = Phrase("trial.accesses-up-to-byte", end=end)
            allowed = Phrase("trial.accesses-within-size", size=region)
            advice = Phrase("trial.set-larger-size")
            yield JobProblem(seen_at(where, seen), allowed, advice)


def sections_of(job: JobFile, measure: DiskMeasure) -> tuple[JobSection, ...]:
    """Return every section of a job file with its settings in its run of fio."""
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
    """Whether a section uses random positions; if rw and readwrite are both set, the later line applies."""
    kinds = [value or "" for key, value in section.options.items() if key in ("rw", "readwrite")]
    return bool(kinds) and kinds[-1].startswith("rand")


def _is_direct(section: Section) -> bool:
    """Whether a section bypasses the page cache; if direct and buffered are both set, the later line applies."""
    direct = False
    for key, value in section.options.items():
        if key in ("direct", "buffered"):
            direct = (value == "1") is (key == "direct")
    return direct


def _offered(section: Section) -> Iterator[tuple[str, int]]:
    """Yield the offered rate of each direction over all jobs; a single value applies to both directions."""
    words = (section.options.get("rate_iops") or "").split(",")
    for direction, word in zip(DIRECTIONS, (words[0], words[min(1, len(words) - 1)]), strict=True):
        if word and number(word):
            yield direction, number(word) * section.jobs


def lasts_ns(job: JobFile, measure: DiskMeasure) -> int:
    """Return the total duration of all sections by their run times; sections without a run time have an assumed
    duration [ns]."""
    return sum(
        max(
            one.time_ns("startdelay") + one.time_ns("ramp_time") + (_runtime_ns(one, measure) or GUESSED_NS)
            for one in group
        )
        for group in groups_of(job)
    )
