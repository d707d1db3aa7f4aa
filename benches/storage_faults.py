"""Storage that hangs, dies or returns errors: does each trial fail in time, with its cause, and is everything undone?

Usage: PYTHONPATH=. python benches/storage_faults.py [TIMES] [WORDS ...]. Needs root; fio, tgt, qemu-utils and
qemu-system-common for namespaces, the image linux and QEMU for guests, sshd for ssh hosts. WORDS choose the cases whose
names have one of them. Every case is one run of TIMES trials (5): a fault is injected in each of them while fio is
under way, and iolab makes the lab again for the next. Printed is, for each case, the longest time from the fault to the
stored trial, the limit, the codes of the failures, and what an independent look finds left: loop devices, mounts,
namespaces, links, programs, files. `iolab clean` is never called. Exit status 1: a trial was late, not named, or had a
figure, or something is left. About 30 s per trial of namespaces, 60 s of guests. It looks at the whole host, so give it
namespaces of its own where other labs work:
unshare --mount --net sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up && PYTHONPATH=. python ...'
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from storage_fault_cases import CASES, VOLUME, Case
from tests.netns.runs import storage_state, trials
from tests.netns.sshd import Network, SshHost

IOLAB = Path(sys.executable).with_name("iolab")
DEFAULT_TIMES = 5
PATIENCE_S = 400.0
"""For a guest to boot on a busy host, and for a run to end."""
LOOK_AGAIN_S = 0.05


def main() -> None:
    """Run the cases and print a row for each."""
    words = sys.argv[1:]
    times = int(words.pop(0)) if words and words[0].isdecimal() else DEFAULT_TIMES
    chosen = [case for case in CASES if not words or any(word in case.name for word in words)]
    bad = [case.name for case in chosen if not judged(case, times)]
    print(f"{len(chosen) - len(bad)} of {len(chosen)} cases as they should be")
    if bad:
        raise SystemExit("not so: " + "; ".join(bad))


def judged(case: Case, times: int) -> bool:
    """Run a case and print its row; return whether all is as it should be."""
    with tempfile.TemporaryDirectory(prefix="storage-faults-") as top, host_of(case, Path(top)) as host:
        folder = Path(top)
        before = state(host)
        took_s, records = run(case, folder, times)
        left = difference(before, state(host))
    codes = sorted({record["reason"]["code"] if record["reason"] else "none" for record in records})
    named = len(records) == len(took_s) > 0 and set(codes) <= set(case.codes)
    figures = sum(len(record.get("metrics") or ()) for record in records)
    late = max(took_s, default=float("inf"))
    good = named and not figures and not left and late <= case.limit_s
    mark = "good" if good else "BAD "
    print(f"{mark} {case.name}: {len(took_s)} trials, at most {late:.1f} s of {case.limit_s:.0f}; "
          f"{', '.join(codes)}; {figures} figures; left: {left or 'nothing'}", flush=True)  # fmt: skip
    if not good or "-v" in os.environ.get("SHOW", ""):
        for record in records:
            print("      ", record["reason"], flush=True)
    return good


def run(case: Case, folder: Path, times: int) -> tuple[list[float], list[dict[str, Any]]]:
    """Run an experiment and inject the fault in every trial; return how long each took to fail, and the records."""
    file = folder / "lab.yaml"
    file.write_text(f"{case.lab}\nblocks: {times}\n")
    environment = {**os.environ, "IOLAB_STATE_DIR": str(folder / "state"), "LC_ALL": "C"}
    (folder / "state").mkdir(mode=0o700)
    inside = case.wrapped(folder)
    log = (folder / "log").open("w")
    child = subprocess.Popen(
        [*inside, IOLAB, "run", "--keep-going", file], cwd=folder, env=environment, stdout=log, stderr=log,
        start_new_session=True,
    )  # fmt: skip
    took: list[float] = []
    hit: list[int] = []
    try:
        while child.poll() is None:
            number = stored(folder)
            wait(partial(is_to_hit, child, case, folder, number))
            if child.poll() is not None or stored(folder) != number:
                continue  # its lab could not be made, on a host that is too busy
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
    if child.returncode not in (0, 1, 2, 3) or not took:
        print((folder / "log").read_text()[-3000:])
    found = list(folder.glob("runs/*/trials.jsonl"))
    records = trials(found[0].parent) if found else []
    return took, [records[number] for number in hit if number < len(records)]


def is_to_hit(child: subprocess.Popen[bytes], case: Case, folder: Path, number: int) -> bool:
    """Whether the trial of this number works on its disk, or is over, or the run has ended."""
    return is_over(child, folder, number) or case.is_under_way()


def is_over(child: subprocess.Popen[bytes], folder: Path, number: int) -> bool:
    """Whether the trial of this number is stored, or the run has ended."""
    return child.poll() is not None or stored(folder) > number


def stored(folder: Path) -> int:
    """Return how many trials are stored."""
    return sum(path.read_text().count("\n") for path in folder.glob("runs/*/trials.jsonl"))


def wait(holds: Callable[[], object], limit_s: float = PATIENCE_S) -> bool:
    """Wait until something holds; return whether it did."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(LOOK_AGAIN_S)
    return False


@contextmanager
def host_of(case: Case, folder: Path) -> Iterator[SshHost | None]:
    """Make the ssh host of a case, where it has one."""
    if not case.on_ssh:
        yield None
        return
    network = Network(folder / "network")
    try:
        host = network.host("pc6")
        os.environ["IOLAB_SSH"] = network.ssh
        yield host
    finally:
        os.environ.pop("IOLAB_SSH", None)
        network.close()


LEFT = (
    "set +e; ip netns; ip -o link | cut -d: -f2; ls -d /run/iolab-* /dev/iolab-* /var/tmp/iolab-* 2>/dev/null;"
    " grep -o 'iolab-[^ ]*' /proc/mounts; losetup -a | grep iolab; ls /run/iolab/journal 2>/dev/null; true"
)
"""Shows, by other means than iolab's, what a lab could leave."""
PROGRAMS = ("tgtd", "qemu-storage-da", "qemu-nbd", "qemu-system-x86", "fio", "iolab-agent", "iperf3")


def state(host: SshHost | None) -> dict[str, object]:
    """Return what a lab could leave behind, by other means than iolab's."""
    shown = subprocess.run(["sh", "-c", LEFT], capture_output=True, text=True, check=False).stdout
    found: dict[str, object] = {**storage_state(), "host": sorted(shown.split())}
    if host is not None:
        found["ssh host"] = sorted(host.inside(LEFT).split())
        found["ssh programs"] = sorted(
            name for name in host.names() if name.startswith(("agent-", *PROGRAMS))
        )
    return found


def difference(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """Return what is there after a run and was not before; of what other labs have meanwhile, nothing."""
    return {name: left for name, one in after.items() if (left := new_of(before.get(name), one))}


def new_of(before: object, after: object) -> list[str]:
    """Return the entries of a list that were not there before, and may be of this lab."""
    had, has = (list(map(str, one)) if isinstance(one, list) else [] for one in (before, after))
    return [one for one in has if one not in had and ("iolab" not in one or f"iolab-{VOLUME}" in one)]


if __name__ == "__main__":
    main()
