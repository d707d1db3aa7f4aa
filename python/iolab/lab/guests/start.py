"""How a guest is started on its parent: every command with its undo, from what was found there. Pure."""

from collections.abc import Mapping
from dataclasses import field

from iolab.frozen import frozen
from iolab.lab.actions import TypedCommand
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.own_user import own_user_of
from iolab.lab.guests.passed_files import file_note, passed_files
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.guests.switch import RUNTIME, switch_argv, switch_id, switched
from iolab.lab.guests.xen import CREATE, dom0_commands, domain_commands, xl_config
from iolab.lab.readings import Command
from iolab.messages.commands import RunsAsOwnUser

PARENT_COMMAND = ("modprobe", "-a", "-q", "tun", "vhost_net", "macvtap", "bridge", "kvm_amd", "kvm_intel")
"""What a guest needs to be a parent; no hardware asks for these, and one of the last two does not fit."""


@frozen
class SwitchStart:
    """How the switch of a card is started."""

    card: str
    """The card's name."""
    netns: str | None
    """Network namespace that it is in."""
    argv: tuple[str, ...]
    """Its command."""
    environment: Mapping[str, str]
    """Beside the agent's own."""


@frozen(kw_only=True)
class GuestStart:
    """What a guest is started with."""

    argv: tuple[str, ...]
    """The hypervisor's command, or the toolstack's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside the agent's own."""
    folder: str
    """Its scratch folder."""
    configuration: str = ""
    """Of a domain: what is in the file that the command names."""
    nested: bool = False
    """Its parent is itself a guest of ours."""
    switches: tuple[SwitchStart, ...] = ()
    """Of its cards, in their order."""
    unprivileged: bool = False
    """The hypervisor runs as a user of its own."""


def planned_start(guest: Guest, *, nested: bool) -> GuestStart:
    """Return a start before anything was looked for: words in capitals stand for what is found."""
    xen = "IMAGE/xen" if guest.image == "xen" else None
    boot = Boot("IMAGE/vmlinux", "IMAGE/initrd", "IMAGE/root.squashfs", "IMAGE/modules.squashfs", xen)
    if guest.engine == "xen":
        text = xl_config(guest, "FOLDER", boot)
        return GuestStart(
            argv=(*CREATE, "FOLDER/domain.cfg"), configuration=text, folder="FOLDER", nested=nested
        )
    place = Place(boot=boot, folder="FOLDER", accel="kvm" if guest.accel == "kvm" else "tcg")
    argv = qemu_argv(guest, place)
    if guest.accel == "auto":
        for option, word in (("-accel", "ACCEL"), ("-cpu", "CPU")):
            at = argv.index(option) + 1
            argv = (*argv[:at], word, *argv[at + 1 :])
    switches = tuple(
        SwitchStart(nic.name, backend.netns, switch_argv(nic, backend, "FOLDER", "CPUS"), {RUNTIME: "FOLDER"})
        for nic, backend in switched(guest)
    )
    unprivileged = own_user_of(guest, place) is not None
    return GuestStart(argv=argv, folder="FOLDER", nested=nested, switches=switches, unprivileged=unprivileged)


def start_commands(guest: Guest, start: GuestStart) -> tuple[TypedCommand, ...]:
    """Return what starts a guest: its folder, its switches or its domain's scripts, then the hypervisor."""
    folder = TypedCommand(
        Command(("mkdir", "-p", "-m", "700", start.folder)), Command(("rm", "-r", start.folder))
    )
    if guest.engine == "xen":
        before = (TypedCommand(Command(argv)) for argv in dom0_commands(nested=start.nested))
        made = domain_commands(guest.name, start.argv, start.configuration)
        domain = (TypedCommand(Command(argv), None if undo is None else Command(undo)) for argv, undo in made)
        return (*before, folder, *domain)
    switches = (
        TypedCommand(
            Command(_with(one.environment, one.argv), one.netns), _stop(switch_id(guest.name, one.card))
        )
        for one in start.switches
    )
    rights = (RunsAsOwnUser(),) if start.unprivileged else ()
    notes = (*rights, *(file_note(file) for file in passed_files(guest)))
    qemu = TypedCommand(
        Command(_with(start.environment, start.argv), guest.netns), _stop(process_id(guest.name)), notes
    )
    parent = (TypedCommand(Command(PARENT_COMMAND)),) if start.nested else ()
    return (*parent, folder, *switches, qemu)


def process_id(guest: str) -> str:
    """Return the id under which a guest's hypervisor is supervised."""
    return f"guest:{guest}"


def _stop(process: str) -> Command:
    return Command(("iolab-agent", "process.stop", process))


def _with(environment: Mapping[str, str], argv: tuple[str, ...]) -> tuple[str, ...]:
    words = [f"{name}={value}" for name, value in environment.items()]
    return ("env", *words, *argv) if words else argv
