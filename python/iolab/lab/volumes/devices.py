"""Block devices that exist before a lab: their resources, and the permissions that the user must give before a device
is written. Pure.

The agent examines a device, and stores its identity in a record. Before each use it compares the device with the
record. A lab creates only the record and a link to the device's node.
"""

import json
from collections.abc import Collection

from iolab.experiment.experiment import Lab
from iolab.experiment.model.volumes import Consents
from iolab.frozen import frozen
from iolab.lab.actions import Command, Expectation, Reading, Run
from iolab.lab.dependencies import kernel_dependencies
from iolab.lab.kernels import kernel_of
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.lab.volumes.initiators import node_link
from iolab.lab.volumes.places import holder_of, node_of, record_of
from iolab.lab.volumes.scripts import REFUSE_EXISTING
from iolab.locale import Phrase

ASK = 'printf %s "$0" | "/proc/$PPID/exe" disk >/dev/null'
"""Script that sends a request to the agent's disk program; the agent is the parent process of the script."""
SHOW_SAME = ASK + " && echo same"
SHOW_NODE = 'sed "s/.*\\"node\\":\\"\\([^\\"]*\\)\\".*/\\1/" "$0"'
"""Script that prints the device's node from the record."""
USES = ("held", "loop", "mounted", "swap", "busy", "reserved")
"""Kinds of obstacles that a device in use has; the user's permission does not remove these obstacles."""


@frozen
class Obstacle:
    """A reason against writing to a device."""

    kind: str
    """held, loop, mounted, swap, busy, reserved, read-only, unreadable or signature."""
    name: str
    """Mount point, device on top, key of the reservation, reason of the kernel, or type of the signature."""
    part: str
    """The device with the obstacle: the device itself, its disk or one of its partitions."""


@frozen
class ExaminedDevice:
    """A block device as its kernel shows it."""

    path: str
    """Path of the device."""
    identities: tuple[str, ...]
    """Serial numbers, WWNs, PARTUUID, LV UUID; for a loop device its backing file."""
    disks: tuple[str, ...]
    """Kernel's names of the disks below the device."""
    bytes: int
    """Size [bytes]."""
    obstacles: tuple[Obstacle, ...]
    """Reasons against writing."""


def device_resource(lab: Lab, owner: str, name: str) -> Resource:
    """Return the resource of an existing device: its record, and a link to its node on the machine that uses it."""
    volume, record = lab.volumes[name], record_of(name)
    kernel, node = holder_of(lab, volume), node_of(name)
    here = lab.machines[owner].kind != "vm" and kernel == kernel_of(lab, owner)
    request = {
        "program": "examine",
        "device": volume.device,
        "expected": lab.consents.expected(kernel, volume.device or ""),
        "record": record,
        "allowed": sorted(lab.consents.writes) if volume.writes is not None else [],
        "destroyed": sorted(lab.consents.destroys) if volume.writes is not None else [],
    }
    same = Command(("sh", "-c", SHOW_SAME, json.dumps({"program": "same", "record": record})))
    return Resource(
        key=f"device:{name}",
        machine=owner,
        kernel=kernel,
        needs=kernel_dependencies(lab, kernel),
        actions=(
            Run(Command(("sh", "-c", REFUSE_EXISTING, record))),
            Run(Command(("sh", "-c", ASK, json.dumps(request))), Command(("rm", "-f", record))),
            *(node_link(Reading(Command(("sh", "-c", SHOW_NODE, record)), Value()), node) if here else ()),
        ),
        expect=(Expectation(Reading(same, Value()), "same", f"device {volume.device} of {owner}"),),
    )


def refusal(device: ExaminedDevice, consents: Consents) -> Phrase | None:
    """Return the reason why writing to a device is not permitted; None if it is permitted."""
    if not device.identities:
        return Phrase("run.device-without-identity", device=device.path)
    identity = device.identities[0]
    if not _named(device, consents.writes):
        return Phrase("run.device-not-permitted", device=device.path, identity=identity)
    found = {one.kind: one for one in reversed(device.obstacles)}
    for kind in USES:
        if kind in found:
            return _in_use(device, found[kind])
    if "read-only" in found:
        return Phrase("run.device-read-only", device=device.path)
    if "signature" in found and not _named(device, consents.destroys):
        name = found["signature"].name
        return Phrase("run.device-with-content", device=device.path, content=name, identity=identity)
    return None


def _named(device: ExaminedDevice, identities: Collection[str]) -> bool:
    return any(one in identities for one in device.identities)


def _in_use(device: ExaminedDevice, use: Obstacle) -> Phrase:
    match use.kind:
        case "mounted":
            return Phrase("run.device-mounted", device=device.path, part=use.part, name=use.name)
        case "swap":
            return Phrase("run.device-swap", device=device.path, part=use.part)
        case "busy":
            return Phrase("run.device-busy", device=device.path)
        case "reserved":
            return Phrase("run.device-reserved", device=device.path, key=use.name)
        case _:
            return Phrase("run.device-held", device=device.path, part=use.part, name=use.name)
