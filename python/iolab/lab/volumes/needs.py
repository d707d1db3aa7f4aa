"""Requirements of volumes and disks, including those of the hosts that contain them."""

from collections.abc import Callable, Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Disk, Machine, Vm
from iolab.experiment.model.targets import ExistingTarget
from iolab.experiment.model.volumes import Volume
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.requirements.need import QEMU_ISCSI, Need, NeedKind, Wanted
from iolab.lab.volumes.attached import MAKE_FILE_SYSTEM
from iolab.lab.volumes.exports import by_kernel
from iolab.lab.volumes.initiators import DAEMON_CACHES
from iolab.lab.volumes.places import holder_of
from iolab.lab.volumes.served import consents_to
from iolab.messages.conflicts import (
    ClashOfWay,
    IdePortsTooFew,
    PlainClash,
)
from iolab.messages.places import DiskOf, ForMachine, ForVolume, KeyOf
from iolab.messages.unmet import UnmetRequirement, WriteNotConsented

Where = Callable[[Lab, str], str]
"""Function that returns the party that must meet a requirement on a kernel."""
INITIATORS = {"iscsi": "iscsiadm", "nbd": "nbd-client"}
"""Program that connects a kernel to a target, by protocol; guest images contain these programs."""
IDE_PORTS = 6
"""Number of ports of an ICH9 AHCI controller."""


def volume_needs(name: str, volume: Volume) -> tuple[UnmetRequirement, ...]:
    """Return the requirements of a volume."""
    purpose = ForVolume(volume=name)
    asked = {"params": volume.params.written(), "chap": volume.chap, "target": volume.served_by}
    keys = [key for key, value in asked.items() if value and volume.export != "iscsi"]
    lacks: list[UnmetRequirement] = [
        PlainClash(code="params-without-export", purpose=KeyOf(key=key, part=purpose)) for key in keys
    ]
    return tuple(lacks)


def disk_needs(name: str, machine: Machine) -> Iterator[UnmetRequirement]:
    """Yield the requirements of a machine's disks."""
    guest = isinstance(machine, Vm)
    for disk in machine.disks:
        one = DiskOf(volume=disk.volume, machine=name)
        if disk.via == ("user" if guest else "hypervisor"):
            yield ClashOfWay(code="disk-way-for-others", purpose=one, via=disk.via)
        if disk.via == "kernel" and machine.kind == "netns":
            yield PlainClash(code="kernel-initiator-in-namespace", purpose=one)
        if (not guest or disk.via == "kernel") and disk.bus is not None:
            yield PlainClash(code="bus-without-guest", purpose=one)
        if isinstance(machine, Vm) and machine.engine == "xen" and disk.bus is not None:
            yield PlainClash(code="xen-bus-fixed", purpose=one)
        qemu = isinstance(machine, Vm) and machine.engine == "qemu" and disk.via != "kernel"
        if disk.cache is not None and not qemu and not (disk.via == "user" and disk.cache in DAEMON_CACHES):
            yield PlainClash(code="disk-cache-without-qemu", purpose=one)
        if disk.throttle is not None and not (qemu or disk.via == "user"):
            yield PlainClash(code="throttle-without-qemu", purpose=one)
    if sum(disk.bus == "ide" for disk in machine.disks) > IDE_PORTS:
        yield IdePortsTooFew(purpose=KeyOf(key="disks", part=ForMachine(machine=name)), most=IDE_PORTS)


def joint_needs(lab: Lab, where: Where) -> Iterator[Wanted]:
    """Yield the requirements that disks have for their volumes, and for the kernels of the volumes."""
    for name, machine in lab.machines.items():
        for disk in machine.disks:
            yield from _disk_needs(lab, name, machine, disk, where)


def _disk_needs(lab: Lab, name: str, machine: Machine, disk: Disk, where: Where) -> Iterator[Wanted]:
    volume, one = lab.volumes[disk.volume], DiskOf(volume=disk.volume, machine=name)
    there = where(lab, kernel_of(lab, name))
    if disk.fs is not None:
        yield Need(NeedKind.PROGRAM, MAKE_FILE_SYSTEM[disk.fs][0], one, there)
    if not isinstance(machine, Vm):
        yield Need(NeedKind.ROOT, "losetup", one, there)
    if disk.via == "user":
        yield Need(NeedKind.PROGRAM, "qemu-storage-daemon", one, there)
    if volume.existing_target is not None:
        yield from _existing_needs(lab, name, disk, volume.existing_target, where)
        return
    if volume.export is None:
        if disk.via in ("hypervisor", "kernel"):
            yield ClashOfWay(code="initiator-without-export", purpose=one, via=disk.via)
        return
    if disk.via == "local":
        yield PlainClash(code="export-without-way", purpose=one)
    elif volume.on is None:
        yield PlainClash(code="export-without-machine", purpose=ForVolume(volume=disk.volume))
    else:
        yield from _target_needs(lab, disk.volume, where)
        yield from _initiator_needs(lab, name, machine, disk, where)


def _initiator_needs(lab: Lab, name: str, machine: Machine, disk: Disk, where: Where) -> Iterator[Wanted]:
    """Yield the requirements of a machine's initiator."""
    volume, one = lab.volumes[disk.volume], DiskOf(volume=disk.volume, machine=name)
    export = volume.export or (volume.existing_target.protocol if volume.existing_target is not None else "")
    there = where(lab, kernel_of(lab, name))
    if disk.via == "kernel":
        yield Need(NeedKind.FEATURE, f"initiator:{export}", one, there, (name,))
        if not isinstance(machine, Vm) and export in INITIATORS:
            yield Need(NeedKind.PROGRAM, INITIATORS[export], one, there)
        return
    if disk.via == "hypervisor" and (machine.on is None or not is_qemu(machine)):
        yield PlainClash(code="hypervisor-without-address", purpose=one)
        return
    if export == "nvme-tcp":
        yield ClashOfWay(code="no-nvme-initiator", purpose=one, via=disk.via)
    if export == "iscsi":
        parent = where(lab, parent_kernel(lab, name)) if disk.via == "hypervisor" else there
        yield Need(NeedKind.FEATURE, QEMU_ISCSI, one, parent)


def _existing_needs(
    lab: Lab, name: str, disk: Disk, target: ExistingTarget, where: Where
) -> Iterator[Wanted]:
    """Yield the requirements of a disk of an existing target."""
    machine, one = lab.machines[name], DiskOf(volume=disk.volume, machine=name)
    if disk.via == "local":
        yield PlainClash(code="export-without-way", purpose=one)
        return
    yield from _initiator_needs(lab, name, machine, disk, where)
    parent = parent_kernel(lab, name) if disk.via == "hypervisor" else kernel_of(lab, name)
    if disk.via != "kernel" and target.protocol == "iscsi" and consents_to(lab, disk.volume):
        yield Need(NeedKind.PROGRAM, "iscsi-inq", one, where(lab, parent))
    if disk.fs is not None and not consents_to(lab, disk.volume):
        yield WriteNotConsented(purpose=one, identity=target.written_identity)


def is_qemu(machine: Machine) -> bool:
    """Whether a machine is a QEMU guest."""
    return isinstance(machine, Vm) and machine.engine == "qemu"


def _target_needs(lab: Lab, name: str, where: Where) -> Iterator[Wanted]:
    volume, exported = lab.volumes[name], ForVolume(volume=name)
    kernel = holder_of(lab, volume)
    holder, guest = where(lab, kernel), kernel != HERE and lab.machines[kernel].kind == "vm"
    machines = () if volume.on is None else (volume.on,)
    yield Need(NeedKind.ROOT, "export", exported, holder)
    if volume.export == "nbd":
        if not guest:
            yield Need(NeedKind.PROGRAM, "qemu-nbd", exported, holder)
    elif volume.export == "nvme-tcp" or by_kernel(lab, volume):
        yield Need(NeedKind.FEATURE, f"target:{volume.export}", exported, holder, machines)
    elif not guest:
        yield Need(NeedKind.PROGRAM, "tgtd", exported, holder)
