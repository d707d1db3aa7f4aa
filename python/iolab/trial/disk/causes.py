"""Why a program failed on its disk: the server behind it, the loop device, a full store, wrong data, an I/O error."""

from iolab.errors import AgentError
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import kernel_of
from iolab.lab.volumes.places import FOLDER, door_of, holder_of, node_of, volume_path
from iolab.lab.volumes.scripts import SHOW_BACKING
from iolab.messages.disks import (
    DiskDetached,
    DiskErred,
    DiskReattached,
    DiskServerFailed,
    StoreFull,
)
from iolab.messages.failures import Failure
from iolab.trial.disk.servers import ask, servers_of
from iolab.trial.lab_access import Site
from iolab.trial.measurement import LabUnusable

WRONG_DATA = ("verify: bad", "verify failed", "Invalid or incomplete multibyte")
"""What fio reports of blocks that are not what it wrote (EILSEQ)."""
IO_ERRORS = (
    "Input/output error", "Remote I/O error", "No space left on device", "Transport endpoint is not connected",
    "No such device", "Read-only file system", "Structure needs cleaning", "Connection timed out",
    "Software caused connection abort", "Stale file handle", "Bad message", "Invalid exchange",
)  # fmt: skip
"""strerror(3) of what a disk, or the file system on it, returns."""
FULL_BYTES = 1 << 20
"""A file system with less than this is full: its own blocks take the rest."""
FREE = ("stat", "-f", "-c", "%a %S", FOLDER)
IN_ENGLISH = ("env", "LC_ALL=C")
"""Stands before a command whose errors are read."""


def check_attached(site: Site, machine: str, disk: Disk) -> None:
    """Look that a disk of a host or a namespace is still attached to its volume, so that nothing else is written.

    Raises:
        LabUnusable: it is not.
        AgentError: the agent is gone.
    """
    if disk.via not in ("local", "user") or site.lab.machines[machine].kind == "vm":
        return
    node = node_of(disk.volume, site.topology.prefix)
    shown = site.agent_of(kernel_of(site.lab, machine)).run(("sh", "-c", SHOW_BACKING, node))
    file = (door_of if disk.via == "user" else volume_path)(disk.volume, site.topology.prefix)
    backing = shown.stdout.strip() if shown.succeeded else ""
    if backing == file:
        return
    about = {"machine": machine, "volume": disk.volume, "node": node}
    raise LabUnusable(DiskReattached(**about, backing=backing) if backing else DiskDetached(**about))


def cause_of(
    site: Site, machine: str, disk: Disk, program: str, output: str, ask_ms: int
) -> LabUnusable | None:
    """Return why a program failed, as its disk shows it; None: the disk is well.

    Raises:
        AgentError: an agent is gone.
    """
    servers = servers_of(site, machine, disk)
    silent = ask(site, servers, ask_ms)
    if silent:
        failed = DiskServerFailed(
            program=program,
            machine=machine,
            server=silent[0].server.about,
            condition=silent[0].condition,
            output=output,
        )
        return LabUnusable(failed)
    try:
        check_attached(site, machine, disk)
    except LabUnusable as detached:
        return detached
    failure = _of_output(site, machine, disk, program, output)
    return None if failure is None else LabUnusable(failure)


def _of_output(site: Site, machine: str, disk: Disk, program: str, output: str) -> Failure | None:
    about = {"program": program, "machine": machine, "volume": disk.volume, "output": output}
    if any(words in output for words in WRONG_DATA):
        return DiskErred(code="disk-data-wrong", **about)
    if not any(words in output for words in IO_ERRORS):
        return None
    if _is_full(site, disk):
        return StoreFull(**about, folder=FOLDER)
    return DiskErred(code="disk-io-failed", **about)


def _is_full(site: Site, disk: Disk) -> bool:
    """Whether the file system that holds a volume's file has no room for another block of it."""
    holder = site.agent_of(holder_of(site.lab, site.lab.volumes[disk.volume]))
    try:
        words = holder.run(FREE).stdout.split()
    except AgentError:
        return False
    numbers = [int(word) for word in words if word.isdecimal()]
    return len(numbers) == 2 and numbers[0] * numbers[1] < FULL_BYTES
