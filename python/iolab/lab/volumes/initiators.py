"""Initiators in a machine's own kernel: open-iscsi, nvme-tcp, nbd. Pure."""

from iolab.experiment.links import Volume
from iolab.lab.actions import FOUND, Run
from iolab.lab.readback.values import Value
from iolab.lab.readings import Command, Expectation, Reading
from iolab.lab.volumes.exports import host_name, initiator_name, subsystem_name, target_name
from iolab.lab.volumes.kernel_scripts import (
    AWAIT_DISK,
    CONNECT_NBD,
    CONNECT_NVME,
    DISCONNECT_NBD,
    DISCONNECT_NVME,
    FIND_ISCSI,
    FIND_NBD,
    FIND_NVME,
    LOGIN,
    LOGOUT,
    START_ISCSID,
)
from iolab.lab.volumes.places import RUN, node_of

Portal = tuple[str, int]
"""Where a target listens: address and port."""


def kernel_disk(
    machine: str, name: str, volume: Volume, portal: Portal, prefix: str
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    """Return what connects a machine's kernel to an exported volume, and what is read back of it."""
    node = node_of(name, prefix)
    connect, words = _connected(machine, name, volume, portal, prefix)
    find = Command(("sh", "-c", *words))
    size = Reading(Command(("blockdev", "--getsize64", node)), Value())
    actions = (
        *connect,
        Run(Command(("sh", "-c", AWAIT_DISK, *words))),
        Run(
            Command(("ln", "-s", "-f", FOUND, node)), Command(("rm", "-f", node)), find=Reading(find, Value())
        ),
    )
    return actions, (Expectation(size, str(volume.size), f"size of disk {name} of {machine}"),)


def _connected(
    machine: str, name: str, volume: Volume, portal: Portal, prefix: str
) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Return what connects, and the script, with its words, that finds the disk then."""
    address, port = portal
    match volume.export:
        case "nvme-tcp":
            target = subsystem_name(name)
            do = Command(("sh", "-c", CONNECT_NVME, target, address, host_name(machine), str(port)))
            return (Run(do, Command(("sh", "-c", DISCONNECT_NVME, target))),), (FIND_NVME, target)
        case "nbd":
            kept = f"{RUN}/{prefix}{name}.nbd"
            do = Command(("sh", "-c", CONNECT_NBD, name, address, kept, str(port)))
            return (Run(do, Command(("sh", "-c", DISCONNECT_NBD, kept))),), (FIND_NBD, kept)
        case _:
            target, at = target_name(name), f"{address}:{port}"
            chap = ("", "") if volume.chap is None else (volume.chap.user, volume.chap.secret)
            daemon = Run(Command(("sh", "-c", START_ISCSID, initiator_name(machine))))
            login = Command(("sh", "-c", LOGIN, target, at, *chap))
            return (
                (daemon, Run(login, Command(("sh", "-c", LOGOUT, target, at)))),
                (FIND_ISCSI, target),
            )
