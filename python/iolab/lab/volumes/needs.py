"""What volumes and disks need: by themselves, and of the computers that they are on."""

from collections.abc import Callable, Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Volume
from iolab.experiment.machines import Disk, Machine, Vm
from iolab.lab.kernels import kernel_of
from iolab.lab.needs.need import QEMU_ISCSI, Need, NeedKind, Wanted
from iolab.lab.volumes.attached import MAKE_FILE_SYSTEM
from iolab.lab.volumes.places import holder_of
from iolab.statements.clashes import (
    BusWithoutGuest,
    ExportWithoutMachine,
    ExportWithoutWay,
    IdePortsTooFew,
    ParamsWithoutExport,
    XenBusFixed,
)
from iolab.statements.lacks import Lack
from iolab.statements.purposes import DiskOf, ForMachine, ForVolume, KeyOf
from iolab.statements.unbuilt import DiskWayUnbuilt, ExportUnbuilt, GuestFileSystemUnbuilt

Where = Callable[[Lab, str], str]
"""Returns who must have what is needed on a kernel."""
IDE_PORTS = 6
"""Of an ICH9 AHCI controller."""


def volume_needs(name: str, volume: Volume) -> tuple[Lack, ...]:
    """Return what a volume needs by itself."""
    purpose = ForVolume(volume=name)
    if volume.export is None and volume.params.written():
        return (ParamsWithoutExport(purpose=KeyOf(key="params", part=purpose)),)
    if volume.export in (None, "iscsi"):
        return ()
    return (ExportUnbuilt(purpose=purpose, export=volume.export),)


def disk_needs(name: str, machine: Machine) -> Iterator[Lack]:
    """Give what the disks of a machine need by themselves."""
    purpose = ForMachine(machine=name)
    guest = isinstance(machine, Vm)
    for disk in machine.disks:
        one = DiskOf(volume=disk.volume, machine=name)
        if disk.via not in (("local",) if guest else ("local", "user")):
            yield DiskWayUnbuilt(purpose=purpose, via=disk.via)
        if guest and disk.fs is not None:
            yield GuestFileSystemUnbuilt(purpose=one)
        if not guest and disk.bus is not None:
            yield BusWithoutGuest(purpose=one)
        if isinstance(machine, Vm) and machine.engine == "xen" and disk.bus is not None:
            yield XenBusFixed(purpose=one)
    if sum(disk.bus == "ide" for disk in machine.disks) > IDE_PORTS:
        yield IdePortsTooFew(purpose=KeyOf(key="disks", part=purpose), most=IDE_PORTS)


def joint_needs(lab: Lab, where: Where) -> Iterator[Wanted]:
    """Give what disks need of volumes, and of the kernels that they are on."""
    for name, machine in lab.machines.items():
        for disk in machine.disks:
            volume = lab.volumes[disk.volume]
            if volume.export is not None and disk.via == "local":
                yield ExportWithoutWay(purpose=DiskOf(volume=disk.volume, machine=name))
            if volume.export == "iscsi" and volume.on is None:
                yield ExportWithoutMachine(purpose=ForVolume(volume=disk.volume))
            if not isinstance(machine, Vm):
                yield from _attaching_needs(lab, name, disk, where)


def _attaching_needs(lab: Lab, name: str, disk: Disk, where: Where) -> Iterator[Need]:
    volume, purpose = lab.volumes[disk.volume], DiskOf(volume=disk.volume, machine=name)
    there, holder = where(lab, kernel_of(lab, name)), where(lab, holder_of(lab, volume))
    yield Need(NeedKind.ROOT, "losetup", purpose, there)
    programs = ["qemu-storage-daemon"] if disk.via == "user" else []
    programs += [MAKE_FILE_SYSTEM[disk.fs][0]] if disk.fs is not None else []
    yield from (Need(NeedKind.PROGRAM, program, purpose, there) for program in programs)
    if volume.export == "iscsi":
        exported = ForVolume(volume=disk.volume)
        yield Need(NeedKind.ROOT, "tgtd", exported, holder)
        yield Need(NeedKind.PROGRAM, "tgtd", exported, holder)
        yield Need(NeedKind.FEATURE, QEMU_ISCSI, purpose, there)
