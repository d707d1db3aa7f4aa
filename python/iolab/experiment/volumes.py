"""Whether the volumes of one cell can be where they are: what is wrong, as values. Names that lead nowhere are no
matter here.
"""

from collections.abc import Collection, Iterable, Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.machines import Machine
from iolab.experiment.sections import Section
from iolab.frozen import frozen

THIS_COMPUTER = "this computer"


@frozen
class VolumeTrouble:
    """A volume that nobody uses, or a disk that a machine cannot have."""

    section: Section
    """Whose."""
    place: tuple[str | int, ...]
    """Where in it."""
    seen: str
    """What is wrong."""
    allowed: str
    """What would be right."""
    advice: str
    """What to do."""


def used_volumes(labs: Iterable[Lab]) -> frozenset[str]:
    """Return the volumes that machines have as disks."""
    return frozenset(
        disk.volume for lab in labs for machine in lab.machines.values() for disk in machine.disks
    )


def idle_volumes(lab: Lab, used: Collection[str]) -> Iterator[VolumeTrouble]:
    """Yield the volumes of a lab that no machine has as a disk, in any cell."""
    for name in lab.volumes:
        if name not in used:
            allowed = "a volume that some machine has among its disks"
            advice = f"write disks: [{{volume: {name}}}] at a machine, or remove the volume"
            yield VolumeTrouble(
                Section("volumes", name), (), f"{name}, which no machine uses", allowed, advice
            )


def volume_troubles(lab: Lab) -> Iterator[VolumeTrouble]:
    """Yield what is wrong with the disks of a lab, in the order written."""
    owners: dict[str, str] = {}
    for name, machine in lab.machines.items():
        for index, disk in enumerate(machine.disks):
            section, place = Section("machines", name), ("disks", index, "volume")
            owner = owners.setdefault(disk.volume, name)
            if owner != name or disk.volume in (other.volume for other in machine.disks[:index]):
                yield VolumeTrouble(
                    section,
                    place,
                    f"{disk.volume}, which {owner} has already",
                    "a volume that no other disk is: two writers spoil each other's files",
                    "give each machine a volume of its own",
                )
            elif trouble := _far(lab, name, machine, disk.volume):
                yield VolumeTrouble(section, place, *trouble)


def _far(lab: Lab, name: str, machine: Machine, volume: str) -> tuple[str, str, str] | None:
    """Tell of a volume on another computer than the one that would open it."""
    found = lab.volumes.get(volume)
    if found is None or found.export is not None:
        return None
    holder = THIS_COMPUTER if found.on is None else _computer(lab, found.on)
    opener = _opener(lab, name, machine)
    if holder is None or opener is None or holder == opener:
        return None
    seen = f"{volume}, which lies on {holder}, while {name} is on {opener}"
    place = "remove `on` from the volume" if opener == THIS_COMPUTER else f"write on: {opener} at the volume"
    return seen, "a volume on the same computer", place


def _opener(lab: Lab, name: str, machine: Machine) -> str | None:
    """Return the computer that opens a machine's disks: that of a guest's hypervisor, or its own."""
    if machine.kind != "vm":
        return _computer(lab, name)
    return THIS_COMPUTER if machine.on is None else _computer(lab, machine.on)


def _computer(lab: Lab, name: str) -> str | None:
    """Return the machine whose kernel a machine is on; None where names lead nowhere, or in a circle."""
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
