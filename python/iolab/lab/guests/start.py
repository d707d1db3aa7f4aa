"""How a guest is started on its parent: every command with its undo, from what was found there. Pure.

Its cards may be carried by a switch in user space, through shared memory: DPDK's testpmd, a process for each card. It
passes every frame between the card (vhost-user) and a tap, which it makes, and changes none.
"""

from collections.abc import Mapping
from dataclasses import field

from iolab.frozen import frozen
from iolab.lab.actions import Command, TypedCommand
from iolab.lab.guests.guest import FunctionBackend, Guest, GuestNic, VhostUserBackend, file_note, passed_files
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.guests.xen import CREATE, dom0_commands, domain_commands, xl_config
from iolab.messages.commands import RunsAsOwnUser

KVM = "/dev/kvm"


@frozen(kw_only=True)
class OwnUser:
    """The user of a program; its fields are those of the protocol (contract, process.start)."""

    reads: tuple[str, ...]
    """Files, folders and devices that it sees, whatever closed folder they are in."""
    writes: tuple[str, ...]
    """Likewise, and they are its own."""


PROGRAM = "dpdk-testpmd"
RUNTIME = "RUNTIME_DIRECTORY"
"""The variable that says where it keeps its own files: they go with the guest."""
FOREVER_S = 86_400
"""A period of statistics keeps it from reading its input, at whose end it would stop [s]."""
MOST_MTU_BYTES = 1_500
"""net_tap of DPDK 22.11 allows frames of 1522 bytes: --max-pkt-len beyond it ends testpmd, and no other option helps
[bytes]."""
BUFFERS, BUFFERS_PER_QUEUE = 2_048, 1_024
"""How many frames it has room for; a tap keeps up to 256 of each queue, the rings as many as they have descriptors."""
BUFFERS_PER_MIB = 400
"""Of 2 KiB each, with what the program keeps beside a frame [/MiB]."""
OWN_MIB = 32
"""What it takes beside its buffers [MiB]."""
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


def own_user_of(guest: Guest, place: Place) -> OwnUser | None:
    """Return with what a guest's QEMU runs as a user of its own; None: a card that is passed through needs root."""
    backends = [nic.backend for nic in guest.nics]
    if any(isinstance(backend, FunctionBackend) for backend in backends):
        return None
    boot = place.boot
    image = (boot.kernel, boot.initrd, boot.root, boot.modules, *([boot.xen] if boot.xen else []))
    sockets = [f"{place.folder}/{one.socket}" for one in backends if isinstance(one, VhostUserBackend)]
    disks = [disk.path for disk in guest.disks if disk.path]
    nodes = [KVM] if place.accel == "kvm" else []
    return OwnUser(reads=(*image, *place.program_files), writes=(place.folder, *sockets, *disks, *nodes))


def switched(guest: Guest) -> tuple[tuple[GuestNic, VhostUserBackend], ...]:
    """Return the cards of a guest that switches carry."""
    return tuple((nic, nic.backend) for nic in guest.nics if isinstance(nic.backend, VhostUserBackend))


def switch_id(guest: str, nic: str) -> str:
    """Return the id under which a card's switch is supervised."""
    return f"switch:{guest}.{nic}"


def switch_argv(nic: GuestNic, backend: VhostUserBackend, folder: str, cpus: str) -> tuple[str, ...]:
    """Return the command that starts a card's switch; its socket is in the guest's scratch `folder`.

    It has two threads that matter, of which one looks for frames all the time: both may run on `cpus` until they are
    pinned. The switch is the server of the socket, so it is started before the guest and takes one that comes again.
    """
    buffers = BUFFERS + BUFFERS_PER_QUEUE * nic.queues
    memory_mib = OWN_MIB + buffers // BUFFERS_PER_MIB
    return (
        *(PROGRAM, "--no-huge", "-m", str(memory_mib), "--no-pci", "--no-telemetry"),
        *("--no-shconf", f"--file-prefix={nic.name}", f"--lcores=(0-1)@({cpus})"),
        f"--vdev=net_vhost0,iface={folder}/{backend.socket},queues={nic.queues}",
        f"--vdev=net_tap0,iface={backend.interface}",
        *("--", "--no-mlockall", f"--total-num-mbufs={buffers}"),
        *(f"--rxq={nic.queues}", f"--txq={nic.queues}", "--forward-mode=io", "--auto-start"),
        f"--stats-period={FOREVER_S}",
    )
