"""What a disk program may have of its kernel's memory: a memory cgroup, which the page cache of its files counts in."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Json
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.topology import NAME_PREFIX
from iolab.trial.disk.disk_programs import row_of, size_of
from iolab.trial.disk.run_on_disk import HUNG_LIMIT_S

LEAST_BYTES = 16 << 20
"""With less a program is ended by the kernel before it has begun."""
FILE_RATIO = 2
"""File by memory with the figures of 2006: bonnie++ asks for a file of twice the memory, so that the disk is read."""
ROOT = "/sys/fs/cgroup"
NAME = f"{NAME_PREFIX}disk-program"
KEY = f"cgroup:{NAME}"
KIND = 'cd "$0" && if [ -d memory ]; then echo 1; else cat cgroup.controllers; echo; cat cgroup.subtree_control; fi'
"""Line 1: `1`, or what the root of version 2 has; the last line: what it gives to its children."""
MAKE = 'mkdir "$0" && echo "$2" > "$0/$1"'
REMOVE = (
    'for try in 1 2 3 4 5 6 7 8 9 10; do [ ! -d "$0" ] && exit 0; rmdir "$0" 2>/dev/null && exit 0; sleep 0.2; done; '
    'rmdir "$0"'
)
"""A cgroup can be removed a moment after its last process has ended."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A memory cgroup that can be made."""

    folder: str
    """Of it."""
    limit: str
    """Its file with the limit."""


def memory_of(measure: DiskMeasure) -> int | None:
    """Return what a program may have, its page cache among it [bytes]; None: all that its kernel has."""
    if measure.memory is not None or measure.profile != "legacy-2006" or not row_of(measure).writes_files:
        return measure.memory
    return max(LEAST_BYTES, size_of(measure) // FILE_RATIO)


@contextmanager
def limited(agent: Agent, memory_bytes: int | None) -> Iterator[str | None]:
    """Make a control group for the time of the block that limits the memory of a program; give its folder.

    Empty where all of the memory is asked for; None where the kernel, or the rights of its user, do not allow it.

    Raises:
        AgentError: the agent is gone.
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
    except BaseException:  # why it failed says more; what is left is undone with the lab
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
    """Return the cgroup that a kernel can make, from what `KIND` printed; None: it has none for memory."""
    lines = seen.splitlines() or [""]
    if lines == ["1"]:
        return Cgroup(f"{ROOT}/memory/{NAME}", "memory.limit_in_bytes")
    return Cgroup(f"{ROOT}/{NAME}", "memory.max") if "memory" in lines[0].split() else None


def gives_memory(seen: str) -> bool:
    """Tell whether the root of version 2 lets its children limit their memory."""
    return "memory" in seen.splitlines()[-1].split()


def _undone_by(script: str, *words: str) -> dict[str, Json]:
    return {"kind": "command", "argv": ["sh", "-c", script, *words], "netns": None}
