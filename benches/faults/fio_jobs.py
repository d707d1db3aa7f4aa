"""Mutate users' job files and compare iolab's interpretation with fio's.

Usage: python -m benches.faults.fio_jobs COUNT [FIO [SEED]]

Makes COUNT job files by mutation of keys, values, spellings, indentation, comments, sections and letters. For each file
that iolab accepts, fio prints its interpretation (--parse-only --debug=parse): that of the user's text must equal
iolab's, and that of the text written by iolab must equal it with only iolab's keys added. FIO: a fio other than the
installed one; a fio that starts without calibrating its clock is ten times as fast. Prints each difference, and counts
at the end; the exit status is 1 if there is one. benches/faults/fio_canaries.py runs such files.
"""

import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benches.harness.arguments import Argument, arguments

from iolab.experiment.model.measures import DiskMeasure
from iolab.own_kinds import provide_own_kinds
from iolab.trial.disk.job_file import HARMLESS, JobFileError, read_job
from iolab.trial.disk.job_keys import ALIASES, KEYS, Use
from iolab.trial.disk.section_runs import run_problems, runs_of

ARGUMENTS = (
    Argument("count", 1000, "job files"),
    Argument("fio", "/usr/bin/fio", "the program"),
    Argument("seed", 1, "of the mutations"),
)
WORKERS = 2
PATHS = {"PATH": "/usr/bin:/bin"}
REGION = 1 << 20
"""Size of the measured file [bytes]."""
CANARY_KEYS = ("filename", "directory", "opendir", "exec_prerun", "exec_postrun", "write_bw_log", "write_lat_log",
               "write_iops_log", "verify_state_save", "unlink", "lockfile", "ioscheduler")  # fmt: skip
SAMPLES: Mapping[str, str] = {
    "rw": "read write randread randwrite rw randrw readwrite read:8 randwrite:2 trim readfoo",
    "ioengine": "libaio io_uring psync sync pvsync2 vsync posixaio mmap null net exec external:/CANARY /CANARY",
    "bs": "4k 8k 4096 512 4k,8k 8k,, 4KiB 4kb 64k 0 -1 4kx",
    "bsrange": "4k-8k 1k-4k,4k-16k 4k", "bssplit": "4k/60:8k/40 4k/10:8k/ 4k/50:8k/50,4k/ 4k",
    "size": "64k 256k 1m 50% 100% 2m 101% 1g 4kz", "io_size": "64k 50% 1m", "offset": "0 64k 25% 1m",
    "offset_increment": "64k 4k 10%", "iodepth": "1 4 32 0", "numjobs": "1 2 3 0 9999",
    "runtime": "50ms 100ms 100000us 0 1.5 1x", "time_based": "1 0 yes", "direct": "1 0 2 true",
    "buffered": "0 1", "verify": "crc32c md5 0 pattern xxhash foo", "rate_iops": "500 200,100 1k", "rate": "1m 500k,",
    "rate_process": "linear poisson", "random_distribution": "zipf:1.2 pareto:0.2 normal:30 random zoned:60/10:40/90",
    "startdelay": "0 10ms 1ms-5ms", "ramp_time": "10ms 0", "thinktime": "1ms 100us", "wait_for": "a nobody first",
    "thread": "1 0", "stonewall": "1 0", "exitall": "1", "norandommap": "1 0", "group_reporting": "1 0",
    "new_group": "1", "verify_pattern": "0xff \"abc\" '/CANARY'", "buffer_pattern": "0xdeadbeef '/CANARY'",
    "mem": "malloc mmap mmap:/CANARY mmaphuge:/CANARY shm", "continue_on_error": "all none io", "loops": "1 2 1k",
    "sync": "0 1 dsync none", "fallocate": "none posix native keep truncate", "fsync": "0 8", "end_fsync": "1 0",
    "zonemode": "none strided zbd", "cpus_allowed": "0 0,1 0-1", "nice": "1 -1", "randseed": "7 0x1f",
    "filename": "/CANARY /dev/CANARY ${HOME}/x a:b", "directory": "/CANARY.d", "opendir": "/", "include": "/CANARY",
    "exec_prerun": "/CANARY.sh", "exec_postrun": "/CANARY.sh", "write_bw_log": "/CANARY x", "read_iolog": "/CANARY",
    "write_iolog": "/CANARY", "unlink": "1 0", "verify_state_save": "1 0", "ioscheduler": "none",
    "write_lat_log": "/CANARY", "write_iops_log": "/CANARY", "description": "any text", "name": "x",
    "kb_base": "1000 1024", "lockfile": "none exclusive",
    "percentile_list": "1:50:99", "gtod_reduce": "1 0", "disable_lat": "1", "steadystate": "iops:10%",
    "number_ios": "16 1k", "overwrite": "0 1", "create_on_open": "1 0", "fill_device": "1", "max_latency": "10s",
}  # fmt: skip
"""Sample values by key: valid values, unusual values, and some that refer to other files. All other keys have 1, 0, 4k
and x."""
ENGINE_DEFAULTS = (("nonvectored", "-1"), ("cmd_type", "nvme"))
"""Defaults that fio sets for io_uring if the file has any key of that engine."""
NAMES = (
    "a",
    "b",
    "first",
    "two words",
    "global",
    "global",
    "globalx",
    "a",
    "x]y",
    " spaced ",
    "semi;colon",
    "ü",
)
LETTERS = " \t;#=[]$%\\\"'/-,:.\r\x0b\x0c\x1c\x85\u00a0\u2028\x00\x7fab19"


@dataclass(frozen=True, slots=True)
class Understood:
    """One section with its keys and values as the parser understood them, in order."""

    name: str
    options: tuple[tuple[str, str | None], ...]


def job_text(chance: random.Random) -> str:
    """Return a job file: sections of keys and values with mutated lines and letters."""
    lines: list[str] = []
    for place in range(chance.choice((1, 1, 2, 2, 3, 4))):
        lines.append(f"[{'global' if place == 0 and chance.random() < 0.5 else chance.choice(NAMES[:4])}]")
        for key in chance.sample(sorted(SAMPLES), chance.randint(0, 7)):
            good = SAMPLES[key].split()[: 2 if chance.random() < 0.9 else None]
            if KEYS.get(key, KEYS["include"]).use in (Use.PASSED, Use.LEFT_OUT) or chance.random() < 0.05:
                lines.append(f"{key}={chance.choice(good)}")
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        lines = mutated(lines, chance)
    return "\n".join(lines) + chance.choice(("\n", "\n", "", "\r\n"))


def mutated(lines: Sequence[str], chance: random.Random) -> list[str]:
    """Apply one mutation."""
    found = list(lines) or [""]
    at = chance.randrange(len(found))
    line = found[at]
    key, _, value = line.partition("=")
    spelled = [other for other, name in ALIASES.items() if name == key]
    place = chance.randrange(len(line) + 1)
    other = chance.choice(sorted(KEYS))
    found[at : at + 1] = chance.choice((
        lambda: [chance.choice((" ", "\t", "    ", "\x0b", "\x0c")) + line],
        lambda: [line + chance.choice((" ", "\t", " ; text", "# text", ";x=1", "\r", "  \r"))],
        lambda: [f"{chance.choice(spelled) if spelled else key}={value}"],
        lambda: [f"{key}{chance.choice((' =', '= ', ' = ', '==', ''))}{value}"],
        lambda: [line[:place] + chance.choice(LETTERS) + line[place:]],
        lambda: [line[:place] + line[place + 1 :]],
        lambda: [line, line], list, lambda: ["", line], lambda: [line.upper()],
        lambda: [line, chance.choice((";", "#", " ; x", "\t# y = z", "; [a]"))],
        lambda: [f"[{chance.choice(NAMES)}]{chance.choice(('', '', ' ', ' ; c', 'x'))}", line],
        lambda: [line, f"  {chance.choice(CANARY_KEYS)}=/CANARY"],
        lambda: [line, f"{other}={chance.choice((*SAMPLES.get(other, '1 0 4k x').split(),))}"],
        lambda: [line, other], lambda: [line, "include /CANARY"], lambda: [f"{key}=${{HOME}}"],
        lambda: [f"{key}=$(id)"], lambda: [line + " " * 4100 + "size=4k"], lambda: [found[-1], line],
    ))()  # fmt: skip
    return found


def fio_understands(fio: str, text: str, folder: Path) -> tuple[bool, list[Understood]]:
    """Return whether fio accepts a job file, and its interpretation of each section."""
    done = subprocess.run(
        ("timeout", "-s", "KILL", "20", fio, "--parse-only", "--debug=parse", "-"),
        input=text.encode(errors="surrogatepass"), capture_output=True, check=False, cwd=folder, env=PATHS,
    )  # fmt: skip
    sections: list[Understood] = []
    # A last line without a line end precedes the next output of fio.
    for line in done.stdout.decode("utf-8", "replace").split("\n"):
        if begun := re.search(r"parse +[0-9]+ +Parsing section \[(.*)\]$", line):
            sections.append(Understood(begun[1], ()))
        elif (option := re.search(r"parse +[0-9]+ +handle_option=([^,]+), ptr=(.*)$", line)) and sections:
            value = None if option[2] == "(null)" else option[2]
            sections[-1] = Understood(sections[-1].name, (*sections[-1].options, (option[1], value)))
    return done.returncode == 0, sections


def effective(sections: Sequence[Understood]) -> list[Understood]:
    """Return the effective options of each job, including `[global]`; the later value of a key applies, in its
    place."""
    common: dict[str, str | None] = {}
    found = []
    for one in sections:
        whole = dict(common)
        for key, value in one.options:
            whole.pop(key, None)
            whole[key] = value
        if one.name.startswith("global"):
            common = whole
        else:
            found.append(Understood(one.name, tuple(whole.items())))
    return found


def passed(options: Sequence[tuple[str, str | None]]) -> dict[str, str | None]:
    """Remove the options that iolab removes; options that iolab refuses stay, and count as a difference."""
    return {
        key: value
        for key, value in options
        if (key, value) not in ENGINE_DEFAULTS
        and not (key in KEYS and KEYS[key].use is Use.LEFT_OUT)
        and not (key in HARMLESS and value in HARMLESS[key])
    }


def compare(fio: str, text: str, folder: Path) -> tuple[str, str]:
    """Return the result for a job file: refused, same, or the difference."""
    try:
        job = read_job(text)
    except JobFileError:
        return "refused", ""
    took, sections = fio_understands(fio, text, folder)
    if not took:
        return "refused by fio alone", ""
    theirs = [Understood(one.name, tuple(passed(one.options).items())) for one in effective(sections)]
    ours = [Understood(one.own_name, tuple(one.options.items())) for one in job.sections]
    for one, other in zip(ours, theirs, strict=False):
        if one.name != other.name or dict(one.options) != dict(other.options) or not _alike(one, other):
            return "difference", f"iolab {one}, fio {other}"
    if len(ours) != len(theirs):
        return "difference", f"{len(ours)} sections, fio {len(theirs)}"
    return _written(fio, text, folder)


def _alike(one: Understood, other: Understood) -> bool:
    """Whether keys that overwrite each other are in the same order."""
    pairs = (
        ("direct", "buffered"),
        ("bs", "bsrange", "bssplit"),
        ("rwmixread", "rwmixwrite"),
        ("zero_buffers", "refill_buffers"),
    )
    return all(
        [k for k, _ in one.options if k in pair] == [k for k, _ in other.options if k in pair]
        for pair in pairs
    )


def _written(fio: str, text: str, folder: Path) -> tuple[str, str]:
    """Compare fio's interpretation of the files that iolab writes with iolab's own."""
    measure = measure_of(text)
    job = read_job(text)
    if any(run_problems(job, REGION)):
        return "beyond the disk", ""
    left = iter(job.sections)
    for run in runs_of(job, measure, "/TARGET", "/LOGS"):
        took, sections = fio_understands(fio, run.text, folder)
        if not took:
            return "difference", "fio refuses what iolab wrote"
        head = dict(sections[0].options)
        if head.get("filename") != "/TARGET" or head.get("allow_file_create") != "0":
            return "difference", f"the head is {head}"
        for number, one in enumerate(sections[1:], 1):
            section = next(left)
            kept = {
                k: v
                for k, v in section.options.items()
                if k not in ("stonewall", "wait_for", "exit_what", *PLACES)
            }
            extra = {k: v for k, v in one.options if kept.get(k, ...) != v and (k, v) not in ENGINE_DEFAULTS}
            missing = set(kept) - set(dict(one.options))
            if one.name != str(number) or missing or set(extra) - {"wait_for", "exit_what", *PLACES}:
                return "difference", f"written: missing {missing}, extra {extra} in [{one.name}]"
    return "same", ""


PLACES = ("size", "io_size", "offset", "offset_increment")


def measure_of(text: str, *replace: str) -> DiskMeasure:
    """Return a measure with a job file."""
    fio = {"job": text, "replace": list(replace), "each": "50ms"}
    return DiskMeasure.model_validate(
        {"kind": "disk", "on": "a", "program": "fio", "size": REGION, "fio": fio}
    )


def main(count: int, fio: str, seed: int) -> int:
    """Compare COUNT job files; return the exit code."""
    provide_own_kinds()
    results: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(WORKERS) as pool:
        folder = Path(name)

        def one(number: int) -> tuple[str, str, str]:
            text = job_text(random.Random(seed * 10_000_019 + number))
            return (*compare(fio, text, folder), text)

        for kind, detail, text in pool.map(one, range(count), chunksize=64):
            results[kind] += 1
            if not results.total() % 5000:
                print(f"{results.total()}: {dict(results)}", flush=True)
            if detail:
                print(f"{kind}: {detail}\n{text!r}\n", flush=True)
    print(f"{count} job files: {dict(results)}")
    return 1 if results["difference"] else 0


if __name__ == "__main__":
    asked = arguments(__doc__, *ARGUMENTS)
    sys.exit(main(asked.count, asked.fio, asked.seed))
