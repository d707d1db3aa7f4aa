"""Check the volumes of a lab, and the disks that refer to them."""

from collections.abc import Collection, Iterable, Iterator

from iolab.experiment.experiment import Lab, Section
from iolab.experiment.model.machines import Disk, Machine
from iolab.experiment.model.volumes import Volume
from iolab.experiment.references.target_references import check_disk_of_target, check_target
from iolab.experiment.references.view import View
from iolab.frozen import frozen
from iolab.locale import Phrase, Text

OF_FILES = ("size", "folder", "export", "target", "chap", "params")
"""Keys of volumes that the lab creates."""


def check_volumes(view: View) -> None:
    """Report wrong keys and names of volumes, and settings of disks that an existing device does not support."""
    for name, volume in view.lab.volumes.items():
        section = Section("volumes", name)
        if volume.on is not None and volume.on not in view.lab.machines:
            view.add(section, ("on",), volume.on, view.lab.machines, Phrase("check.a-machine"))
        _check_keys(view, section, volume)
    for name, machine in view.lab.machines.items():
        for index, disk in enumerate(machine.disks):
            volume_of_disk = view.lab.volumes.get(disk.volume)
            if volume_of_disk is not None and volume_of_disk.device is not None:
                _check_existing(view, Section("machines", name), index, machine, disk)
            if volume_of_disk is not None and volume_of_disk.existing_target is not None:
                target = volume_of_disk.existing_target
                check_disk_of_target(view, Section("machines", name), index, machine, disk, target)


def _check_keys(view: View, section: Section, volume: Volume) -> None:
    if volume.existing_target is not None:
        check_target(view, section, volume.existing_target)
    if volume.exists:
        for key in OF_FILES:
            value = volume.served_by if key == "target" else getattr(volume, key)
            if value is not None and not (key == "params" and not volume.params.written()):
                seen = Phrase("check.key-with-device", key=key)
                view.say(section, (key,), seen, Phrase("check.key-of-created-volumes", key=key))
        return
    if volume.size is None:
        view.say(
            section,
            (),
            Phrase("check.no-key", key="size"),
            Phrase("check.size-of-created-volume"),
            Phrase("check.add-value", key="size"),
        )
    if volume.writes is not None:
        seen, allowed = Phrase("check.writes-without-device"), Phrase("check.writes-of-device")
        view.say(section, ("writes",), seen, allowed)


def _check_existing(view: View, section: Section, index: int, machine: Machine, disk: Disk) -> None:
    """Report settings of a disk that an existing device does not support."""
    place = ("disks", index)
    if disk.via != "local":
        seen = Phrase("check.device-via", via=disk.via)
        view.say(section, (*place, "via"), seen, Phrase("check.device-via-local"))
    if disk.fs is not None:
        seen, allowed = Phrase("check.device-with-fs", fs=disk.fs), Phrase("check.device-keeps-content")
        view.say(section, (*place, "fs"), seen, allowed, Phrase("check.use-folder-for-fs"))
    if machine.kind == "vm" and machine.engine == "xen":
        seen = Phrase("check.device-of-xen", volume=disk.volume)
        view.say(section, (*place, "volume"), seen, Phrase("check.device-of-others"))
    if disk.bus == "ide" and view.lab.volumes[disk.volume].writes is None:
        seen, allowed = Phrase("check.read-only-ide"), Phrase("check.bus-with-read-only")
        view.say(section, (*place, "bus"), seen, allowed)


THIS_COMPUTER = Phrase("check.this-computer")


@frozen
class VolumeTrouble:
    """An unused volume, or a disk that a machine cannot have."""

    section: Section
    """The section with the problem."""
    place: tuple[str | int, ...]
    """The place within the section."""
    seen: Text
    """Description of the problem."""
    allowed: Text
    """Description of the allowed values."""
    advice: Text
    """How to correct the problem."""


def used_volumes(labs: Iterable[Lab]) -> frozenset[str]:
    """Return the volumes that machines use as disks."""
    return frozenset(
        disk.volume for lab in labs for machine in lab.machines.values() for disk in machine.disks
    )


def idle_volumes(lab: Lab, used: Collection[str]) -> Iterator[VolumeTrouble]:
    """Yield the volumes of a lab that no machine uses as a disk in any cell."""
    for name in lab.volumes:
        if name not in used:
            allowed = Phrase("check.volume-of-some-machine")
            advice = Phrase("check.give-volume-to-machine", name=name)
            yield VolumeTrouble(
                Section("volumes", name), (), Phrase("check.no-machine-uses", name=name), allowed, advice
            )


def volume_troubles(lab: Lab) -> Iterator[VolumeTrouble]:
    """Yield the problems of the disks in a lab, in file order."""
    owners: dict[str, str] = {}
    for name, machine in lab.machines.items():
        for index, disk in enumerate(machine.disks):
            section, place = Section("machines", name), ("disks", index, "volume")
            owner = owners.setdefault(disk.volume, name)
            if owner != name or disk.volume in (other.volume for other in machine.disks[:index]):
                yield VolumeTrouble(
                    section,
                    place,
                    Phrase("check.has-already", volume=disk.volume, owner=owner),
                    Phrase("check.volume-with-one-writer"),
                    Phrase("check.volume-for-each-machine"),
                )
            elif trouble := _far(lab, name, machine, disk.volume):
                yield VolumeTrouble(section, place, *trouble)


def _far(lab: Lab, name: str, machine: Machine, volume: str) -> tuple[Text, Text, Text] | None:
    """Return the problem if a volume without export is on a host other than the host that would open it."""
    found = lab.volumes.get(volume)
    if found is None or found.export is not None or found.existing_target is not None:
        return None
    holder = THIS_COMPUTER if found.on is None else _computer(lab, found.on)
    opener = _opener(lab, name, machine)
    if holder is None or opener is None or holder == opener:
        return None
    seen = Phrase("check.lies-on-while", volume=volume, holder=holder, name=name, opener=opener)
    place = (
        Phrase("check.remove-on-from-volume")
        if opener == THIS_COMPUTER
        else Phrase("check.write-where-volume-lies", opener=opener)
    )
    return seen, Phrase("check.volume-on-same-computer"), place


def _opener(lab: Lab, name: str, machine: Machine) -> Text | None:
    """Return the host that opens a machine's disks: for a guest, the host of its hypervisor."""
    if machine.kind != "vm":
        return _computer(lab, name)
    return THIS_COMPUTER if machine.on is None else _computer(lab, machine.on)


def _computer(lab: Lab, name: str) -> Text | None:
    """Return the machine whose kernel a machine uses; None if names do not resolve or are circular."""
    for _ in range(len(lab.machines) + 1):
        machine = lab.machines.get(name)
        if machine is None:
            return None
        if machine.kind == "vm" or (machine.kind == "host" and machine.ssh is not None):
            return name
        if machine.on is None:
            return THIS_COMPUTER
        name = machine.on
    return None
