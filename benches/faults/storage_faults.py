"""Check that trials on storage that hangs, dies or returns errors fail in time, with the cause, and are undone.

Usage: python -m benches.faults.storage_faults [TIMES [AT_ONCE [WORDS ...]]]. Needs root; fio, tgt, qemu-utils and
qemu-system-common for namespaces, the images linux and linux:dmsetup and QEMU for guests, sshd for ssh hosts. WORDS
select the cases whose names contain one of them (as `here: target`); AT_ONCE cases run in parallel (default 1), each in
separate namespaces and with a distinct volume name.

Every case is one run of TIMES trials (5): a fault is injected in each trial while fio runs, and iolab recreates the lab
for the next trial. A row of the table is a case: the times from the fault to the stored trial, the limit, whether each
trial failed with the right cause and without a figure (or, with a slow disk, did not fail), and the leftovers that an
independent check finds: loop devices, mounts, namespaces, links, programs, files, journals. `iolab clean` is never
called. Exit status 1: a trial ended too late, lacked the cause or had a figure, or there are leftovers. Takes about 30
s per trial of namespaces, 60 s per trial of guests.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benches.faults.storage_fault_cases import CASES, IMPOSSIBLE, STORE_BYTES, Case
from benches.faults.storage_fault_labs import VOLUME
from benches.harness.arguments import Argument, arguments
from benches.harness.programs import output, shown
from benches.harness.run import IOLAB, trials
from tests.netns.sshd import Network, SshHost

ARGUMENTS = (
    Argument("times", 5, "trials of each case"),
    Argument("at_once", 1, "cases that run side by side"),
    Argument("words", (), "parts of the names of cases; absent: all", several=True),
)
PATIENCE_S = 400.0
"""Limit for the boot of a guest on a busy host, and for the end of a run."""
LOOK_AGAIN_S = 0.2
GONE_S = 5.0
"""Limit for the end of a killed program."""
INSIDE = (
    "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
    'mount -t tmpfs tmpfs /run && ip link set lo up && "$@"; exit $?', "sh",
)  # fmt: skip
"""Namespaces of a case; the shell stays, and reaps orphaned programs."""
ALONE = "--alone"
HEAD = "| | case | trials | time to fail [s] | limit [s] | named | left |\n|---|---|---|---|---|---|---|"
ERRORS_SHOWN = 1_500


def main() -> None:
    """Run the cases in parallel and print a row for each."""
    if sys.argv[1:2] == [ALONE]:
        print(json.dumps(judged(next(case for case in CASES if case.name == sys.argv[2]), int(sys.argv[3]))))
        return
    asked = arguments(__doc__, *ARGUMENTS)
    chosen = [case for case in CASES if not asked.words or any(word in case.name for word in asked.words)]
    print(HEAD, flush=True)
    with ThreadPoolExecutor(asked.at_once) as pool:
        good = list(pool.map(partial(alone, times=asked.times), chosen))
    for name, why in IMPOSSIBLE.items():
        print(f"| - | {name} | 0 | - | - | cannot be: {why} | - |")
    print(f"{sum(good)} of {len(good)} cases as they should be")
    sys.exit(0 if all(good) else 1)


def alone(case: Case, times: int) -> bool:
    """Run a case in separate namespaces and print its row; return whether it passed."""
    environment = {**os.environ, "STORAGE_FAULTS_LAB": secrets.token_hex(2)}
    words = (*INSIDE, sys.executable, "-m", "benches.faults.storage_faults", ALONE, case.name, str(times))
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    try:
        row = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print(
            f"| BAD | {case.name} | 0 | - | - | it ended with {done.returncode}: {done.stderr[-ERRORS_SHOWN:]} | - |"
        )
        return False
    took = ", ".join(f"{one:.1f}" for one in sorted(row["took_s"]))
    mark = "good" if row["good"] else "BAD"
    print(
        f"| {mark} | {case.name} | {len(row['took_s'])} | {took} | {case.limit_s:.0f}"
        f" | {row['named']} of {row['wanted']} | {row['left'] or 0} |",
        flush=True,
    )
    if not row["good"]:
        print(*row["reasons"], done.stderr[-ERRORS_SHOWN:], sep="\n      ", flush=True)
    return bool(row["good"])


def judged(case: Case, times: int) -> dict[str, Any]:
    """Run a case; return its row."""
    runs = [1] * times if case.has_store else [times]
    tried = [tried_in_folder(case, one) for one in runs]
    took_s = [took for one in tried for took in one[0]]
    records = [record for one in tried for record in one[1]]
    left = [what for one in tried for what in one[2]]
    named = sum(is_as_it_should_be(case, one) for one in records)
    in_time = max(took_s, default=float("inf")) <= case.limit_s
    return {
        "took_s": took_s, "named": named, "wanted": times, "left": left, "reasons": [one["reason"] for one in records],
        "good": in_time and named == times == len(took_s) and not left,
    }  # fmt: skip


def tried_in_folder(case: Case, times: int) -> tuple[list[float], list[dict[str, Any]], Sequence[str]]:
    """Run a case in a new folder; return the failure time of each trial, the records, and the remains."""
    with tempfile.TemporaryDirectory(prefix="storage-faults-") as top, stored_in(case, Path(top)):
        folder = Path(top)
        (folder / "state").mkdir(mode=0o700)
        with host_of(case, folder) as host:
            before = state(folder, host)
            took_s, records = run(case, folder, times)
            return took_s, records, what_is_left(before, folder, host)


def is_as_it_should_be(case: Case, record: dict[str, Any]) -> bool:
    """Whether a trial failed with the right cause and without figures, or, if no fault was injected, succeeded."""
    reason = record["reason"]
    if not case.codes:
        return reason is None and bool(record.get("metrics"))
    if reason is None or reason["code"] not in case.codes or record.get("metrics"):
        return False
    server = reason.get("server", {})
    if reason["code"].startswith("disk-server"):
        return f"{server['code']} of {server['machine']}" == case.culprit
    machine = case.culprit.rpartition(" ")[2] or "pc2"
    return f'"{machine}"' in json.dumps(reason)


# One run ------------------------------------------------------------------------------------------------------


def run(case: Case, folder: Path, times: int) -> tuple[list[float], list[dict[str, Any]]]:
    """Run an experiment and inject the fault in every trial; return the failure times and the records."""
    file = folder / "lab.yaml"
    file.write_text(f"{case.lab}\nblocks: {times}\n")
    environment = {**os.environ, "IOLAB_STATE_DIR": str(folder / "state"), "LC_ALL": "C"}
    environment["PATH"] = f"{programs_of(case, folder)}:{environment['PATH']}"
    log = (folder / "log").open("w")
    child = subprocess.Popen(
        [IOLAB, "run", "--keep-going", file], cwd=folder, env=environment, stdout=log, stderr=log,
        start_new_session=True,
    )  # fmt: skip
    took: list[float] = []
    hit: list[int] = []
    try:
        while child.poll() is None and len(took) < times:
            number = stored(folder)
            wait(partial(is_to_hit, child, case, folder, number))
            if child.poll() is not None or stored(folder) != number:
                continue  # the lab could not be created on a busy host
            time.sleep(case.delay_s)
            began = time.monotonic()
            case.inject()
            wait(partial(is_over, child, folder, number))
            took.append(time.monotonic() - began)
            hit.append(number)
        wait(lambda: child.poll() is not None)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(PATIENCE_S)
        log.close()
    if child.returncode not in (0, 1, 2, 3) or len(took) != times:
        print((folder / "log").read_text()[-ERRORS_SHOWN:], file=sys.stderr)
    found = list(folder.glob("runs/*/trials.jsonl"))
    records = trials(found[0].parent) if found else []
    return took, [records[number] for number in hit if number < len(records)]


def programs_of(case: Case, folder: Path) -> Path:
    """Write the scripts that replace programs; return their folder."""
    place = folder / "programs"
    place.mkdir()
    folder.chmod(0o755)
    for name, text in case.programs.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return place


def is_to_hit(child: subprocess.Popen[bytes], case: Case, folder: Path, number: int) -> bool:
    """Whether the trial with this number uses its disk or is over, or the run has ended."""
    return is_over(child, folder, number) or case.is_under_way()


def is_over(child: subprocess.Popen[bytes], folder: Path, number: int) -> bool:
    """Whether the trial with this number is stored, or the run has ended."""
    return child.poll() is not None or stored(folder) > number


def stored(folder: Path) -> int:
    """Return the number of stored trials."""
    return sum(path.read_text().count("\n") for path in folder.glob("runs/*/trials.jsonl"))


def wait(holds: Callable[[], object], limit_s: float = PATIENCE_S) -> bool:
    """Wait until a condition is true; return whether it is."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(LOOK_AGAIN_S)
    return False


@contextmanager
def stored_in(case: Case, folder: Path) -> Iterator[None]:
    """Mount a small file system on /var/tmp for a case that needs it."""
    if not case.has_store:
        yield
        return
    image = folder / "store"
    with image.open("wb") as blank:
        blank.truncate(STORE_BYTES)
    output("mkfs.ext4", "-q", "-m", "0", str(image))
    output("mount", str(image), "/var/tmp")
    Path("/var/tmp").chmod(0o1777)
    try:
        yield
    finally:
        output("umount", "--lazy", "/var/tmp")


@contextmanager
def host_of(case: Case, folder: Path) -> Iterator[SshHost | None]:
    """Create the ssh host of a case, if it has one."""
    if not case.on_ssh:
        yield None
        return
    network = Network(folder / "network")
    try:
        host = network.host("pc6")
        os.environ["IOLAB_SSH"] = network.ssh
        yield host
    finally:
        network.close()


# Leftovers ----------------------------------------------------------------------------------------------------

OURS = f"iolab-{VOLUME}"
LEFT = (
    f"set +e; ip netns; ip -o link | cut -d: -f2; ls -d /run/iolab-* /dev/{OURS} /var/tmp/{OURS}* 2>/dev/null;"
    f" grep -o '{OURS}[^ ]*' /proc/mounts; losetup -a | grep -e '{OURS}'; ls /run/iolab/journal 2>/dev/null; true"
)
"""Commands other than iolab's that show what a lab could leave on a host."""


def state(folder: Path, host: SshHost | None) -> Counter[str]:
    """Return the state that a lab could leave behind on this host and the ssh host, and the programs of both."""
    there = shown("sh", "-c", LEFT) + (host.inside(LEFT) if host is not None else "")
    journals = [str(path) for path in (folder / "state").rglob("journal*/*")]
    return Counter([*there.splitlines(), *journals, *programs()])


def programs() -> Iterator[str]:
    """Yield the names of all other programs in these namespaces."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended in the meantime
            if int(process.name) != os.getpid() and (process / "cmdline").read_bytes():
                yield f"program {(process / 'comm').read_text().strip()}"


def what_is_left(before: Counter[str], folder: Path, host: SshHost | None) -> Sequence[str]:
    """Return the objects that exist after a run and did not exist before."""
    wait(lambda: not state(folder, host) - before, GONE_S)
    return sorted((state(folder, host) - before).elements())


if __name__ == "__main__":
    main()
