"""Models of machines: hosts, namespaces and VMs, with their disks, NIC settings, commands and services."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.quantities import (
    FROZEN,
    Count,
    Maybe,
    Memory,
    Setting,
    SomeBytes,
    SomeNanoseconds,
    Switch,
    unset,
)
from iolab.locale import Phrase
from iolab.registry.images import PACKAGE
from iolab.registry.nics import NicKind
from iolab.units import UnitError

TcpPort = Annotated[int, Field(ge=1, le=65_535, strict=True)]
"""A TCP or UDP port."""


class Ready(BaseModel):
    """Readiness condition of a server, with at most one key; default: the server is ready once started."""

    model_config = FROZEN
    listens: Maybe[TcpPort] = None
    """The server, or one of its child processes, listens on this port."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """Protocol of the port."""
    prints: Maybe[Annotated[str, Field(min_length=1, max_length=1000)]] = None
    """The server has printed this text."""
    succeeds: tuple[Setting, ...] = ()
    """Command on the server's machine that exits with status 0 once the server is ready; iolab repeats the command
    until then."""


Words = Annotated[tuple[Setting, ...], Field(min_length=1)]
"""A program and its arguments, as separate words; no shell interprets them."""

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", strict=True)]
"""A file name: letters, digits, -, _ and ., starting with a letter or digit."""

PartName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$", strict=True)]
"""Name of a change or a service: letters, digits, - and _."""


class Change(BaseModel):
    """A command that changes a setting, and a command that reverts the change.

    {far} stands for the address of the machine `far`, {files} for the folder of the machine's files.
    """

    model_config = FROZEN
    do: Words
    """Command that makes the change: the program and its arguments, as separate words; no shell interprets them."""
    undo: Words
    """Command that reverts the change; it must be harmless if the change was not made."""
    check: tuple[Setting, ...] = ()
    """Command that exits with status 0 while the change is in effect; default: no check."""


class Service(BaseModel):
    """A program that runs during the lifetime of the lab.

    {far} stands for the address of the machine `far`, {files} for the folder of the machine's files.
    """

    model_config = FROZEN
    run: Words
    """The program and its arguments, as separate words; no shell interprets them. The program must stay in the
    foreground."""
    environment: dict[str, Setting] = Field(default_factory=dict)
    """Additional environment variables."""
    ready: Ready = unset(Ready)
    """Readiness condition: the lab continues when the service is ready; default: ready once started."""
    within: SomeNanoseconds = 30_000_000_000
    """Maximum time until the service is ready."""


Files = dict[FileName, str]
"""File name to content."""

Changes = dict[PartName, Maybe[Change]]
"""Changes by name; the value `none` omits a change, so a level can remove it."""

Services = dict[PartName, Maybe[Service]]
"""Services by name; the value `none` omits a service, so a level can remove it."""


Forward = Literal["none", "bridge", "route"]

NetnsForward = Literal["none", "bridge", "route", "xdp"]
"""Forwarding modes of a namespace. xdp: an XDP program on each port sends every frame out of the other port, bypassing
the kernel stack."""

PackageName = Annotated[str, Field(pattern=f"^{PACKAGE.pattern}$", strict=True)]
"""Name of a Debian package: lower-case letters, digits, +, - and .."""

Cpu = Annotated[int, Field(ge=0, strict=True)]
"""CPU number, from 0."""

DESTINATION = re.compile(r"(ssh://)?[A-Za-z0-9_\[][A-Za-z0-9_.:@/+%\[\]-]*")
"""Pattern of an ssh destination: no option of ssh, and no character that a shell interprets, because ssh may pass it to
commands."""


def destination(value: str) -> str:
    """Return an ssh destination unchanged if it is valid.

    Raises:
        UnitError: the text is not a valid ssh destination.
    """
    if not DESTINATION.fullmatch(value):
        raise UnitError(value, Phrase("check.ssh-destination"))
    return value


Destination = Annotated[str, AfterValidator(destination)]
"""An ssh destination."""


Bus = Literal["virtio-blk", "virtio-scsi", "ide", "nvme", "pvscsi"]
"""Bus type of a disk in a guest."""


DiskCache = Literal["none", "writeback", "writethrough", "directsync", "unsafe"]
"""Cache mode of a hypervisor for a guest's disk (QEMU: cache)."""


FileSystem = Literal["ext4", "xfs", "btrfs"]
"""File systems that iolab can create on a disk."""

MOUNT_OPTIONS = re.compile(r"[a-z0-9_]+(=[A-Za-z0-9_.:+-]+)?(,[a-z0-9_]+(=[A-Za-z0-9_.:+-]+)?)*")
"""Pattern of mount(8) options, some with a value, separated by commas; no paths."""


def mount_options(value: str) -> str:
    """Return mount options unchanged if they are valid.

    Raises:
        UnitError: the text does not match the pattern.
    """
    if not MOUNT_OPTIONS.fullmatch(value):
        raise UnitError(value, Phrase("check.mount-options"))
    return value


MountOptions = Annotated[str, AfterValidator(mount_options)]
"""Mount options of a file system."""


class Throttle(BaseModel):
    """QEMU's I/O limits for reads and writes together. Default: no limit."""

    model_config = FROZEN
    bytes: Maybe[SomeBytes] = None
    """Maximum bytes per second."""
    operations: Maybe[Annotated[Count, Field(ge=1)]] = None
    """Maximum reads and writes per second."""


class Disk(BaseModel):
    """A volume attached to a machine."""

    model_config = FROZEN
    volume: str
    """Name of the volume."""
    via: Literal["local", "user", "hypervisor", "kernel"] = "local"
    """The client of an exported volume: a user-space program, the hypervisor on a guest's parent, or this machine's
    kernel."""
    bus: Maybe[Bus] = None
    """Bus type in a guest; default: virtio-blk; a Xen domain has only one bus type. ide: a SATA disk."""
    cache: Maybe[DiskCache] = None
    """Cache mode of the guest's hypervisor, or of the daemon of `via: user`; default: none. unsafe: flushes are
    ignored. Only none, writeback and unsafe are valid with `via: user`."""
    throttle: Maybe[Throttle] = None
    """I/O limits, for a disk of known speed; for guests' disks and disks with `via: user`."""
    fs: Maybe[FileSystem] = None
    """File system that each lab creates on the disk and mounts empty; default: the raw disk."""
    mount: Maybe[MountOptions] = None
    """Mount options, as for `mount -o`: noatime,commit=30."""


class Netns(BaseModel):
    """A machine that is a network namespace of its parent."""

    model_config = FROZEN
    kind: Literal["netns"]
    """A network namespace."""
    on: Maybe[str] = None
    """Parent machine; default: the local host."""
    ports: Literal["veth", "sr-iov"] = "veth"
    """Connection to the parent's port: a veth pair and a bridge, or a virtual function of the parent's NIC."""
    forward: NetnsForward = "none"
    """Forwarding between the ports; xdp: only frames of iolab's generator are forwarded, not streams."""
    device: Maybe[Impairments] = None
    """With `forward: xdp`: a reference device of known capacity, loss, delay or stalls."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Kernel settings by sysctl name, for example net.ipv4.tcp_rmem."""
    disks: tuple[Disk, ...] = ()
    """Volumes attached to the machine."""
    files: Files = Field(default_factory=dict)
    """Files by name, with their content; {files} stands for their folder."""
    run: Changes = Field(default_factory=dict)
    """Commands that change settings, by name, run in this order."""
    services: Services = Field(default_factory=dict)
    """Programs that run during the lifetime of the lab, by name, started last, in this order."""
    program_cpus: tuple[Cpu, ...] = ()
    """CPUs on which the measures' programs run on this machine (taskset); default: all CPUs of its kernel."""
    count: Maybe[Count] = Field(default=None, ge=1, le=1000)
    """Number of instances, named NAME1, NAME2, ...; NAME[*] in a list expands to all of them; default: one machine,
    called NAME."""


class Coalesce(BaseModel):
    """Interrupt coalescing of a NIC (ethtool -C). Default: unchanged."""

    model_config = FROZEN
    rx_usecs: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """Maximum delay after a received frame [us]."""
    rx_frames: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """Maximum number of received frames before an interrupt [frames]."""
    tx_usecs: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """Maximum delay after a sent frame [us]."""
    tx_frames: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """Maximum number of sent frames before an interrupt [frames]."""
    adaptive_rx: Maybe[Switch] = None
    """Whether the driver adapts the receive coalescing to the traffic."""
    adaptive_tx: Maybe[Switch] = None
    """Whether the driver adapts the transmit coalescing to the traffic."""


class Pause(BaseModel):
    """Pause frames of a NIC (IEEE 802.3x; ethtool -A). Default: unchanged."""

    model_config = FROZEN
    autoneg: Maybe[Switch] = None
    """Whether pause frames are negotiated with the link partner."""
    rx: Maybe[Switch] = None
    """Whether the NIC stops sending when it receives pause frames."""
    tx: Maybe[Switch] = None
    """Whether the NIC sends pause frames when its receive buffer is full."""


class ProcessorTuning(BaseModel):
    """Processor settings of a host. Default: unchanged."""

    model_config = FROZEN
    governor: Maybe[Annotated[str, Field(pattern=r"^[a-z_]{1,16}$")]] = None
    """CPU frequency governor, by its kernel name: performance, powersave, schedutil, ..."""
    turbo: Maybe[Switch] = None
    """Whether cores may run above their nominal frequency."""


class HostTuning(BaseModel):
    """NIC settings of a host: queues, interrupts, coalescing, pause frames."""

    model_config = FROZEN
    queues: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """Number of receive queues of the NIC."""
    irq_cpus: tuple[Cpu, ...] = ()
    """CPUs that handle the NIC's interrupts; empty: the kernel's setting."""
    coalesce: Coalesce = unset(Coalesce)
    """Interrupt coalescing."""
    pause: Pause = unset(Pause)
    """Pause frames."""


class Host(BaseModel):
    """The local host, or a remote host reached through ssh."""

    model_config = FROZEN
    kind: Literal["host"]
    """A host."""
    on: Maybe[None] = None
    """A host has no parent."""
    ssh: Maybe[Destination] = None
    """ssh destination: user@name, an ssh alias, ssh://user@name:port; default: the local host."""
    host: HostTuning = unset(HostTuning)
    """Settings of the NICs that have a cable."""
    processors: ProcessorTuning = unset(ProcessorTuning)
    """Processor settings."""
    forward: Forward = "none"
    """Forwarding between the ports."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Kernel settings by sysctl name, for example net.ipv4.tcp_rmem."""
    disks: tuple[Disk, ...] = ()
    """Volumes attached to the machine."""
    files: Files = Field(default_factory=dict)
    """Files by name, with their content; {files} stands for their folder."""
    run: Changes = Field(default_factory=dict)
    """Commands that change settings, by name, run in this order."""
    services: Services = Field(default_factory=dict)
    """Programs that run during the lifetime of the lab, by name, started last, in this order."""


class Ring(BaseModel):
    """Sizes of the descriptor rings."""

    model_config = FROZEN
    rx: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """Receive ring [descriptors]."""
    tx: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """Transmit ring [descriptors]."""


class Vm(BaseModel):
    """A virtual machine."""

    model_config = FROZEN
    kind: Literal["vm"]
    """A virtual machine."""
    on: Maybe[str] = None
    """Parent machine; default: the local host."""
    engine: Literal["qemu", "xen"] = "qemu"
    """Hypervisor."""
    image: Maybe[str] = None
    """Guest image; default: the small Linux image that iolab builds."""
    install: tuple[PackageName, ...] = ()
    """Additional Debian packages in the guest image; a nested guest has the packages of its parent."""
    memory: Memory = 512 << 20
    """Memory of the guest."""
    cpus: Count = Field(default=1, ge=1, le=1024)
    """Number of virtual CPUs."""
    pin: Literal["auto", "none"] | Annotated[tuple[Cpu, ...], Field(min_length=1)] = "none"
    """CPUs of the parent on which the virtual CPUs run."""
    pin_io: tuple[Cpu, ...] = ()
    """CPUs of the parent for the threads that carry the guest's frames: vhost, a switch, QEMU; empty: the CPUs of
    `pin`."""
    accel: Literal["auto", "kvm", "tcg"] = "auto"
    """Hardware virtualisation or emulation; auto: kvm if available."""
    nic: NicKind = "virtio-net"
    """NIC model in the guest, and its backend."""
    queues: Count = Field(default=1, ge=1)
    """Number of queue pairs of the NIC."""
    ring: Ring = unset(Ring)
    """Descriptor rings of the NIC."""
    host: HostTuning = unset(HostTuning)
    """Settings on the parent for the NIC that carries the guest's frames."""
    forward: Forward = "none"
    """Forwarding between the ports."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Kernel settings by sysctl name, for example net.ipv4.tcp_rmem."""
    disks: tuple[Disk, ...] = ()
    """Volumes attached to the machine."""
    files: Files = Field(default_factory=dict)
    """Files by name, with their content; {files} stands for their folder."""
    run: Changes = Field(default_factory=dict)
    """Commands that change settings, by name, run in this order."""
    services: Services = Field(default_factory=dict)
    """Programs that run during the lifetime of the lab, by name, started last, in this order."""
    count: Maybe[Count] = Field(default=None, ge=1, le=1000)
    """Number of instances, named NAME1, NAME2, ...; NAME[*] in a list expands to all of them; default: one machine,
    called NAME."""


Machine = Annotated[Host | Netns | Vm, Field(discriminator="kind")]
