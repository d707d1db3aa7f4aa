"""What the programs with random labs on existing disks and targets share: measures, contents, and one lab's run.

A lab is run, may be killed, and is judged by what it left on the host.
"""

import os
import random
import secrets
import signal
import struct
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from benches.harness.programs import shown
from benches.harness.run import IOLAB

PATIENCE_S = 120.0
VOLUME = f"exists{secrets.token_hex(2)}"
"""Volume of these labs, unique on this host."""
WRITTEN = 8 << 20
"""Size of the part that a lab may write, from the start of its disk [bytes]."""
FIO = "{{kind: disk, program: fio, on: pc, size: 8M, fio: {{each: 200ms, blocks: [64K], depths: [4], access: [{}]}}}}"
MEASURES = {
    "hdparm": "{kind: disk, program: hdparm, on: pc, profile: honest}",
    "read": FIO.format("read"),
    "write": FIO.format("write"),
    "mixed": FIO.format("mixed"),
}
WRITING = ("write", "mixed")
CONTENTS: dict[str, str] = {
    "blank": "true",
    "ext4": "mkfs.ext4 -q {node}",
    "swap": "mkswap -q {node}",
    "table": "wipefs -qa {node}; printf 'label: gpt\n,8M\n,8M\n' | sfdisk -q --no-reread {node}",
    "lvm": "wipefs -qa {node}; dd if={label} of={node} bs=512 seek=1 conv=notrunc status=none",
}
"""Scripts that write the content. `{label}`: a file with the label of an LVM volume."""


Outcome = tuple[str, list[str]]
"""What became of a lab's disk, and what was wrong."""


def lvm_label(draws: random.Random) -> bytes:
    """Return the label sector of an LVM volume, as libblkid recognises it (lvm2's format-text/layout.h)."""
    rest = struct.pack("<I8s", 32, b"LVM2 001") + bytes(draws.choices(b"abcdefghijkm", k=32))
    rest += bytes(512 - 20 - len(rest))
    checksum = zlib.crc32(rest, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return struct.pack("<8sQI", b"LABELONE", 1, checksum) + rest


def judged(case: object, killed: bool, ran: Callable[[], tuple[str, list[str]]]) -> Outcome:
    """Run a lab; return its outcome, with a problem if the lab left something on the host."""
    before = left(VOLUME)
    result, problems = ran()
    return result, [f"{problem}: {case}" for problem in problems + left_over(before, patient=killed)]


def all_labs(labs: int, once: Callable[[], Outcome]) -> int:
    """Run labs, and print their problems and the numbers of outcomes; return the exit status."""
    counts, wrong = Counter[str](), 0
    for number in range(labs):
        result, problems = once()
        counts[result] += 1
        wrong += len(problems)
        for problem in problems:
            print(f"lab {number}: {problem}", flush=True)
    print(f"labs: {labs}; " + "; ".join(f"{what}: {count}" for what, count in sorted(counts.items())))
    print(f"problems: {wrong}")
    return 1 if wrong else 0


def consents(allowed: str, destroyed: str, named: Mapping[str, str]) -> list[str]:
    """Return the options that permit writing and the loss of content.

    Args:
        allowed: whom --allow-writes names: this, other or none
        destroyed: whom --destroy-data names
        named: the identities of this disk and the other
    """
    given = (("--allow-writes", allowed), ("--destroy-data", destroyed))
    return [word for option, whom in given if whom in named for word in (option, named[whom])]


def left(volume: str) -> tuple[str, ...]:
    """Return what a lab with this volume could leave on this host; other labs may be at work."""
    lines = [
        *shown("losetup", "-l", "-n", "-O", "NAME,BACK-FILE").splitlines(),
        *Path("/proc/mounts").read_text().splitlines(),
    ]
    traces = (str(path) for place in ("/dev", "/run", "/run/iolab") for path in Path(place).glob("*"))
    return tuple(sorted(one for one in (*lines, *traces) if volume in one))


def left_over(before: tuple[str, ...], *, patient: bool) -> list[str]:
    """Return a problem if a lab left something; the agent of a killed lab has 20 s to undo its changes."""
    end = time.monotonic() + (20 if patient else 0)
    while (now := left(VOLUME)) != before and time.monotonic() < end:
        time.sleep(0.1)  # no event reports the end of the agent
    return [] if now == before else [f"left on the host: {sorted(set(now) ^ set(before))}"]


def ended(
    folder: Path,
    file: Path,
    options: list[str],
    *,
    killed_after_s: float | None = None,
    during: Callable[[], object] | None = None,
) -> int | None:
    """Run an experiment; return the exit status, None if it was killed.

    Args:
        folder: where it runs
        file: the experiment
        options: of `iolab run`
        killed_after_s: when it is killed, and the host is cleaned
        during: what is called as soon as the run has started
    """
    running = subprocess.Popen(
        [str(IOLAB), "run", str(file), *options], cwd=folder, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    if during is not None:
        during()
    if killed_after_s is None:
        return running.wait(PATIENCE_S)
    time.sleep(killed_after_s)  # no event marks the steps of a run: the kill hits each of them by chance
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    for _ in range(20):  # the agent of a killed lab undoes its changes itself, or leaves them to the next
        if subprocess.run([str(IOLAB), "clean"], check=False, capture_output=True).returncode == 0:
            break
        time.sleep(0.5)  # a dying agent may still hold its journal
    return None
