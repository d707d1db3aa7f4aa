"""Machines: hosts, network namespaces and virtual machines, which form a tree."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.quantities import FROZEN, Bytes

Forward = Literal["none", "bridge", "route"]


class Disk(BaseModel):
    """A volume attached to a machine."""

    model_config = FROZEN
    volume: str
    via: Literal["local", "user", "hypervisor", "kernel"] = "local"
    bus: Literal["virtio-blk", "virtio-scsi", "ide", "nvme", "pvscsi"] | None = None


class Netns(BaseModel):
    """A machine that is a network namespace of its parent."""

    model_config = FROZEN
    kind: Literal["netns"]
    on: str | None = None
    forward: Forward = "none"
    settings: dict[str, str] = Field(default_factory=dict)
    """Kernel settings by sysctl name, e.g. net.ipv4.tcp_rmem."""
    disks: tuple[Disk, ...] = ()


class Host(BaseModel):
    """This computer, or another one reached by ssh."""

    model_config = FROZEN
    kind: Literal["host"]
    on: None = None
    ssh: str | None = None
    forward: Forward = "none"
    settings: dict[str, str] = Field(default_factory=dict)
    disks: tuple[Disk, ...] = ()


class Ring(BaseModel):
    """Descriptor ring sizes."""

    model_config = FROZEN
    rx: int | None = Field(default=None, ge=1)
    tx: int | None = Field(default=None, ge=1)


class HostTuning(BaseModel):
    """What the parent does for a guest's traffic: receive queues and the CPUs that take interrupts."""

    model_config = FROZEN
    queues: int | None = Field(default=None, ge=1)
    irq_cpus: tuple[int, ...] = ()


NicKind = Literal[
    "e1000", "e1000e", "rtl8139", "vmxnet3", "virtio-net", "vhost-net", "vhost-user", "macvtap", "macvtap+vhost", "sr-iov"
]


class Vm(BaseModel):
    """A virtual machine."""

    model_config = FROZEN
    kind: Literal["vm"]
    on: str | None = None
    engine: Literal["qemu", "xen"] = "qemu"
    image: str | None = None
    memory: Bytes = 512 * 1024 * 1024
    cpus: int = Field(default=1, ge=1)
    pin: Literal["auto", "none"] | tuple[int, ...] = "none"
    accel: Literal["auto", "kvm", "tcg"] = "auto"
    nic: NicKind = "virtio-net"
    queues: int = Field(default=1, ge=1)
    ring: Ring = Ring()
    host: HostTuning = HostTuning()
    forward: Forward = "none"
    settings: dict[str, str] = Field(default_factory=dict)
    disks: tuple[Disk, ...] = ()


Machine = Annotated[Host | Netns | Vm, Field(discriminator="kind")]
