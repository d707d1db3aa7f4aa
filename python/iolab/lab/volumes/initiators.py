"""Initiators: in a machine's own kernel (open-iscsi, nvme-tcp, nbd), and in QEMU. Pure."""

from collections.abc import Mapping

from iolab.experiment.model.links import Volume
from iolab.experiment.model.machines import Disk, DiskCache
from iolab.frozen import frozen
from iolab.lab.actions import FOUND, Command, Expectation, Reading, Run
from iolab.lab.guests.guest import GuestLun
from iolab.lab.readback.values import Value
from iolab.lab.topology import Endpoint
from iolab.lab.volumes.exports import host_name, initiator_name, subsystem_name, target_name
from iolab.lab.volumes.places import RUN, node_of
from iolab.lab.volumes.scripts import (
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
    REFUSE_EXISTING,
    SHOW_ISCSI_TIMEOUTS,
    SHOW_NBD_TIMEOUT,
    SHOW_NVME_TIMEOUTS,
    START_ISCSID,
)

DIRECT = "cache.direct=on"
DAEMON_CACHES: Mapping[DiskCache | None, str] = {
    None: DIRECT, "none": DIRECT, "writeback": "cache.direct=off",
    "unsafe": "cache.direct=off,cache.no-flush=on",
}  # fmt: skip
"""What QEMU's storage daemon does with the page cache and with flushes. It cannot flush every write by itself."""
Portal = tuple[str, int]
"""Where a target listens: address and port."""
ISCSI_TIMEOUTS = ("60", "5", "15")
"""replacement_timeout, noop_out_interval, noop_out_timeout [s]. What waits for a lost target fails then; a
trial has failed before. open-iscsi's own are 120, 5 and 5 s, and a busy target may need longer to reply to a NOP."""
NVME_TIMEOUTS = ("60", "5", "2")
"""ctrl_loss_tmo, keep_alive_tmo, reconnect_delay [s]. Linux waits 600 s."""
NBD_TIMEOUT = "60"
"""Of a request [s]. Linux waits for ever."""


@frozen
class Connected:
    """How a kernel connects to an export."""

    actions: tuple[Run, ...]
    find: tuple[str, ...]
    """Script that finds the disk then, with its words."""
    show_timeouts: tuple[str, ...]
    """Script that shows the timeouts of the session, with its words."""
    timeouts: str
    """What it must show."""


def kernel_disk(
    machine: str, name: str, volume: Volume, portal: Portal, prefix: str
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    """Return what connects a machine's kernel to an exported volume, and what is read back of it."""
    node = node_of(name, prefix)
    made = _connected(machine, name, volume, portal, prefix)
    find, words = Command(("sh", "-c", *made.find)), made.find
    timeouts = Reading(Command(("sh", "-c", *made.show_timeouts)), Value())
    size = Reading(Command(("blockdev", "--getsize64", node)), Value())
    actions = (
        *made.actions,
        Run(Command(("sh", "-c", AWAIT_DISK, *words))),
        *node_link(Reading(find, Value()), node),
    )
    return actions, (
        Expectation(size, str(volume.size), f"size of disk {name} of {machine}"),
        Expectation(timeouts, made.timeouts, f"timeouts [s] of the session of disk {name} of {machine}"),
    )


def node_link(find: Reading, node: str) -> tuple[Run, Run]:
    """Return the actions that make the symbolic link `node` to the disk that `find` reads."""
    return (
        Run(Command(("sh", "-c", REFUSE_EXISTING, node))),
        Run(Command(("ln", "-s", "-n", "-T", FOUND, node)), Command(("rm", "-f", node)), find=find),
    )


def _connected(machine: str, name: str, volume: Volume, portal: Portal, prefix: str) -> Connected:
    address, port = portal
    match volume.export:
        case "nvme-tcp":
            target = subsystem_name(name)
            do = Command(
                ("sh", "-c", CONNECT_NVME, target, address, host_name(machine), str(port), *NVME_TIMEOUTS)
            )
            undo = Command(("sh", "-c", DISCONNECT_NVME, target))
            show = (SHOW_NVME_TIMEOUTS, target)
            return Connected((Run(do, undo),), (FIND_NVME, target), show, " ".join(NVME_TIMEOUTS))
        case "nbd":
            kept = f"{RUN}/{prefix}{name}.nbd"
            do = Command(("sh", "-c", CONNECT_NBD, name, address, kept, str(port), NBD_TIMEOUT))
            undo = Command(("sh", "-c", DISCONNECT_NBD, kept))
            return Connected((Run(do, undo),), (FIND_NBD, kept), (SHOW_NBD_TIMEOUT, kept), NBD_TIMEOUT)
        case _:
            target, at = target_name(name), f"{address}:{port}"
            chap = ("", "") if volume.chap is None else (volume.chap.user, volume.chap.secret)
            daemon = Run(Command(("sh", "-c", START_ISCSID, initiator_name(machine))))
            login = Command(("sh", "-c", LOGIN, target, at, *chap, *ISCSI_TIMEOUTS))
            actions = (daemon, Run(login, Command(("sh", "-c", LOGOUT, target, at))))
            show = (SHOW_ISCSI_TIMEOUTS, target)
            return Connected(actions, (FIND_ISCSI, target), show, " ".join(ISCSI_TIMEOUTS))


def throttled(disk: Disk) -> tuple[tuple[str, int], ...]:
    """Return what QEMU limits of a disk: its word for each limit, with the most in a second."""
    if disk.throttle is None:
        return ()
    limits = (("bps-total", disk.throttle.bytes), ("iops-total", disk.throttle.operations))
    return tuple((word, most) for word, most in limits if most is not None)


def lun_of(name: str, volume: Volume, way: tuple[Endpoint, Endpoint], port: int, number: int = 0) -> GuestLun:
    """Return what QEMU, at the far end of a way, logs in to, at a port; `number` tells secrets of one QEMU apart."""
    target, initiator = way
    if volume.export == "nbd":
        server = (("server.type", "inet"), ("server.host", target.address), ("server.port", str(port)))
        return GuestLun((("driver", "nbd"), *server, ("export", name)))
    options = [
        ("driver", "iscsi"),
        ("transport", "tcp"),
        ("portal", f"{target.address}:{port}"),
        ("target", target_name(name)),
        ("lun", "1"),
        ("initiator-name", initiator_name(initiator.machine)),
    ]
    if volume.chap is None:
        return GuestLun(tuple(options))
    options += [("user", volume.chap.user), ("password-secret", f"chap{number}")]
    return GuestLun(tuple(options), f"secret,id=chap{number},data={volume.chap.secret}")
