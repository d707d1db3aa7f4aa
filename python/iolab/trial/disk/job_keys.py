"""Define how iolab handles each key of fio job files: passed on with checked values, left out, set by iolab, or
refused. Pure.

`python -m iolab.trial.disk.job_keys FILE` rewrites the table in docs/how-to/measure-a-disk.md; a test checks it.
"""

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from iolab.locale import Phrase, Text, say


class Use(StrEnum):
    """Handling of a key."""

    PASSED = "passed on"
    """iolab passes the value in the file to fio."""
    LEFT_OUT = "left out"
    """The key affects only fio's report and logs, which iolab replaces."""
    SET = "set by iolab"
    """iolab sets the value; the file's line is accepted if the measure lists the key in `replace`."""
    REFUSED = "refused"
    """Every value is refused."""


@dataclass(frozen=True, slots=True)
class Values:
    """Accepted values of a key."""

    pattern: re.Pattern[str]
    """Pattern of the whole value."""
    allowed: Text
    """Description of the pattern."""
    bare: bool = False
    """Whether the key may have no value."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key."""

    name: str
    """fio's main spelling of the key; ALIASES has the alternative spellings."""
    use: Use
    values: Values | None = None
    """Accepted values; None: not checked."""
    reason: Text = ""
    """For SET: description of the value that iolab sets; for REFUSED: reason of the refusal."""
    replaceable: bool = False
    """Whether `replace` may list the key; iolab then sets the value."""


def _values(pattern: str, allowed: Text, *, bare: bool = False) -> Values:
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

SWITCH = _values("[01]", Phrase("trial.nothing-0-or-1"), bare=True)
BOOL = _values("[01]", Phrase("trial.0-or-1"))
COUNT = _values(NUMBER, Phrase("trial.number-with-binary-unit"))
COUNTS = _values(
    f"(?:{NUMBER})?{_THREE.format(f'(?:{NUMBER})?')}",
    Phrase("trial.numbers-of-directions"),
)
RANGES = _values(
    f"{NUMBER}-{NUMBER}{_THREE.format(f'{NUMBER}-{NUMBER}')}", Phrase("trial.ranges-of-directions")
)
SPLITS = _values(f"{_SPLIT}{_THREE.format(_SPLIT)}", Phrase("trial.sizes-with-percentages"))
SIZE = _values(rf"{NUMBER}|100%|[1-9]?[0-9]%", Phrase("trial.size-or-percentage"))
PLAIN_COUNT = _values("[0-9]{1,9}", Phrase("check.a-whole-number"))
PRIORITY = _values("[0-7]", Phrase("trial.priority"))
NO_REAL_TIME = Phrase("trial.no-real-time")
SIGNED = _values("-?[0-9]{1,3}", Phrase("check.a-whole-number"))
TIME = _values(_TIME, Phrase("trial.time-with-unit"))
DELAY = _values(f"{_TIME}(?:-{_TIME})?", Phrase("trial.time-or-range"))
DECIMAL = _values(_DECIMAL, Phrase("check.a-number"))
CPUS = _values(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:[,:][0-9]{1,5}(?:-[0-9]{1,5})?)*", Phrase("trial.cpu-numbers"))
DATA = _values(f"{_PATTERN}+", Phrase("trial.numbers-and-text"))
JOB_NAME = _values(r"[^\x00-\x1f\x7f]+", Phrase("trial.name-of-earlier-section"))

ENGINES = ("io_uring", "libaio", "psync", "pvsync", "pvsync2", "sync", "vsync", "posixaio", "mmap")
"""fio engines that only read and write the given file."""
VERIFY = ("0", "md5", "crc64", "crc32", "crc32c", "crc32c-intel", "crc16", "crc7", "sha1", "sha256", "sha512",
          "sha3-224", "sha3-256", "sha3-384", "sha3-512", "xxhash", "meta", "pattern", "null")  # fmt: skip
_ACCESS = "read|write|randread|randwrite|rw|readwrite|randrw"

_PASSED: tuple[tuple[Values, str], ...] = (
    (_values(rf"(?:{_ACCESS})(?::[0-9]{{1,9}}[kKmM]?)?", Phrase("trial.one-of-accesses")),
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
    (_values("[023]", Phrase("trial.priority-class", reason=NO_REAL_TIME)), "prioclass"),
    (_values("[23]", Phrase("trial.priority-class-of-commands", reason=NO_REAL_TIME)), "cmdprio_class"),
    (_values("[1-9]?[0-9]|100", Phrase("trial.percentage-of-commands", reason=NO_REAL_TIME)), "cmdprio_percentage"),
    (_values(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,18}", Phrase("check.a-whole-number")), "randseed"),
    (SIGNED, "nice"),
    (TIME, ("runtime ramp_time thinktime thinktime_spin thinktime_iotime max_latency latency_target latency_window "
           "steadystate_duration steadystate_ramp_time")),
    (DELAY, "startdelay"),
    (DECIMAL, "latency_percentile"),
    (_values(rf"(?:iops|bw|iops_slope|bw_slope):{_DECIMAL}%?", Phrase("trial.steady-state-limit")), "steadystate"),
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
             Phrase("trial.sync-and-number-of-writes")), "sync_file_range"),
    (_one_of(*VERIFY), "verify"),
    (DATA, "verify_pattern buffer_pattern"),
    (_one_of("complete", "issue"), "thinktime_blocks_type"),
    (_one_of("repeat", "working_set"), "dedupe_mode"),
    (CPUS, "cpus_allowed verify_async_cpus"),
    (_one_of("shared", "split"), "cpus_allowed_policy"),
    (_values(r"all|[0-9]{1,4}(?:[,-][0-9]{1,4})*", Phrase("trial.node-numbers")), "numa_cpu_nodes"),
    (_values(r"(?:default|prefer|bind|interleave|local)(?::[0-9]{1,4}(?:[,-][0-9]{1,4})*)?",
             Phrase("trial.memory-policy-and-nodes")), "numa_mem_policy"),
    (_one_of("malloc", "mmap"), "mem"),
    (_one_of("none", "read", "write", "io", "verify", "all", "0", "1"), "continue_on_error"),
    (_one_of("group", "stonewall"), "exit_what"),
    (_one_of("none", "strided"), "zonemode"),
    (_one_of("gettimeofday", "clock_gettime", "cpu"), "clocksource"),
    (_one_of("none", "short", "medium", "long", "extreme"), "write_hint"),
    (JOB_NAME, "wait_for"),
)  # fmt: skip
"""Accepted values, and the keys that accept them."""

_LEFT_OUT = (
    "group_reporting new_group name description per_job_logs unified_rw_reporting significant_figures percentile_list "
    "clat_percentiles lat_percentiles slat_percentiles disk_util unit_base bwavgtime iopsavgtime log_entries "
    "log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio log_unix_epoch "
    "log_alternate_epoch log_alternate_epoch_clock_id log_compression log_compression_cpus log_store_compressed "
    "block_error_percentiles error_dump"
)

_SET: tuple[tuple[Text, str], ...] = (
    (Phrase("trial.keys-of-place"),
     ("filename directory filename_format unique_filename opendir nrfiles openfiles filesize file_service_type "
             "lockfile")),
    (Phrase("trial.keys-of-file-life"),
     "allow_file_create create_on_open unlink unlink_each_loop"),
    (Phrase("trial.keys-of-other-files"),
     "write_bw_log write_lat_log write_iops_log write_hist_log verify_dump verify_state_save verify_state_load"),
    (Phrase("trial.keys-of-programs"), "exec_prerun exec_postrun"),
    (Phrase("trial.keys-of-scheduler"), "ioscheduler"),
    (Phrase("trial.keys-of-user-and-memory"),
     "uid gid cgroup cgroup_weight cgroup_nodelete lockmem"),
    (Phrase("trial.keys-of-pages"), "hugepage-size"),
)  # fmt: skip
_REPLACEABLE = frozenset({
    "size", "io_size", "offset", "offset_increment", "runtime", "ioengine", "cpus_allowed", "mem", "prioclass",
    "cmdprio_percentage",
})  # fmt: skip
"""Keys that are passed on but can also be replaced."""

_REFUSED: tuple[tuple[Text, str], ...] = (
    (Phrase("trial.key-replays"),
     ("read_iolog read_iolog_chunked write_iolog replay_no_stall replay_redirect replay_scale replay_align "
     "replay_time_scale replay_skip merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters")),
    (Phrase("trial.key-discards-blocks"),
     "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch"),
    (Phrase("trial.key-writes-beyond-size"), "fill_device file_append"),
    (Phrase("trial.key-does-no-io"), "create_only"),
    (Phrase("trial.key-hides-errors"), "ignore_error"),
    (Phrase("trial.key-ends-statistics"), "stats"),
    (Phrase("trial.key-writes-mounted-disk"), "allow_mounted_write"),
    (Phrase("trial.key-of-zoned-devices"),
     ("zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits zone_reset_threshold "
     "zone_reset_frequency")),
    (Phrase("trial.key-changes-units"), "kb_base"),
    (Phrase("trial.key-runs-benchmark"), "profile"),
    (Phrase("trial.key-of-atomic-writes"), "atomic"),
    (Phrase("trial.key-reads-file"), "include"),
    (Phrase("trial.key-of-other-engine"),
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
"""Alternative spellings accepted by fio."""


def _keys() -> Iterator[Key]:
    for values, names in _PASSED:
        for name in names.split():
            yield Key(name, Use.PASSED, values, replaceable=name in _REPLACEABLE)
    yield from (Key(name, Use.LEFT_OUT) for name in _LEFT_OUT.split())
    for reason, names in _SET:
        yield from (Key(name, Use.SET, reason=reason, replaceable=True) for name in names.split())
    for reason, names in _REFUSED:
        yield from (Key(name, Use.REFUSED, reason=reason) for name in names.split())


KEYS: Mapping[str, Key] = {key.name: key for key in _keys()}
"""All keys that iolab knows, by name."""
REPLACEABLE = frozenset(key.name for key in KEYS.values() if key.replaceable)
"""Keys that `replace` may list."""


def key_of(word: str) -> Key | None:
    """Return the key for a spelling; None if it is unknown."""
    return KEYS.get(ALIASES.get(word, word))


BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"

HEADS = {
    Use.PASSED: "Supported keys (accepted values)",
    Use.LEFT_OUT: "Ignored keys",
    Use.SET: "Overridden keys",
    Use.REFUSED: "Refused keys",
}


def with_table(page: str) -> str:
    """Return a page with the lists of all keys inserted between the page's marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join((before + BEGIN, "", *_table(), END + after))


def _table() -> Iterator[str]:
    rows: dict[tuple[Use, str], list[str]] = {}
    for key in KEYS.values():
        shown = key.values.allowed if key.values is not None else key.reason or Phrase("trial.keys-left-out")
        rows.setdefault((key.use, say(shown)), []).append(
            f"`{key.name}`{'*' if key.name in _REPLACEABLE else ''}"
        )
    for use, head in HEADS.items():
        yield f"{head}:\n"
        for (_, text), names in filter(lambda row: row[0][0] is use, rows.items()):
            told = f"- {' '.join(names)}: {text}"
            yield textwrap.fill(
                told, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
        yield ""


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text()))
