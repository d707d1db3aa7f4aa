"""Compare the agent's hdparm and bonnie++ 2.00 with the packages, in alternation on one store.

Usage: python -m benches.peers.originals hdparm|bonnie++|bonnie++-files [BLOCKS [SLOWED]]. Needs root, loop devices, the
package and cgroups of memory and of block devices. The store is a loop device in memory, whose speed does not depend on
other programs' disk use: bare for hdparm, with ext4 for bonnie++, whose large file is eight times the memory that both
programs are given. Reads are limited to the speed of a disk (READ_LIMITS), because the speed of memory varies more than
the programs differ, and because bonnie++ prints no figure for a phase that ends within half a second. bonnie++-files
measures only small files, so many that each phase takes longer than half a second. Prints each block, then for each
phase the ratio of iolab's figure to the original's, with its interval and the noise floor; the exit status is 1 if a
phase differs by more, or agreement cannot be shown. SLOWED (1.1: by a tenth) makes iolab's figures worse by this
factor, to check that the bench detects the difference. thput-fsys has no package: only iolab has it, and
crates/disk/tests/programs.rs checks it against its definition.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.pairs import Block, agreement
from benches.harness.programs import output

from iolab.trial.disk.figures import BY_OPERATIONS, DiskFigure
from iolab.trial.disk.own import own_figures, parse_own
from iolab.trial.disk.programs import parse_bonnie, parse_hdparm

ARGUMENTS = (
    Argument("program", "hdparm", "what is compared", allowed=("hdparm", "bonnie++", "bonnie++-files")),
    Argument("blocks", 5, "blocks of four runs"),
    Argument("slowed", 1.0, "by how much our figures are made worse"),
)
AGENT = Path(sys.executable).with_name("iolab-agent")
MEMORY = Path("/dev/shm")
MIB = 1 << 20
DISK_BYTES, FILE_BYTES, LIMIT_BYTES = 1280 * MIB, 768 * MIB, 96 * MIB
LEAST_BYTES = 16 * MIB
"""Size of the large file when small files are compared: neither program works without one."""
SMALL_FILES = 320 * 1024
READ_LIMITS = {"bps": 400_000_000, "iops": 2500}
"""Read limits of the store. With these limits, hdparm does not reach the end of the disk within its 3 s, and the phases
of bonnie++ that read the whole file or seek in it take at least two seconds. The kernel lets a tenth of a second's
worth of data through at once, which would change a phase of one second by 10 %."""
HDPARM_WAITS_S = 3
"""Delay before each timing. iolab's profile has no such delay, but during the delay a guest may get memory back from
its host."""
OLD, NEW = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
"""Folders of version 1 and version 2 cgroups."""
GROUP = "iolab-originals"
Groups = tuple[Path, ...]
Rates = Mapping[str, float]


@contextmanager
def disk(folder: Path) -> Iterator[str]:
    """Yield a loop device on a file in memory of which every block was written."""
    file = folder / "disk"
    output("dd", "if=/dev/urandom", f"of={file}", "bs=1M", f"count={DISK_BYTES // MIB}", "status=none")
    node = output("losetup", "--find", "--show", "--direct-io=on", str(file)).strip()
    try:
        yield node
    finally:
        output("losetup", "--detach", node)
        file.unlink()


@contextmanager
def mounted(node: str, folder: Path) -> Iterator[Path]:
    """Yield a folder on a fully initialised ext4."""
    whole = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
    output("mkfs.ext4", "-q", "-F", "-E", whole, "-N", str(SMALL_FILES + 1024), node)
    place = folder / "mnt"
    place.mkdir()
    output("mount", node, str(place))
    place.chmod(0o700)
    try:
        yield place
    finally:
        output("umount", str(place))


@contextmanager
def limited(node: str | None = None) -> Iterator[Groups]:
    """Yield cgroups with little memory for the page cache and a limited read rate of a device."""
    device = None if node is None else Path(node).stat().st_rdev
    number = "" if device is None else f"{os.major(device)}:{os.minor(device)} "
    limits: dict[Path, dict[str, str]]
    if (OLD / "cgroup.procs").exists():
        reads = {
            f"blkio.throttle.read_{what}_device": f"{number}{most}" for what, most in READ_LIMITS.items()
        }
        limits = {
            OLD / GROUP: {"memory.limit_in_bytes": str(LIMIT_BYTES)},
            OLD.parent / "blkio" / GROUP: reads,
        }
    else:
        reads = {"io.max": number + " ".join(f"r{what}={most}" for what, most in READ_LIMITS.items())}
        limits = {NEW / GROUP: {"memory.max": str(LIMIT_BYTES), **reads}}
    with ExitStack() as stack:
        for group, files in limits.items():
            group.mkdir()
            stack.callback(group.rmdir)
            for name, text in files.items():
                if number or name.startswith("memory"):
                    (group / name).write_text(text)
        yield tuple(limits)


def ran(argv: list[str], groups: Groups = (), request: str = "") -> str:
    """Run a program to its end in the limiting cgroups; return its output."""
    join = " && ".join([*(f"echo $$ >{group}/cgroup.procs" for group in groups), 'exec "$0" "$@"'])
    return output("sh", "-c", join, *argv, text=request)


def rates(figures: tuple[DiskFigure, ...]) -> Rates:
    """Return bytes or operations per second of each phase."""
    return {
        one.phase: (one.operations if one.phase in BY_OPERATIONS else one.bytes) / one.duration_ns * 1e9
        for one in figures
    }


def own(request: dict[str, object], groups: Groups = ()) -> Rates:
    """Run a disk program of the agent."""
    return rates(own_figures(parse_own(ran([str(AGENT), "disk"], groups, json.dumps(request)))))


def block(original: Callable[[], Rates], ours: Callable[[], Rates]) -> Mapping[str, Block]:
    """Return a block for each phase that all four runs have."""
    four = [run() for run in (original, ours, ours, original)]
    shared = [phase for phase in four[0] if all(phase in one for one in four)]
    return {phase: Block(*(one[phase] for one in four)) for phase in shared}


def compared(name: str, blocks: int, original: Callable[[], Rates], ours: Callable[[], Rates]) -> bool:
    """Run and print; return whether every phase agrees."""
    done = []
    for _ in range(blocks):
        done.append(block(original, ours))
        for phase, one in done[-1].items():
            print(f"{name}, {phase}: {one}", flush=True)
    agrees = True
    for phase in done[0]:
        found = agreement([one[phase] for one in done if phase in one])
        print(f"{name}, {phase}: {found}", flush=True)
        agrees = agrees and found.judged == "agree"
    return agrees


def hdparm(node: str, groups: Groups) -> tuple[Callable[[], Rates], Callable[[], Rates]]:
    """Return both programs on the bare device."""

    def ours() -> Rates:
        found: dict[str, float] = {}
        for timing in ("cached", "buffered"):
            time.sleep(HDPARM_WAITS_S)
            about = {"device": node, "timings": [timing], "cache": "cold"}
            found.update(own({"program": "hdparm", **about}, groups))
        return found

    return lambda: rates(parse_hdparm(ran(["hdparm", "-tT", node], groups))), ours


def bonnie(
    folder: Path, groups: Groups, size_bytes: int, files: int
) -> tuple[Callable[[], Rates], Callable[[], Rates]]:
    """Return both programs in a folder."""
    sizes = ["-s", f"{size_bytes // MIB}M", "-r", str(size_bytes // MIB // 2), "-n", str(files // 1024)]
    packaged = ["bonnie++", "-q", "-u", "root", "-d", str(folder), *sizes]
    about = {"size_bytes": size_bytes, "files": files, "edition": "2.00"}
    request = {"program": "bonnie++", "folder": str(folder), **about}
    return lambda: rates(parse_bonnie(ran(packaged, groups), size_bytes)), lambda: own(request, groups)


def main() -> int:
    """Compare one program with its original."""
    asked = arguments(__doc__, *ARGUMENTS)
    name = asked.program
    with ExitStack() as stack:
        parent = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
        node = stack.enter_context(disk(parent))
        if name == "hdparm":
            original, ours = hdparm(node, stack.enter_context(limited(node)))
        else:
            small = name.endswith("files")
            place = stack.enter_context(mounted(node, parent))
            groups = () if small else stack.enter_context(limited(node))
            original, ours = bonnie(
                place, groups, LEAST_BYTES if small else FILE_BYTES, SMALL_FILES if small else 0
            )
        agrees = compared(
            name,
            asked.blocks,
            original,
            lambda: {phase: rate / asked.slowed for phase, rate in ours().items()},
        )
    print("all phases agree" if agrees else "not all phases agree")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
