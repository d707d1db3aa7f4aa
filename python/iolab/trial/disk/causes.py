"""Find the cause of a program failure on its disk: a server, the loop device, a full file system, wrong data, an I/O
error."""

from iolab.errors import AgentError
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import kernel_of
from iolab.lab.volumes.places import door_of, holder_of, node_of, volume_folder, volume_path
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
"""fio messages about blocks whose content differs from the written data (EILSEQ)."""
IO_ERRORS = (
    "Input/output error", "Remote I/O error", "No space left on device", "Transport endpoint is not connected",
    "No such device", "Read-only file system", "Structure needs cleaning", "Connection timed out",
    "Software caused connection abort", "Stale file handle", "Bad message", "Invalid exchange",
)  # fmt: skip
"""strerror(3) texts of errors that a disk or its file system returns."""
FULL_BYTES = 1 << 20
"""Minimum free space of a file system that is not full [bytes]; less may be reserved for the file system's own
blocks."""
FREE = ("stat", "-f", "-c", "%a %S")
IN_ENGLISH = ("env", "LC_ALL=C")
"""Command prefix for error messages in English."""


def check_attached(site: Site, machine: str, disk: Disk) -> None:
    """Check that a disk of a host or a namespace is still attached to its volume, so that no other file is written.

    Raises:
        LabUnusable: the disk is not attached.
        AgentError: the agent is lost.
    """
    if disk.via not in ("local", "user") or site.lab.machines[machine].kind == "vm":
        return
    if site.lab.volumes[disk.volume].device is not None:
        return  # whenever the agent opens the device, it compares the device with its record
    node = node_of(disk.volume)
    shown = site.agent_of(kernel_of(site.lab, machine)).run(("sh", "-c", SHOW_BACKING, node))
    file = door_of(disk.volume) if disk.via == "user" else volume_path(site.lab, disk.volume)
    backing = shown.stdout.strip() if shown.succeeded else ""
    if backing == file:
        return
    about = {"machine": machine, "volume": disk.volume, "node": node}
    raise LabUnusable(DiskReattached(**about, backing=backing) if backing else DiskDetached(**about))


def cause_of(
    site: Site, machine: str, disk: Disk, program: str, output: str, ask_ms: int
) -> LabUnusable | None:
    """Return the cause of a program failure, as found on the program's disk; None if the disk works.

    Raises:
        AgentError: an agent is lost.
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
        return StoreFull(**about, folder=volume_folder(site.lab.volumes[disk.volume]))
    return DiskErred(code="disk-io-failed", **about)


def _is_full(site: Site, disk: Disk) -> bool:
    """Whether the file system with a volume's file has no space for one more block."""
    volume = site.lab.volumes[disk.volume]
    if volume.exists:
        return False
    holder = site.agent_of(holder_of(site.lab, volume))
    try:
        words = holder.run((*FREE, volume_folder(volume))).stdout.split()
    except AgentError:
        return False
    numbers = [int(word) for word in words if word.isdecimal()]
    return len(numbers) == 2 and numbers[0] * numbers[1] < FULL_BYTES
