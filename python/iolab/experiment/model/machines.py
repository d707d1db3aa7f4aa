"""When a program that goes on counts as ready."""

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
"""A port of TCP or UDP."""


class Ready(BaseModel):
    """When a server counts as ready: one of the three; none: as soon as it was started."""

    model_config = FROZEN
    listens: Maybe[TcpPort] = None
    """It, or a program that it started, has this port open."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """Of the port."""
    prints: Maybe[Annotated[str, Field(min_length=1, max_length=1000)]] = None
    """It wrote this text."""
    succeeds: tuple[Setting, ...] = ()
    """This command on its machine ends with status 0; it is tried again and again."""


Words = Annotated[tuple[Setting, ...], Field(min_length=1)]
"""A program and its arguments, a word each; no shell reads them."""

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", strict=True)]
"""Of a file: letters, digits, -, _ and ., beginning with a letter or digit."""

PartName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$", strict=True)]
"""Of a change or a service: letters, digits, - and _."""


class Change(BaseModel):
    """A command that sets something, and one that takes it back. {far} is an address, {files} a folder."""

    model_config = FROZEN
    do: Words
    """Sets it: the program and its arguments, a word each; no shell reads them."""
    undo: Words
    """Takes it back; harmless where it was not set."""
    check: tuple[Setting, ...] = ()
    """Ends with status 0 as long as it holds; absent: nobody looks."""


class Service(BaseModel):
    """A program that runs as long as the lab stands. {far} is an address, {files} the machine's folder."""

    model_config = FROZEN
    run: Words
    """The program and its arguments, a word each; no shell reads them. It stays in the foreground."""
    environment: dict[str, Setting] = Field(default_factory=dict)
    """Added to its environment."""
    ready: Ready = unset(Ready)
    """When the lab goes on; absent: as soon as it was started."""
    within: SomeNanoseconds = 30_000_000_000
    """Longest time until it is ready."""


Files = dict[FileName, str]
"""Name to content."""

Changes = dict[PartName, Maybe[Change]]
"""By name; `none` is left out, so that a level can be without."""

Services = dict[PartName, Maybe[Service]]
"""By name; `none` is left out, so that a level can be without."""


Forward = Literal["none", "bridge", "route"]

NetnsForward = Literal["none", "bridge", "route", "xdp"]
"""xdp: one XDP program per port sends every frame out of the other port, without the kernel's stack."""

PackageName = Annotated[str, Field(pattern=f"^{PACKAGE.pattern}$", strict=True)]
"""Of a Debian package: small letters, digits, +, - and .."""

Cpu = Annotated[int, Field(ge=0, strict=True)]
"""Number of a CPU, from 0."""

DESTINATION = re.compile(r"(ssh://)?[A-Za-z0-9_\[][A-Za-z0-9_.:@/+%\[\]-]*")
"""No option of ssh, and nothing that a shell would take otherwise: ssh may use it in commands."""


def destination(value: str) -> str:
    """Return where a host is reached by ssh, as it is.

    Raises:
        UnitError: it is no such place.
    """
    if not DESTINATION.fullmatch(value):
        raise UnitError(value, Phrase("check.ssh-destination"))
    return value


Destination = Annotated[str, AfterValidator(destination)]
"""Where a host is reached by ssh."""


Bus = Literal["virtio-blk", "virtio-scsi", "ide", "nvme", "pvscsi"]
"""How a guest sees a disk."""


DiskCache = Literal["none", "writeback", "writethrough", "directsync", "unsafe"]
"""How a hypervisor keeps what a guest writes (QEMU: cache)."""


FileSystem = Literal["ext4", "xfs", "btrfs"]
"""What a disk can bear."""

MOUNT_OPTIONS = re.compile(r"[a-z0-9_]+(=[A-Za-z0-9_.:+-]+)?(,[a-z0-9_]+(=[A-Za-z0-9_.:+-]+)?)*")
"""Words of mount(8), some with a value, by commas; no places."""


def mount_options(value: str) -> str:
    """Return options of mounting, as they are.

    Raises:
        UnitError: the text has another form.
    """
    if not MOUNT_OPTIONS.fullmatch(value):
        raise UnitError(value, Phrase("check.mount-options"))
    return value


MountOptions = Annotated[str, AfterValidator(mount_options)]
"""Options of mounting a file system."""


class Throttle(BaseModel):
    """The most that QEMU lets through of reads and writes together; absent ones are not limited."""

    model_config = FROZEN
    bytes: Maybe[SomeBytes] = None
    """In a second [bytes]."""
    operations: Maybe[Annotated[Count, Field(ge=1)]] = None
    """Reads and writes in a second."""


class Disk(BaseModel):
    """A volume attached to a machine."""

    model_config = FROZEN
    volume: str
    """Name of the volume."""
    via: Literal["local", "user", "hypervisor", "kernel"] = "local"
    """Who speaks an exported volume's protocol: a user-space program, a guest's parent, or this machine's kernel."""
    bus: Maybe[Bus] = None
    """How a guest sees it; absent: virtio-blk, and in a Xen domain the only one there is. ide: a SATA disk."""
    cache: Maybe[DiskCache] = None
    """What a guest's hypervisor, or the daemon of `via: user`, does with its cache and flushes; absent: none. unsafe:
    flushes are not passed on. With `via: user`: none, writeback or unsafe."""
    throttle: Maybe[Throttle] = None
    """A limit that makes it a disk of known speed; of a guest's, or one with `via: user`."""
    fs: Maybe[FileSystem] = None
    """File system that is made on it and mounted, empty, in every lab; absent: the bare disk."""
    mount: Maybe[MountOptions] = None
    """Options of mounting, as for `mount -o`: noatime,commit=30."""


class Netns(BaseModel):
    """A machine that is a network namespace of its parent."""

    model_config = FROZEN
    kind: Literal["netns"]
    """A network namespace."""
    on: Maybe[str] = None
    """Parent machine; absent: this computer."""
    ports: Literal["veth", "sr-iov"] = "veth"
    """What joins it to a port of its parent: a pair and a bridge, or a virtual function of the parent's card."""
    forward: NetnsForward = "none"
    """What it does with frames between its ports; xdp: with frames of our own, no stream passes it."""
    device: Maybe[Impairments] = None
    """With `forward: xdp`: a reference device of known capacity, loss, delay or stalls."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Kernel settings by sysctl name, e.g. net.ipv4.tcp_rmem."""
    disks: tuple[Disk, ...] = ()
    """Volumes attached to it."""
    files: Files = Field(default_factory=dict)
    """Files by name with their content, in a folder that words call {files}."""
    run: Changes = Field(default_factory=dict)
    """Commands that set something, by name, in this order."""
    services: Services = Field(default_factory=dict)
    """Programs that run as long as the lab stands, by name, started in this order after all else."""
    program_cpus: tuple[Cpu, ...] = ()
    """CPUs on which programs of measures run there (taskset); absent: all of its kernel's."""
    count: Maybe[Count] = Field(default=None, ge=1, le=1000)
    """So many of it, named NAME1, NAME2, ...; NAME[*] in a list stands for each. Absent: one, called NAME."""


class Coalesce(BaseModel):
    """How long a card holds its interrupts back (ethtool -C); absent ones stay as they are."""

    model_config = FROZEN
    rx_usecs: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """After a received frame [us]."""
    rx_frames: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """Until so many were received [frames]."""
    tx_usecs: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """After a sent frame [us]."""
    tx_frames: Maybe[Annotated[int, Field(ge=0, strict=True)]] = None
    """Until so many were sent [frames]."""
    adaptive_rx: Maybe[Switch] = None
    """The driver chooses by what it receives."""
    adaptive_tx: Maybe[Switch] = None
    """The driver chooses by what it sends."""


class Pause(BaseModel):
    """Pause frames of a card (IEEE 802.3x; ethtool -A); absent ones stay as they are."""

    model_config = FROZEN
    autoneg: Maybe[Switch] = None
    """Both ends agree on them."""
    rx: Maybe[Switch] = None
    """It stops sending when it is asked to."""
    tx: Maybe[Switch] = None
    """It asks the other end to stop when it is full."""


class ProcessorTuning(BaseModel):
    """How the processors of a computer run; absent ones stay as they are."""

    model_config = FROZEN
    governor: Maybe[Annotated[str, Field(pattern=r"^[a-z_]{1,16}$")]] = None
    """What chooses the frequency: performance, powersave, schedutil, ...; the kernel's own words."""
    turbo: Maybe[Switch] = None
    """Whether cores may run above their nominal frequency."""


class HostTuning(BaseModel):
    """What a computer does for the traffic of its cards: queues, interrupts, pause frames."""

    model_config = FROZEN
    queues: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """Receive queues of the card."""
    irq_cpus: tuple[Cpu, ...] = ()
    """CPUs that take its interrupts; empty: as the kernel chose."""
    coalesce: Coalesce = unset(Coalesce)
    """How long it holds interrupts back."""
    pause: Pause = unset(Pause)
    """Its pause frames."""


class Host(BaseModel):
    """This computer, or another one reached by ssh."""

    model_config = FROZEN
    kind: Literal["host"]
    """A computer."""
    on: Maybe[None] = None
    """A host has no parent."""
    ssh: Maybe[Destination] = None
    """Where it is reached: user@name, an ssh alias, ssh://user@name:port; absent: this computer."""
    host: HostTuning = unset(HostTuning)
    """What it does for its cards, those with a cable."""
    processors: ProcessorTuning = unset(ProcessorTuning)
    """How its processors run."""
    forward: Forward = "none"
    """What it does with frames between its ports."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Kernel settings by sysctl name, e.g. net.ipv4.tcp_rmem."""
    disks: tuple[Disk, ...] = ()
    """Volumes attached to it."""
    files: Files = Field(default_factory=dict)
    """Files by name with their content, in a folder that words call {files}."""
    run: Changes = Field(default_factory=dict)
    """Commands that set something, by name, in this order."""
    services: Services = Field(default_factory=dict)
    """Programs that run as long as the lab stands, by name, started in this order after all else."""


class Ring(BaseModel):
    """Descriptor ring sizes."""

    model_config = FROZEN
    rx: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """Received frames [descriptors]."""
    tx: Maybe[Annotated[int, Field(ge=1, strict=True)]] = None
    """Frames to send [descriptors]."""


class Vm(BaseModel):
    """A virtual machine."""

    model_config = FROZEN
    kind: Literal["vm"]
    """A virtual machine."""
    on: Maybe[str] = None
    """Parent machine; absent: this computer."""
    engine: Literal["qemu", "xen"] = "qemu"
    """What runs it."""
    image: Maybe[str] = None
    """Guest image; absent: the small Linux that iolab builds."""
    install: tuple[PackageName, ...] = ()
    """Debian packages that its image has beyond those of every guest; a guest on a guest has those of its parent."""
    memory: Memory = 512 << 20
    """Of the guest."""
    cpus: Count = Field(default=1, ge=1, le=1024)
    """Virtual CPUs."""
    pin: Literal["auto", "none"] | Annotated[tuple[Cpu, ...], Field(min_length=1)] = "none"
    """CPUs of the parent that its virtual CPUs run on."""
    pin_io: tuple[Cpu, ...] = ()
    """CPUs of the parent for what carries its frames: vhost, a switch, QEMU itself; empty: as `pin` leaves them."""
    accel: Literal["auto", "kvm", "tcg"] = "auto"
    """Hardware virtualisation or emulation; auto: kvm where there is one."""
    nic: NicKind = "virtio-net"
    """Network card the guest sees, and what carries its frames."""
    queues: Count = Field(default=1, ge=1)
    """Queue pairs of the network card."""
    ring: Ring = unset(Ring)
    """Descriptor rings of the network card."""
    host: HostTuning = unset(HostTuning)
    """What the parent does for it: for the card that its frames pass."""
    forward: Forward = "none"
    """What it does with frames between its ports."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Kernel settings by sysctl name, e.g. net.ipv4.tcp_rmem."""
    disks: tuple[Disk, ...] = ()
    """Volumes attached to it."""
    files: Files = Field(default_factory=dict)
    """Files by name with their content, in a folder that words call {files}."""
    run: Changes = Field(default_factory=dict)
    """Commands that set something, by name, in this order."""
    services: Services = Field(default_factory=dict)
    """Programs that run as long as the lab stands, by name, started in this order after all else."""
    count: Maybe[Count] = Field(default=None, ge=1, le=1000)
    """So many of it, named NAME1, NAME2, ...; NAME[*] in a list stands for each. Absent: one, called NAME."""


Machine = Annotated[Host | Netns | Vm, Field(discriminator="kind")]
