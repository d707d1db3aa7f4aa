"""Initiators: in a machine's own kernel (open-iscsi, nvme-tcp, nbd), and in QEMU. Pure."""

from collections.abc import Mapping

from iolab.experiment.model.machines import Disk, DiskCache
from iolab.lab.actions import FOUND, Command, Expectation, Reading, Run
from iolab.lab.guests.guest import GuestLun
from iolab.lab.readback.values import Value
from iolab.lab.volumes.places import node_of
from iolab.lab.volumes.scripts import (
    AWAIT_DISK,
    CONNECT_NVME,
    DISCONNECT_NVME,
    FIND_ISCSI,
    FIND_NVME,
    LOGIN,
    LOGOUT,
    REFUSE_EXISTING,
    SHOW_ISCSI_TIMEOUTS,
    SHOW_NVME_TIMEOUTS,
    START_ISCSID,
)
from iolab.lab.volumes.served import Connected, Served
from iolab.lab.volumes.targets import (
    ISCSI_TIMEOUTS,
    NVME_TIMEOUTS,
    disk_checks,
    existing_connection,
    nbd_connection,
)

DIRECT = "cache.direct=on"
DAEMON_CACHES: Mapping[DiskCache | None, str] = {
    None: DIRECT, "none": DIRECT, "writeback": "cache.direct=off",
    "unsafe": "cache.direct=off,cache.no-flush=on",
}  # fmt: skip
"""Cache and flush options of QEMU's storage daemon for each cache mode. The storage daemon cannot flush every write
itself."""
STANDARD_INPUT = "/dev/stdin"
"""File from which QEMU reads a secret that must not be an argument."""


def kernel_disk(
    machine: str, served: Served, size_bytes: int
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    """Return the actions that connect a machine's kernel to a target, and the expectations for read-back."""
    name, node = served.name, node_of(served.name)
    made = existing_connection(served) if served.exists else _connected(served)
    find, words = Command(("sh", "-c", *made.find)), made.find
    timeouts = Reading(Command(("sh", "-c", *made.show_timeouts)), Value())
    found = Reading(find, Value())
    shown = ("--getro", "1" if served.read_only else "0", "read-only state") if served.exists else (
        "--getsize64", str(size_bytes), "size"
    )  # fmt: skip
    actions = (
        *made.actions,
        Run(Command(("sh", "-c", AWAIT_DISK, *words))),
        *(disk_checks(served, found) if served.exists else ()),
        *node_link(found, node),
    )
    return actions, (
        Expectation(
            Reading(Command(("blockdev", shown[0], node)), Value()),
            shown[1],
            f"{shown[2]} of disk {name} of {machine}",
        ),
        Expectation(timeouts, made.timeouts, f"timeouts [s] of the session of disk {name} of {machine}"),
    )


def node_link(find: Reading, node: str) -> tuple[Run, Run]:
    """Return the actions that create the symbolic link `node` to the disk that `find` reads."""
    return (
        Run(Command(("sh", "-c", REFUSE_EXISTING, node))),
        Run(Command(("ln", "-s", "-n", "-T", FOUND, node)), Command(("rm", "-f", node)), find=find),
    )


def _connected(served: Served) -> Connected:
    match served.protocol:
        case "nvme-tcp":
            words = (served.target, served.address, served.initiator, str(served.port), *NVME_TIMEOUTS)
            undo = Command(("sh", "-c", DISCONNECT_NVME, served.target))
            show = (SHOW_NVME_TIMEOUTS, served.target)
            do = Command(("sh", "-c", CONNECT_NVME, *words))
            return Connected((Run(do, undo),), (FIND_NVME, served.target), show, " ".join(NVME_TIMEOUTS))
        case "nbd":
            return nbd_connection(served)
        case _:
            target, at = served.target, served.portal
            daemon = Run(Command(("sh", "-c", START_ISCSID, served.initiator)))
            login = Command(("sh", "-c", LOGIN, target, at, served.user, served.secret, *ISCSI_TIMEOUTS))
            actions = (daemon, Run(login, Command(("sh", "-c", LOGOUT, target, at))))
            show = (SHOW_ISCSI_TIMEOUTS, target)
            return Connected(actions, (FIND_ISCSI, target), show, " ".join(ISCSI_TIMEOUTS))


def throttled(disk: Disk) -> tuple[tuple[str, int], ...]:
    """Return QEMU's throttle options of a disk with their limits per second."""
    if disk.throttle is None:
        return ()
    limits = (("bps-total", disk.throttle.bytes), ("iops-total", disk.throttle.operations))
    return tuple((word, most) for word, most in limits if most is not None)


def lun_of(served: Served, number: int = 0) -> GuestLun:
    """Return the LUN that QEMU opens on the target at its address and port.

    `number` distinguishes the secrets of one QEMU.
    """
    if served.protocol == "nbd":
        server = (("server.type", "inet"), ("server.host", served.address), ("server.port", str(served.port)))
        return GuestLun((("driver", "nbd"), *server, ("export", served.target)))
    options = [
        ("driver", "iscsi"),
        ("transport", "tcp"),
        ("portal", served.portal),
        ("target", served.target),
        ("lun", str(served.unit)),
        ("initiator-name", served.initiator),
    ]
    if not served.user:
        return GuestLun(tuple(options))
    options += [("user", served.user), ("password-secret", f"chap{number}")]
    given = f"data={served.secret}" if served.source is None else f"file={STANDARD_INPUT}"
    return GuestLun(tuple(options), f"secret,id=chap{number},{given}")
