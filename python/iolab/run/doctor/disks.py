"""Findings of the doctor about the block devices of a host: their identity, and whether labs may use them."""

from collections.abc import Iterator

from iolab.agent.client import Agent
from iolab.errors import AgentError
from iolab.lab.volumes.devices import USES, ExaminedDevice
from iolab.messages.checks import DiskNotRead, DiskOffered, DiskWithout
from iolab.run.doctor.findings import Finding, good, limited
from iolab.run.hosts.devices import all_devices

MOST_DEVICES = 64
"""Maximum number of devices that are listed."""


def disk_findings(agent: Agent) -> Iterator[Finding]:
    """Yield a finding for each block device of a host.

    Every device may be read. Each finding states whether the device may be written, and with which option. A device
    that may not be written is not a problem of the host.
    """
    if agent.hello.rootless:  # an ordinary user cannot open disks
        return
    try:
        devices = all_devices(agent)
    except AgentError as error:
        yield limited("disks", DiskNotRead(said=str(error)))
        return
    for one in devices[:MOST_DEVICES]:
        closed = [obstacle.name for obstacle in one.obstacles if obstacle.kind == "unreadable"]
        yield limited(one.path, DiskNotRead(said=closed[0])) if closed else good(one.path, described(one))


def described(device: ExaminedDevice) -> DiskOffered | DiskWithout:
    """Return a statement about a device: that it may be written, or the first reason why not."""
    if not device.identities:
        return DiskWithout(size_bytes=device.bytes)
    found = {one.kind: one for one in reversed(device.obstacles)}
    identity = device.identities[0]
    for kind in USES:
        if kind in found:
            use = " ".join(filter(None, (kind, found[kind].part, found[kind].name)))
            return DiskOffered(code="disk-in-use", identity=identity, size_bytes=device.bytes, seen=use)
    if "read-only" in found:
        return DiskOffered(code="disk-read-only", identity=identity, size_bytes=device.bytes, seen="")
    if "signature" in found:
        content = found["signature"].name
        return DiskOffered(code="disk-with-content", identity=identity, size_bytes=device.bytes, seen=content)
    return DiskOffered(code="disk-free", identity=identity, size_bytes=device.bytes, seen="")
