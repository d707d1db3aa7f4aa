"""The agent's own hdparm and bonnie++ 2.00 against the packages, in alternation on one store.

Usage: python benches/originals.py hdparm|bonnie++ [BLOCKS [SLOWED]]. Needs root, loop devices, the package and a memory
cgroup. The store is a loop device on memory, whose speed no neighbour changes: bare for hdparm, with ext4 for bonnie++,
whose file is four times the memory that both programs are given. Prints each phase's ratio, ours by the original, with
its interval and the noise floor; exit status 1 where one differs beyond it, or cannot be shown to agree. SLOWED (1.1:
by a tenth) makes our figures worse by that much, to see that the bench finds it. thput-fsys has no package: it is ours
alone, and crates/disk/tests/programs.rs holds it to its definition.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pairs import Block, agreement

from iolab.trial.disk.figures import BY_OPERATIONS, DiskFigure
from iolab.trial.disk.own import own_figures, parse_own
from iolab.trial.disk.packaged import parse_bonnie, parse_hdparm

AGENT = Path(sys.executable).with_name("iolab-agent")
MEMORY = Path("/dev/shm")
MIB = 1 << 20
DISK_BYTES, FILE_BYTES, LIMIT_BYTES = 1536 * MIB, 1024 * MIB, 256 * MIB
SMALL_FILES = 64 * 1024
HDPARM_WAITS_S = 3
"""Before each timing. Our profile does not, but a computer in a guest may get memory back from its host meanwhile."""
CGROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
"""Of the first and second version: where they are, and the file that limits memory."""
Rates = Mapping[str, float]


@contextmanager
def disk(folder: Path) -> Iterator[str]:
    """Give a loop device on a file in memory, every block of which was written."""
    file = folder / "disk"
    fill = ["head", "-c", str(DISK_BYTES), "/dev/urandom"]
    with file.open("wb") as out:
        subprocess.run(fill, stdout=out, check=True)
    argv = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
    node = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield node
    finally:
        subprocess.run(["losetup", "--detach", node], check=True)
        file.unlink()


@contextmanager
def mounted(node: str, folder: Path) -> Iterator[Path]:
    """Give a folder on an ext4 that is made whole at once."""
    made = ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "-N", "131072"]
    subprocess.run([*made, node], check=True)
    place = folder / "mnt"
    place.mkdir()
    subprocess.run(["mount", node, str(place)], check=True)
    place.chmod(0o700)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextmanager
def limited() -> Iterator[Path]:
    """Give a cgroup whose processes have little memory for the page cache."""
    top, name = next(one for one in CGROUPS if (Path(one[0]) / "cgroup.procs").exists())
    group = Path(top) / "iolab-originals"
    group.mkdir()
    try:
        (group / name).write_text(str(LIMIT_BYTES))
        yield group
    finally:
        group.rmdir()


def ran(argv: list[str], group: Path | None = None, request: str = "") -> str:
    """Run a program to its end, in a cgroup where one is given; return what it printed."""
    joined = ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', str(group), *argv] if group else argv
    return subprocess.run(joined, input=request, capture_output=True, text=True, check=True).stdout


def rates(figures: tuple[DiskFigure, ...]) -> Rates:
    """Return bytes or operations per second of each phase."""
    return {
        one.phase: (one.operations if one.phase in BY_OPERATIONS else one.bytes) / one.duration_ns * 1e9
        for one in figures
    }


def own(request: dict[str, object], group: Path | None = None) -> Rates:
    """Run a program of the agent."""
    return rates(own_figures(parse_own(ran([str(AGENT), "disk"], group, json.dumps(request)))))


def block(original: Callable[[], Rates], ours: Callable[[], Rates]) -> Mapping[str, Block]:
    """Return a block for each phase that all four runs have."""
    four = [run() for run in (original, ours, ours, original)]
    shared = [phase for phase in four[0] if all(phase in one for one in four)]
    return {phase: Block(*(one[phase] for one in four)) for phase in shared}


def compared(name: str, blocks: int, original: Callable[[], Rates], ours: Callable[[], Rates]) -> bool:
    """Run and print; tell whether every phase agrees."""
    done = [block(original, ours) for _ in range(blocks)]
    agrees = True
    for phase in done[0]:
        found = agreement([one[phase] for one in done if phase in one])
        print(f"{name}, {phase}: {found}", flush=True)
        agrees = agrees and found.judged == "agree"
    return agrees


def hdparm(node: str, _folder: Path, _group: Path) -> tuple[Callable[[], Rates], Callable[[], Rates]]:
    """Return both programs on the bare device."""

    def ours() -> Rates:
        found: dict[str, float] = {}
        for timing in ("cached", "buffered"):
            time.sleep(HDPARM_WAITS_S)
            about = {"device": node, "timings": [timing], "cache": "cold"}
            found.update(own({"program": "hdparm", **about}))
        return found

    return lambda: rates(parse_hdparm(ran(["hdparm", "-tT", node]))), ours


def bonnie(_node: str, folder: Path, group: Path) -> tuple[Callable[[], Rates], Callable[[], Rates]]:
    """Return both programs in a folder."""
    sizes = ["-s", f"{FILE_BYTES // MIB}M", "-r", str(FILE_BYTES // MIB // 2), "-n", str(SMALL_FILES // 1024)]
    packaged = ["bonnie++", "-q", "-u", "root", "-d", str(folder), *sizes]
    about = {"size_bytes": FILE_BYTES, "files": SMALL_FILES, "edition": "2.00"}
    request = {"program": "bonnie++", "folder": str(folder), **about}
    return lambda: rates(parse_bonnie(ran(packaged, group), FILE_BYTES)), lambda: own(request, group)


def main() -> int:
    """Compare one program with its original."""
    name = sys.argv[1] if len(sys.argv) > 1 else "hdparm"
    blocks = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    slowed = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    with ExitStack() as stack:
        parent = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
        group, node = stack.enter_context(limited()), stack.enter_context(disk(parent))
        if name == "bonnie++":
            original, ours = bonnie(node, stack.enter_context(mounted(node, parent)), group)
        else:
            original, ours = hdparm(node, parent, group)
        agrees = compared(
            name, blocks, original, lambda: {phase: rate / slowed for phase, rate in ours().items()}
        )
    print("all phases agree" if agrees else "not all phases agree")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
