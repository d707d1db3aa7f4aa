"""Commands that start a guest on its parent, each with its undo, from values found on the parent. Pure.

A user-space switch can carry the frames of a NIC through shared memory: DPDK's testpmd, one process per NIC. The switch
creates a tap and forwards every frame unchanged between the NIC (vhost-user) and the tap.
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
    """The dedicated user of a program; the fields are those of the protocol (contract, process.start)."""

    reads: tuple[str, ...]
    """Files, folders and devices that the user may read, even inside inaccessible folders."""
    writes: tuple[str, ...]
    """Files, folders and devices that the user owns and may write."""


PROGRAM = "dpdk-testpmd"
RUNTIME = "RUNTIME_DIRECTORY"
"""Environment variable with the folder for the switch's files, which is removed with the guest."""
FOREVER_S = 86_400
"""Statistics period that keeps the switch from reading its standard input [s]; at the end of the input, the switch
would stop."""
MOST_MTU_BYTES = 1_500
"""net_tap of DPDK 22.11 supports frames up to 1522 bytes: a larger --max-pkt-len stops testpmd, and no option
changes the limit [bytes]."""
BUFFERS, BUFFERS_PER_QUEUE = 2_048, 1_024
"""Number of frame buffers: a tap keeps up to 256 per queue, the rings as many as they have descriptors."""
BUFFERS_PER_MIB = 400
"""Buffers of 2 KiB with their overhead per MiB [/MiB]."""
OWN_MIB = 32
"""Memory of the switch in addition to its buffers [MiB]."""
PARENT_COMMAND = ("modprobe", "-a", "-q", "tun", "vhost_net", "macvtap", "bridge", "kvm_amd", "kvm_intel")
"""Command that loads the modules that a parent of guests needs, because no hardware event loads them; of the two KVM
modules (Intel and AMD), only one fits the CPU."""


@frozen
class SwitchStart:
    """The start parameters of a NIC's switch."""

    card: str
    """Name of the NIC."""
    netns: str | None
    """Network namespace of the switch."""
    argv: tuple[str, ...]
    """Command of the switch."""
    environment: Mapping[str, str]
    """Additional environment variables."""


@frozen(kw_only=True)
class GuestStart:
    """The start parameters of a guest."""

    argv: tuple[str, ...]
    """Command of the hypervisor or of its toolstack."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""
    folder: str
    """Scratch folder of the guest."""
    configuration: str = ""
    """For a domain: content of the configuration file in the command."""
    nested: bool = False
    """Whether the parent is itself a guest of the lab."""
    switches: tuple[SwitchStart, ...] = ()
    """Switches to which the NICs are connected, in NIC order."""
    unprivileged: bool = False
    """Whether the hypervisor runs as a dedicated unprivileged user."""


def planned_start(guest: Guest, *, nested: bool) -> GuestStart:
    """Return the start parameters for a plan: words in capitals stand for values that are determined on the host."""
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
    """Return the commands that start a guest: for its folder, its switches or domain scripts, and its hypervisor."""
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
    """Return the process ID under which the agent supervises a guest's hypervisor."""
    return f"guest:{guest}"


def _stop(process: str) -> Command:
    return Command(("iolab-agent", "process.stop", process))


def _with(environment: Mapping[str, str], argv: tuple[str, ...]) -> tuple[str, ...]:
    words = [f"{name}={value}" for name, value in environment.items()]
    return ("env", *words, *argv) if words else argv


def own_user_of(guest: Guest, place: Place) -> OwnUser | None:
    """Return the dedicated user of a guest's QEMU; None: a passed-through NIC requires root."""
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
    """Return the NICs of a guest whose frames a switch carries."""
    return tuple((nic, nic.backend) for nic in guest.nics if isinstance(nic.backend, VhostUserBackend))


def switch_id(guest: str, nic: str) -> str:
    """Return the process ID under which the agent supervises a NIC's switch."""
    return f"switch:{guest}.{nic}"


def switch_argv(nic: GuestNic, backend: VhostUserBackend, folder: str, cpus: str) -> tuple[str, ...]:
    """Return the command that starts a NIC's switch; its socket is in the guest's scratch `folder`.

    The switch has two relevant threads, one of which busy-polls; both may run on `cpus` until they are pinned. The
    switch is the server of the socket, so it is started before the guest and accepts reconnections.
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
