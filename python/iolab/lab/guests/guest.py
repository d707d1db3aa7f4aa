"""What a guest is, as a value: from this its command line, its parent's part and its cards are made.

Nothing here knows where an image or a hypervisor lies; that is found on the host when the guest starts. What its
parent's agent opens for QEMU has numbers that the command line names.
"""

from typing import Literal

from iolab.experiment.model.machines import Bus, DiskCache
from iolab.frozen import frozen
from iolab.messages.commands import CommandNote, OpenDevice, OpenQueue, OpenQueueIn
from iolab.registry.nics import NicKind

FIRST_FD = 10
"""Number of the first passed file: above standard streams and what QEMU is started with."""


@frozen(kw_only=True)
class TapFile:
    """A queue of a tap; its fields are those of the protocol (contract, process.start)."""

    kind: Literal["tap"] = "tap"
    netns: str | None
    """Network namespace; None: the kernel's own."""
    name: str
    """The interface."""
    vnet_header: bool = True
    """Frames come with what the card may still have to do: checksums, segmentation."""
    multi_queue: bool = False
    """One of several."""


@frozen(kw_only=True)
class MacvtapFile:
    """A queue of a macvtap."""

    kind: Literal["macvtap"] = "macvtap"
    netns: str | None
    """Network namespace; None: the kernel's own."""
    interface: str
    """The interface."""


@frozen(kw_only=True)
class DeviceFile:
    """A device."""

    kind: Literal["device"] = "device"
    path: str
    """Below /dev."""


@frozen
class PassedFile:
    """A file that the agent opens for QEMU."""

    fd: int
    """Its number in QEMU."""
    open: TapFile | MacvtapFile | DeviceFile
    """What to open."""


Engine = Literal["qemu", "xen"]
Accel = Literal["auto", "kvm", "tcg"]


@frozen
class TapBackend:
    """A tap device that the parent's agent opens and passes on; it lives as long as the guest."""

    netns: str | None
    """Network namespace of the parent's kernel that it lives in; None: the kernel's own."""
    interface: str
    """Its name there."""
    vhost: bool = False
    """True: frames are carried by the kernel's vhost thread."""


@frozen
class MacvtapBackend:
    """A macvtap that stands already; the parent's agent opens its node."""

    netns: str | None
    """Network namespace of the parent's kernel that it lives in."""
    interface: str
    """Its name there."""
    vhost: bool = False
    """True: frames are carried by the kernel's vhost thread."""


@frozen
class VhostUserBackend:
    """A switch in user space on the parent, with which the guest shares its memory; it makes a tap, its other end."""

    netns: str | None
    """Network namespace of the parent's kernel that the tap lives in; None: the kernel's own."""
    interface: str
    """The tap's name there."""
    socket: str
    """Name of the socket in the guest's scratch folder."""


@frozen
class FunctionBackend:
    """A virtual function of a card of the parent, given to the guest as it is (SR-IOV, vfio-pci)."""

    interface: str
    """The card's physical function on the parent."""
    index: int
    """Which of its virtual functions, from 0."""


Backend = TapBackend | MacvtapBackend | VhostUserBackend | FunctionBackend


@frozen
class GuestNic:
    """One network card of a guest."""

    name: str
    """The interface's name inside the guest, which is the port's."""
    mac: str
    """Its address, by which the guest finds it."""
    kind: NicKind
    """What the guest sees, and what carries its frames."""
    backend: Backend
    """The parent's end."""
    queues: int = 1
    """Queue pairs."""
    rx_ring: int | None = None
    """Receive ring where only the hypervisor can set it (virtio); None: as it is made [descriptors]."""
    tx_ring: int | None = None
    """Transmit ring, likewise [descriptors]."""


@frozen
class GuestLun:
    """An exported volume that QEMU logs in to."""

    options: tuple[tuple[str, str], ...]
    """The driver and its options, as QEMU writes them."""
    secret: str | None = None
    """The object that has the secret which the options name; None: none is needed."""


@frozen
class GuestDisk:
    """A file or block device of the parent, or what its hypervisor reaches, that the guest sees as a disk."""

    path: str
    """Where it lies on the parent; empty: it is a LUN."""
    serial: str
    """Its serial number, where the bus has such numbers; at most 20 characters."""
    bus: Bus = "virtio-blk"
    """How the guest sees it."""
    in_memory: bool = False
    """True: the file lies in the parent's memory, past which nothing can be written."""
    cache: DiskCache | None = None
    """As written; None: none, and in memory writeback."""
    throttle: tuple[tuple[str, int], ...] = ()
    """What QEMU lets through: its words (bps-total, iops-total), each with the most in a second."""
    lun: GuestLun | None = None
    """What the hypervisor logs in to; None: it opens `path`."""


@frozen(kw_only=True)
class Guest:
    """A virtual machine as it is to be started; a change of anything here is another guest."""

    name: str
    """The machine's name."""
    engine: Engine
    """What runs it."""
    image: str
    """Flavour of the guest image: linux, nested, xen; or what the experiment names."""
    memory_bytes: int
    """Of the guest [bytes]."""
    cpus: int
    """Virtual CPUs."""
    accel: Accel
    """As asked; what was used is found when it starts."""
    nics: tuple[GuestNic, ...]
    """In the order of the links."""
    disks: tuple[GuestDisk, ...] = ()
    """Beside those of its image."""
    netns: str | None = None
    """Network namespace of the parent from which its hypervisor logs in to LUNs; None: the kernel's own."""
    domains_bytes: int = 0
    """Memory kept for the domains of its own hypervisor (Xen) [bytes]."""
    domains_cpus: int = 0
    """CPUs that it has besides, for those domains alone."""
    own_cpus: tuple[int, ...] = ()
    """Of a domain: the CPU of the computer below that each of its virtual CPUs has for itself; empty: none has."""


def passed_files(guest: Guest, first_fd: int = FIRST_FD) -> tuple[PassedFile, ...]:
    """Return what must be open when QEMU starts: for each card its queues, then as many vhost devices."""
    opened = [one for nic in guest.nics for one in opened_for(nic)]
    return tuple(PassedFile(first_fd + number, one) for number, one in enumerate(opened))


def file_note(file: PassedFile) -> CommandNote:
    """Return what a number on QEMU's command line is."""
    match file.open:
        case TapFile(netns=netns, name=name):
            return (
                OpenQueueIn(code="open-tap-in", fd=file.fd, interface=name, netns=netns)
                if netns
                else OpenQueue(code="open-tap", fd=file.fd, interface=name)
            )
        case MacvtapFile(netns=netns, interface=interface):
            return (
                OpenQueueIn(code="open-macvtap-in", fd=file.fd, interface=interface, netns=netns)
                if netns
                else OpenQueue(code="open-macvtap", fd=file.fd, interface=interface)
            )
        case DeviceFile(path=path):
            return OpenDevice(fd=file.fd, path=path)


def opened_for(nic: GuestNic) -> tuple[TapFile | MacvtapFile | DeviceFile, ...]:
    """Return what is opened for a card: its queues, then as many vhost devices."""
    queue: TapFile | MacvtapFile
    match nic.backend:
        case TapBackend(netns, interface, vhost):
            queue = TapFile(netns=netns, name=interface, multi_queue=nic.queues > 1)
        case MacvtapBackend(netns, interface, vhost):
            queue = MacvtapFile(netns=netns, interface=interface)
        case VhostUserBackend() | FunctionBackend():
            return ()
    vhosts = (DeviceFile(path="/dev/vhost-net"),) * nic.queues if vhost else ()
    return (*(queue,) * nic.queues, *vhosts)
