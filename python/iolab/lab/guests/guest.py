"""What a guest is, as a value: from this its command line, its parent's part and its cards are made.

Nothing here knows where an image or a hypervisor lies; that is found on the host when the guest starts.
"""

from typing import Literal

from iolab.experiment.model.machines import Bus, DiskCache
from iolab.frozen import frozen
from iolab.registry.nics import NicKind

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
