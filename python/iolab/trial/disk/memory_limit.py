"""Limit the memory of a disk program with a memory cgroup, which includes the page cache of its files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Json
from iolab.experiment.model.measures import DiskMeasure
from iolab.trial.disk.disk_programs import row_of, size_of
from iolab.trial.disk.run_on_disk import HUNG_LIMIT_S

LEAST_BYTES = 16 << 20
"""Minimum memory limit [bytes]; with a lower limit, the kernel kills a program before it starts."""
FILE_RATIO = 2
"""Ratio of file size to memory in the profile legacy-2006: bonnie++ requires a file of twice the memory, so that the
disk is read."""
ROOT = "/sys/fs/cgroup"
NAME = "iolab-disk-program"
KEY = f"cgroup:{NAME}"
KIND = 'cd "$0" && if [ -d memory ]; then echo 1; else cat cgroup.controllers; echo; cat cgroup.subtree_control; fi'
"""Script whose first line of output is `1` for cgroup version 1, or the controllers of the root of version 2; the last
line has the controllers that the root enables for its children."""
MAKE = 'mkdir "$0" && echo "$2" > "$0/$1"'
REMOVE = (
    'for try in 1 2 3 4 5 6 7 8 9 10; do [ ! -d "$0" ] && exit 0; rmdir "$0" 2>/dev/null && exit 0; sleep 0.2; done; '
    'rmdir "$0"'
)
"""Script that removes a cgroup in several tries, because a cgroup stays busy for a moment after its last process has
ended."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A memory cgroup that the kernel can create."""

    folder: str
    """Folder of the cgroup."""
    limit: str
    """Name of the file with the cgroup's limit."""


def memory_of(measure: DiskMeasure) -> int | None:
    """Return the memory limit of a program, including its page cache [bytes]; None: unlimited."""
    if measure.memory is not None or measure.profile != "legacy-2006" or not row_of(measure).writes_files:
        return measure.memory
    return max(LEAST_BYTES, size_of(measure) // FILE_RATIO)


@contextmanager
def limited(agent: Agent, memory_bytes: int | None) -> Iterator[str | None]:
    """Create a memory cgroup for the duration of the block, and yield its folder.

    The folder is empty if no limit is requested, and None if the kernel or the user's rights do not allow a limit.

    Raises:
        AgentError: the agent is lost.
    """
    if memory_bytes is None:
        yield ""
        return
    try:
        cgroup = _made(agent, memory_bytes)
    except Refused:
        cgroup = None
    try:
        yield None if cgroup is None else cgroup.folder
    except BaseException:  # the first error matters more; the cgroup is removed with the lab
        agent.begin("journal.undo", {"journal": "self", "keys": [KEY]}).settled_within(HUNG_LIMIT_S)
        raise
    agent.undo(keys=[KEY])


def _made(agent: Agent, memory_bytes: int) -> Cgroup | None:
    seen = agent.run(("sh", "-c", KIND, ROOT)).stdout
    cgroup = cgroup_of(seen)
    if cgroup is None:
        return None
    if cgroup.folder == f"{ROOT}/{NAME}" and not gives_memory(seen):
        undo = _undone_by(f'echo -memory > "{ROOT}/cgroup.subtree_control"')
        agent.run(
            ("sh", "-c", 'echo +memory > "$0"', f"{ROOT}/cgroup.subtree_control"), undo=undo, undo_key=KEY
        )
    made = agent.run(
        ("sh", "-c", MAKE, cgroup.folder, cgroup.limit, str(memory_bytes)),
        undo=_undone_by(REMOVE, cgroup.folder),
        undo_key=KEY,
    )
    return cgroup if made.succeeded else None


def cgroup_of(seen: str) -> Cgroup | None:
    """Return the cgroup that a kernel supports, from the output of `KIND`; None if the kernel has no memory
    controller."""
    lines = seen.splitlines() or [""]
    if lines == ["1"]:
        return Cgroup(f"{ROOT}/memory/{NAME}", "memory.limit_in_bytes")
    return Cgroup(f"{ROOT}/{NAME}", "memory.max") if "memory" in lines[0].split() else None


def gives_memory(seen: str) -> bool:
    """Whether the root of cgroup version 2 enables the memory controller for its children."""
    return "memory" in seen.splitlines()[-1].split()


def _undone_by(script: str, *words: str) -> dict[str, Json]:
    return {"kind": "command", "argv": ["sh", "-c", script, *words], "netns": None}
