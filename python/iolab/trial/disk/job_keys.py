"""The keys of fio's job files: passed on with which values, left out, set by iolab, or refused and why. Pure.

`python -m iolab.trial.disk.job_keys FILE` rewrites the table of docs/how-to/measure-a-disk.md; a test checks it.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Use(StrEnum):
    """What iolab does with a key."""

    PASSED = "passed on"
    """fio gets it as the file has it."""
    LEFT_OUT = "left out"
    """It concerns fio's own report and logs, in whose place iolab has its own."""
    SET = "set by iolab"
    """iolab has its own value; the file's is accepted where the measure says `replace`."""
    REFUSED = "refused"
    """No value of it is accepted."""


@dataclass(frozen=True, slots=True)
class Values:
    """What may stand after a key."""

    pattern: re.Pattern[str]
    """The whole value."""
    allowed: str
    """The same in words."""
    bare: bool = False
    """Whether the key may stand alone."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key."""

    name: str
    """As fio writes it; other spellings are in ALIASES."""
    use: Use
    values: Values | None = None
    """What may stand after it; None: it is not looked at."""
    reason: str = ""
    """SET: what iolab does; REFUSED: why."""
    instead: str = ""
    """What iolab has in its place where `replace` names it; empty: it cannot be replaced."""


def _values(pattern: str, allowed: str, *, bare: bool = False) -> Values:
    return Values(re.compile(pattern), allowed, bare)


def _one_of(*words: str) -> Values:
    return _values("|".join(map(re.escape, words)), ", ".join(words))


NUMBER = r"[0-9]{1,18}(?:[kKmMgGtT](?:[iI]?[bB]?))?"
_TIME = r"[0-9]{1,12}(?:usec|us|msec|ms|sec|s|m|h|d)?"
_SPLIT = rf"(?:{NUMBER}/[0-9]{{0,3}}(?::{NUMBER}/[0-9]{{0,3}})*)?"
_DECIMAL = r"[0-9]{1,6}(?:\.[0-9]{1,6})?"
_PERCENT_RATIO = rf"{_DECIMAL}/{_DECIMAL}"
_ZONES = rf"(?:{_PERCENT_RATIO}(?::{_PERCENT_RATIO})*)?"
_SPANS = rf"(?:{_DECIMAL}/{NUMBER}(?::{_DECIMAL}/{NUMBER})*)?"
_THREE = "(?:,{0}){{0,2}}"
_PATTERN = r'(?:0x[0-9a-fA-F]{1,64}|-?[0-9]{1,10}|"[A-Za-z0-9 _.-]{1,64}"|%o)'

SWITCH = _values("[01]", "nothing, 0 or 1", bare=True)
BOOL = _values("[01]", "0 or 1")
COUNT = _values(NUMBER, "a whole number, optionally with k, m, g or t")
COUNTS = _values(
    f"(?:{NUMBER})?{_THREE.format(f'(?:{NUMBER})?')}",
    "up to three comma-separated numbers: reads, writes, trims",
)
RANGES = _values(
    f"{NUMBER}-{NUMBER}{_THREE.format(f'{NUMBER}-{NUMBER}')}", "up to three ranges: 4k-64k,1k-8k"
)
SPLITS = _values(
    f"{_SPLIT}{_THREE.format(_SPLIT)}", "sizes and percentages: 4k/60:64k/40; up to three, comma-separated"
)
SIZE = _values(rf"{NUMBER}|100%|[1-9]?[0-9]%", "a size (64m), or a percentage of the measured size (50%)")
PLAIN_COUNT = _values("[0-9]{1,9}", "a whole number")
PRIORITY = _values("[0-7]", "0 (the highest) to 7")
NO_REAL_TIME = "fio runs without CAP_SYS_NICE, which real-time I/O needs"
SIGNED = _values("-?[0-9]{1,3}", "a whole number")
TIME = _values(_TIME, "a whole number with us, ms, s, m, h or d; fio's default unit without one")
DELAY = _values(f"{_TIME}(?:-{_TIME})?", "a time, or a range: 1s-5s")
DECIMAL = _values(_DECIMAL, "a number")
CPUS = _values(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:[,:][0-9]{1,5}(?:-[0-9]{1,5})?)*", "CPU numbers: 0-3,6")
DATA = _values(f"{_PATTERN}+", 'numbers (0xff) and "text" of letters, digits and spaces')
JOB_NAME = _values(r"[^\x00-\x1f\x7f]+", "the name of an earlier section")

ENGINES = ("io_uring", "libaio", "psync", "pvsync", "pvsync2", "sync", "vsync", "posixaio", "mmap")
"""Of fio, those that read and write the file that they are given, and nothing else."""
VERIFY = ("0", "md5", "crc64", "crc32", "crc32c", "crc32c-intel", "crc16", "crc7", "sha1", "sha256", "sha512",
          "sha3-224", "sha3-256", "sha3-384", "sha3-512", "xxhash", "meta", "pattern", "null")  # fmt: skip
_ACCESS = "read|write|randread|randwrite|rw|readwrite|randrw"

_PASSED: tuple[tuple[Values, str], ...] = (
    (_values(rf"(?:{_ACCESS})(?::[0-9]{{1,9}}[kKmM]?)?", "read, write, randread, randwrite, rw, readwrite or randrw"),
     "rw"),
    (_one_of(*ENGINES), "ioengine"),
    (SIZE, "size io_size offset offset_increment"),
    (COUNT, ("ba offset_align number_ios loops write_barrier verify_interval verify_offset verify_backlog "
            "buffer_compress_chunk zonesize zonerange zoneskip")),
    (COUNTS, "bs rate rate_min rate_iops rate_iops_min percentage_random"),
    (RANGES, "bsrange"),
    (SPLITS, "bssplit"),
    (PLAIN_COUNT, ("iodepth iodepth_batch iodepth_batch_complete_min iodepth_batch_complete_max iodepth_low numjobs "
                  "fsync fdatasync verify_async verify_backlog_batch rwmixread rwmixwrite thinktime_blocks rate_cycle "
                  "buffer_compress_percentage dedupe_percentage dedupe_working_set_percentage flow flow_id flow_sleep "
                  "cpumask gtod_cpu sqthread_poll_cpu hipri_percentage")),
    (PRIORITY, "prio cmdprio"),
    (_values("[023]", f"0 (none), 2 (best effort) or 3 (idle); not 1: {NO_REAL_TIME}"), "prioclass"),
    (_values("[23]", f"2 (best effort) or 3 (idle); not 1: {NO_REAL_TIME}"), "cmdprio_class"),
    (_values("[1-9]?[0-9]|100", "a percentage; above 0 with a cmdprio_class, because fio's default is 1: "
             f"{NO_REAL_TIME}"), "cmdprio_percentage"),
    (_values(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,18}", "a whole number"), "randseed"),
    (SIGNED, "nice"),
    (TIME, ("runtime ramp_time thinktime thinktime_spin thinktime_iotime max_latency latency_target latency_window "
           "steadystate_duration steadystate_ramp_time")),
    (DELAY, "startdelay"),
    (DECIMAL, "latency_percentile"),
    (_values(rf"(?:iops|bw|iops_slope|bw_slope):{_DECIMAL}%?", "iops, bw, iops_slope or bw_slope, and a limit: "
             "iops:2%"), "steadystate"),
    (SWITCH, ("norandommap bs_unaligned time_based verify_only exitall exitall_on_error stonewall thread zero_buffers "
             "refill_buffers hipri fixedbufs registerfiles sqthread_poll userspace_reap")),
    (BOOL, ("randrepeat allrandrepeat serialize_overlap direct buffered overwrite do_verify verify_fatal "
           "rate_ignore_thinktime latency_run invalidate create_serialize create_fsync pre_read end_fsync "
           "fsync_on_close scramble_buffers dedupe_global bs_is_seq_rand softrandommap nonvectored uncached nowait "
           "gtod_reduce disable_lat disable_clat disable_slat disable_bw_measurement experimental_verify")),
    (_one_of("linear", "poisson"), "rate_process"),
    (_one_of("sequential", "identical"), "rw_sequencer"),
    (_one_of("inline", "offload"), "io_submit_mode"),
    (_one_of("tausworthe", "lfsr", "tausworthe64"), "random_generator"),
    (_values(rf"random|(?:zipf|pareto|normal):{_DECIMAL}(?::{_DECIMAL})?|zoned:{_ZONES}{_THREE.format(_ZONES)}"
             rf"|zoned_abs:{_SPANS}{_THREE.format(_SPANS)}",
             "random, zipf:1.2, pareto:0.2, normal:30, zoned:60/10:40/90, zoned_abs:60/10m:40/50m"),
     "random_distribution"),
    (_one_of("none", "native", "posix", "keep", "0", "1"), "fallocate"),
    (_one_of("0", "1", "random", "sequential"), "fadvise_hint"),
    (_one_of("none", "0", "sync", "1", "dsync"), "sync"),
    (_values(rf"(?:wait_before|write|wait_after)(?:,(?:wait_before|write|wait_after))*:{NUMBER}",
             "wait_before, write or wait_after, and a number of writes: write:8"), "sync_file_range"),
    (_one_of(*VERIFY), "verify"),
    (DATA, "verify_pattern buffer_pattern"),
    (_one_of("complete", "issue"), "thinktime_blocks_type"),
    (_one_of("repeat", "working_set"), "dedupe_mode"),
    (CPUS, "cpus_allowed verify_async_cpus"),
    (_one_of("shared", "split"), "cpus_allowed_policy"),
    (_values(r"all|[0-9]{1,4}(?:[,-][0-9]{1,4})*", "numbers of nodes, or all"), "numa_cpu_nodes"),
    (_values(r"(?:default|prefer|bind|interleave|local)(?::[0-9]{1,4}(?:[,-][0-9]{1,4})*)?",
             "default, prefer, bind, interleave or local, and nodes"), "numa_mem_policy"),
    (_one_of("malloc", "mmap"), "mem"),
    (_one_of("none", "read", "write", "io", "verify", "all", "0", "1"), "continue_on_error"),
    (_one_of("group", "stonewall"), "exit_what"),
    (_one_of("none", "strided"), "zonemode"),
    (_one_of("gettimeofday", "clock_gettime", "cpu"), "clocksource"),
    (_one_of("none", "short", "medium", "long", "extreme"), "write_hint"),
    (JOB_NAME, "wait_for"),
)  # fmt: skip
"""Values, and the keys that have them."""

_LEFT_OUT = (
    "group_reporting new_group name description per_job_logs unified_rw_reporting significant_figures percentile_list "
    "clat_percentiles lat_percentiles slat_percentiles disk_util unit_base bwavgtime iopsavgtime log_entries "
    "log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio log_unix_epoch "
    "log_alternate_epoch log_alternate_epoch_clock_id log_compression log_compression_cpus log_store_compressed "
    "block_error_percentiles error_dump"
)

_PLACE = "fio reads and writes the lab's disk, or a file of `size` bytes on it"
_SET: tuple[tuple[str, str], ...] = (
    (_PLACE, ("filename directory filename_format unique_filename opendir nrfiles openfiles filesize file_service_type "
             "lockfile")),
    ("the file exists before fio starts and is kept until the trial ends",
     "allow_file_create create_on_open unlink unlink_each_loop"),
    ("fio writes no other file; iolab uses its own logs",
     "write_bw_log write_lat_log write_iops_log write_hist_log verify_dump verify_state_save verify_state_load"),
    ("no program is run; iolab drops caches before the trial", "exec_prerun exec_postrun"),
    ("the disk's I/O scheduler is not changed", "ioscheduler"),
    ("fio runs with the user, cgroup and memory that iolab sets",
     "uid gid cgroup cgroup_weight cgroup_nodelete lockmem"),
    ("buffers use normal pages", "hugepage-size"),
)  # fmt: skip
_INSTEAD: Mapping[str, str] = {
    "size": "the measure's `size`",
    "io_size": "as much as `size`",
    "offset": "0",
    "offset_increment": "0",
    "runtime": "the measure's `fio.each`",
    "ioengine": "the measure's `fio.engine`",
    "cpus_allowed": "all CPUs of the machine",
    "mem": "malloc",
    "prioclass": "the class that the kernel gives by itself",
    "cmdprio_percentage": "0",
}
"""Keys that are passed on, and may be replaced all the same."""

_REFUSED: tuple[tuple[str, str], ...] = (
    ("it replays recorded requests, whose offsets and devices are not those of the lab",
     ("read_iolog read_iolog_chunked write_iolog replay_no_stall replay_redirect replay_scale replay_align "
     "replay_time_scale replay_skip merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters")),
    ("it discards blocks; later reads of them do not reach the disk",
     "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch"),
    ("it writes beyond the measured size", "fill_device file_append"),
    ("it does no I/O", "create_only"),
    ("it hides I/O errors", "ignore_error"),
    ("without statistics there are no figures", "stats"),
    ("it allows writes to a mounted disk", "allow_mounted_write"),
    ("it is for zoned block devices, whose zones fio resets",
     ("zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits zone_reset_threshold "
     "zone_reset_frequency")),
    ("it changes the meaning of size suffixes", "kb_base"),
    ("it runs a built-in benchmark with its own files", "profile"),
    ("the lab's disks do not support atomic writes", "atomic"),
    ("it reads another file", "include"),
    ("it belongs to an engine that does not do disk I/O",
     "hostname port listen protocol cmd_type force_async program arguments grace_time std_redirect"),
)  # fmt: skip
ALIASES: Mapping[str, str] = {
    "readwrite": "rw", "blocksize": "bs", "blockalign": "ba", "blocksize_range": "bsrange",
    "blocksize_unaligned": "bs_unaligned", "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min", "io_limit": "io_size", "fileoffset": "offset",
    "nr_files": "nrfiles", "fill_fs": "fill_device", "timeout": "runtime", "iomem": "mem", "ratemin": "rate_min",
    "ratecycle": "rate_cycle", "wait_for_previous": "stonewall", "disable_bw": "disable_bw_measurement",
    "ss": "steadystate", "ss_dur": "steadystate_duration", "ss_ramp": "steadystate_ramp_time",
}  # fmt: skip
"""Other spellings that fio takes."""


def _keys() -> Iterator[Key]:
    for values, names in _PASSED:
        for name in names.split():
            yield Key(name, Use.PASSED, values, instead=_INSTEAD.get(name, ""))
    yield from (Key(name, Use.LEFT_OUT) for name in _LEFT_OUT.split())
    for reason, names in _SET:
        yield from (Key(name, Use.SET, reason=reason, instead=reason) for name in names.split())
    for reason, names in _REFUSED:
        yield from (Key(name, Use.REFUSED, reason=reason) for name in names.split())


KEYS: Mapping[str, Key] = {key.name: key for key in _keys()}
"""Every key that iolab knows, by its name."""
REPLACEABLE = frozenset(key.name for key in KEYS.values() if key.instead)
"""What `replace` may name."""


def key_of(word: str) -> Key | None:
    """Return the key that fio takes a word for; None: iolab knows none."""
    return KEYS.get(ALIASES.get(word, word))


BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"


def with_table(page: str) -> str:
    """Return a page with the table of all keys between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join((before + BEGIN, "", *_table(), "", END + after))


def _table() -> Iterator[str]:
    yield "| keys | what iolab does | accepted values, or the reason |"
    yield "|---|---|---|"
    rows: dict[tuple[Use, str], list[str]] = {}
    for key in KEYS.values():
        text = (
            key.values.allowed
            if key.values is not None
            else key.reason or "iolab reports each section itself: the value has no effect"
        )
        rows.setdefault((key.use, text), []).append(f"`{key.name}`{'*' if key.name in _INSTEAD else ''}")
    for (use, text), names in rows.items():
        yield f"| {' '.join(names)} | {use} | {text.replace('|', '&#124;')} |"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text()))
