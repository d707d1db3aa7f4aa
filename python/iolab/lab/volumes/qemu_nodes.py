"""Volumes as QEMU opens them: a file, or what it logs in to. Pure."""

from collections.abc import Mapping

from iolab.experiment.model.links import Volume
from iolab.experiment.model.machines import Disk, DiskCache
from iolab.lab.guests.guest import GuestLun
from iolab.lab.topology import Endpoint
from iolab.lab.volumes.exports import initiator_name, target_name

DIRECT = "cache.direct=on"
DAEMON_CACHES: Mapping[DiskCache | None, str] = {
    None: DIRECT, "none": DIRECT, "writeback": "cache.direct=off",
    "unsafe": "cache.direct=off,cache.no-flush=on",
}  # fmt: skip
"""What QEMU's storage daemon does with the page cache and with flushes. It cannot flush every write by itself."""


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
