"""Check existing targets, and the settings of the disks that use them."""

from iolab.experiment.experiment import Section
from iolab.experiment.model.machines import Disk, Machine
from iolab.experiment.model.targets import ExistingTarget
from iolab.experiment.references.view import View
from iolab.locale import Phrase


def check_target(view: View, section: Section, target: ExistingTarget) -> None:
    """Report keys of a target that do not belong together, and a portal that names no machine."""
    for problem in target.problems():
        place = ("target", problem.key) if problem.key else ("target",)
        view.say(section, place, problem.seen, problem.allowed)
    if target.machine is not None and target.machine not in view.lab.machines:
        view.add(
            section,
            ("target", "portal"),
            target.machine,
            view.lab.machines,
            Phrase("check.portal-of-machine"),
        )


def check_disk_of_target(
    view: View, section: Section, index: int, machine: Machine, disk: Disk, target: ExistingTarget
) -> None:
    """Report settings of a disk that an existing target does not support."""
    place, volume = ("disks", index), view.lab.volumes[disk.volume]
    if disk.fs is not None and volume.writes is None:
        seen, allowed = Phrase("check.device-with-fs", fs=disk.fs), Phrase("check.fs-needs-writes")
        view.say(section, (*place, "fs"), seen, allowed, Phrase("check.add-writes", volume=disk.volume))
    if target.chap is not None and disk.via == "hypervisor":
        seen = Phrase("check.chap-with-hypervisor")
        view.say(section, (*place, "via"), seen, Phrase("check.via-with-chap"))
    if (
        target.machine is not None
        and machine.kind != "vm"
        and view.lab.machines.get(target.machine) is machine
    ):
        seen = Phrase("check.portal-is-initiator", machine=target.machine)
        view.say(section, (*place, "volume"), seen, Phrase("check.portal-elsewhere"))
    if disk.bus == "ide" and volume.writes is None:
        seen, allowed = Phrase("check.read-only-ide"), Phrase("check.bus-with-read-only")
        view.say(section, (*place, "bus"), seen, allowed)
