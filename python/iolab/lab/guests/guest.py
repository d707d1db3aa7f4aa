"""The parameters of a guest, from which its command line, its NICs and the parent's resources are derived.

The locations of images and hypervisors are not included; they are determined on the host when the guest starts. The
command line refers by number to the files that the parent's agent opens for QEMU.
"""

from typing import Literal

from iolab.experiment.model.machines import Bus, DiskCache
from iolab.frozen import frozen
from iolab.messages.commands import CommandNote, OpenDevice, OpenQueue, OpenQueueIn
from iolab.registry.nics import NicKind

FIRST_FD = 10
"""Number of the first passed file descriptor, above the standard streams and the other descriptors of QEMU."""


@frozen(kw_only=True)
class TapFile:
    """A queue of a tap; the fields are those of the protocol (contract, process.start)."""

    kind: Literal["tap"] = "tap"
    netns: str | None
    """Network namespace; None: the kernel's initial namespace."""
    name: str
    """Name of the interface."""
    vnet_header: bool = True
    """Whether frames have a header with pending offloads: checksums, segmentation."""
    multi_queue: bool = False
    """Whether the tap has several queues."""


@frozen(kw_only=True)
class MacvtapFile:
    """A queue of a macvtap."""

    kind: Literal["macvtap"] = "macvtap"
    netns: str | None
    """Network namespace; None: the kernel's initial namespace."""
    interface: str
    """Name of the interface."""


@frozen(kw_only=True)
class DeviceFile:
    """A device file."""

    kind: Literal["device"] = "device"
    path: str
    """Path below /dev."""


@frozen(kw_only=True)
class RecordedFile:
    """An existing block device, as a record describes it."""

    kind: Literal["existing"] = "existing"
    record: str
    """Path of the record."""
    writes: bool
    """Whether QEMU may write to the device."""


@frozen
class PassedFile:
    """A file that the agent opens for QEMU."""

    fd: int
    """File descriptor in QEMU."""
    open: TapFile | MacvtapFile | DeviceFile | RecordedFile
    """The file to open."""


Engine = Literal["qemu", "xen"]
Accel = Literal["auto", "kvm", "tcg"]


@frozen
class TapBackend:
    """A tap device that the parent's agent opens and passes to QEMU; it exists as long as the guest."""

    netns: str | None
    """Network namespace on the parent's kernel; None: the kernel's initial namespace."""
    interface: str
    """Name of the interface."""
    vhost: bool = False
    """Whether the kernel's vhost thread carries the frames."""


@frozen
class MacvtapBackend:
    """An existing macvtap whose device node the parent's agent opens."""

    netns: str | None
    """Network namespace on the parent's kernel."""
    interface: str
    """Name of the interface."""
    vhost: bool = False
    """Whether the kernel's vhost thread carries the frames."""


@frozen
class VhostUserBackend:
    """A user-space switch on the parent that shares memory with the guest and creates a tap as its other end."""

    netns: str | None
    """Network namespace of the tap on the parent's kernel; None: the kernel's initial namespace."""
    interface: str
    """Name of the tap."""
    socket: str
    """Name of the socket in the guest's scratch folder."""


@frozen
class FunctionBackend:
    """A virtual function of a parent's NIC that is passed through to the guest (SR-IOV, vfio-pci)."""

    interface: str
    """Physical function of the NIC on the parent."""
    index: int
    """Index of the virtual function, from 0."""


Backend = TapBackend | MacvtapBackend | VhostUserBackend | FunctionBackend


@frozen
class GuestNic:
    """A NIC of a guest."""

    name: str
    """Name of the interface in the guest, which is that of the port."""
    mac: str
    """MAC address, by which the guest identifies the NIC."""
    kind: NicKind
    """NIC model in the guest, and its backend type."""
    backend: Backend
    """The parent's end of the NIC."""
    queues: int = 1
    """Number of queue pairs."""
    rx_ring: int | None = None
    """Receive ring size, if only the hypervisor can set it (virtio); None: the default [descriptors]."""
    tx_ring: int | None = None
    """Transmit ring size, if only the hypervisor can set it (virtio); None: the default [descriptors]."""


@frozen
class GuestLun:
    """An exported volume that QEMU logs in to."""

    options: tuple[tuple[str, str], ...]
    """Driver and options in QEMU's syntax."""
    secret: str | None = None
    """QEMU object with the secret that the options name; None: no secret is needed."""


@frozen
class GuestDisk:
    """A disk of a guest: a file or block device of the parent, or a LUN that its hypervisor reaches."""

    path: str
    """Path on the parent; empty: the disk is a LUN."""
    serial: str
    """Serial number, if the bus has serial numbers; at most 20 characters."""
    bus: Bus = "virtio-blk"
    """Bus type in the guest."""
    in_memory: bool = False
    """Whether the file is in the parent's memory, where direct I/O is impossible."""
    cache: DiskCache | None = None
    """Cache mode as configured; None: the mode `none`, or `writeback` for a file in memory."""
    throttle: tuple[tuple[str, int], ...] = ()
    """QEMU's throttle keys (bps-total, iops-total) with their limits per second."""
    lun: GuestLun | None = None
    """LUN that the hypervisor logs in to; None: the hypervisor opens `path`."""
    record: str | None = None
    """Record of an existing device, which the parent's agent opens for QEMU; None: QEMU opens `path`."""
    writes: bool = True
    """Whether the guest may write to the existing device."""
    read_only: bool = False
    """Whether the guest may only read the disk."""


@frozen(kw_only=True)
class Guest:
    """The start parameters of a virtual machine; guests with a difference in any field are different guests."""

    name: str
    """Name of the machine."""
    engine: Engine
    """Hypervisor."""
    image: str
    """Flavour of the guest image: linux, nested, xen, or a name in the experiment."""
    memory_bytes: int
    """Memory of the guest [bytes]."""
    cpus: int
    """Number of virtual CPUs."""
    accel: Accel
    """Requested accelerator; the actual one is determined at the start."""
    nics: tuple[GuestNic, ...]
    """NICs, in the order of the links."""
    disks: tuple[GuestDisk, ...] = ()
    """Disks in addition to those of the image."""
    netns: str | None = None
    """Network namespace on the parent from which the hypervisor logs in to LUNs; None: the kernel's initial
    namespace."""
    domains_bytes: int = 0
    """Memory reserved for the Xen domains of this guest's hypervisor [bytes]."""
    domains_cpus: int = 0
    """Additional CPUs that are reserved for these domains."""
    own_cpus: tuple[int, ...] = ()
    """For a domain: the dedicated CPU on the parent for each virtual CPU; empty: no CPU is dedicated."""


def passed_files(guest: Guest, first_fd: int = FIRST_FD) -> tuple[PassedFile, ...]:
    """Return the files that are open when QEMU starts: for each NIC its queues, then as many vhost devices; then the
    existing disks."""
    opened: list[TapFile | MacvtapFile | DeviceFile | RecordedFile] = [
        one for nic in guest.nics for one in opened_for(nic)
    ]
    # QEMU opens a device for reading before it opens it for writing, and chooses a descriptor with the access mode.
    opened += [
        RecordedFile(record=disk.record, writes=writes)
        for disk in guest.disks
        if disk.record is not None
        for writes in ((False, True) if disk.writes else (False,))
    ]
    return tuple(PassedFile(first_fd + number, one) for number, one in enumerate(opened))


def file_note(file: PassedFile) -> CommandNote:
    """Return the explanation of a file descriptor on QEMU's command line."""
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
        case RecordedFile(record=record):
            return OpenDevice(fd=file.fd, path=record)


def opened_for(nic: GuestNic) -> tuple[TapFile | MacvtapFile | DeviceFile, ...]:
    """Return the files for a NIC: its queues, then as many vhost devices."""
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
