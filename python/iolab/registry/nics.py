"""NICs of guests: a row per kind with the NIC model and the backend of its frames.

A new emulated NIC needs only a row in this table. A new kind of backend is implemented in `lab/guests`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from iolab.frozen import frozen

NicKind = Literal[
    "e1000",
    "e1000e",
    "igb",
    "rtl8139",
    "vmxnet3",
    "virtio-net",
    "vhost-net",
    "vhost-user",
    "macvtap",
    "macvtap+vhost",
    "sr-iov",
]
VIRTIO_DRIVER = "virtio_net"
VIRTIO_DEVICE = "virtio-net-pci"


@frozen(kw_only=True)
class Nic:
    """One kind of NIC."""

    driver: str
    """Linux driver of the NIC, which is also its module."""
    device: str | None
    """QEMU device; None: no emulation, a device of the parent is passed through."""
    card: str
    """NIC model in the guest; several kinds have the same model."""
    vhost: bool = False
    """Whether the parent's kernel (vhost) carries the frames."""
    newer_qemu: bool = False
    """Whether the QEMU of Debian 12 is too old for this NIC."""
    fixed_rings: bool = False
    """Whether the driver has a fixed ring size."""
    settle_ns: int = 0
    """Time for which the NIC delays frames after it was opened or its receive filter changed [ns]."""

    @property
    def is_virtio(self) -> bool:
        """Whether the NIC model is virtio, so the hypervisor sets the NIC's queues and rings."""
        return self.driver == VIRTIO_DRIVER

    @property
    def feature(self) -> str:
        """Return the required feature of a guest's kernel, named as in the facts."""
        return f"nic:{self.card}"


def _emulated(
    device: str,
    driver: str | None = None,
    *,
    newer_qemu: bool = False,
    fixed_rings: bool = False,
    settle_ns: int = 0,
) -> Nic:
    """Return a NIC that QEMU emulates; `driver` is needed only if Linux's driver name differs from QEMU's device
    name."""
    return Nic(
        driver=driver or device,
        device=device,
        card=device,
        newer_qemu=newer_qemu,
        fixed_rings=fixed_rings,
        settle_ns=settle_ns,
    )


def _virtio(*, vhost: bool = False, newer_qemu: bool = False) -> Nic:
    return Nic(
        driver=VIRTIO_DRIVER, device=VIRTIO_DEVICE, card="virtio-net", vhost=vhost, newer_qemu=newer_qemu
    )


E1000_SETTLE_NS = 3_000_000_000
"""QEMU delays frames for 1 s, and the driver's watchdog processes early frames only every 2 s: measured latencies
were 200 to 900 ms in the first 3 s, and 1 ms afterwards. No counter or flag of the NIC shows the delay."""
NICS: Mapping[NicKind, Nic] = MappingProxyType(
    {
        "e1000": _emulated("e1000", settle_ns=E1000_SETTLE_NS),
        "e1000e": _emulated("e1000e"),
        "igb": _emulated("igb", newer_qemu=True),
        "rtl8139": _emulated("rtl8139", "8139cp", fixed_rings=True),
        "vmxnet3": _emulated("vmxnet3"),
        "virtio-net": _virtio(),
        "vhost-net": _virtio(vhost=True),
        "vhost-user": _virtio(newer_qemu=True),
        "macvtap": _virtio(),
        "macvtap+vhost": _virtio(vhost=True),
        "sr-iov": Nic(driver="igbvf", device=None, card="igbvf"),
    }
)
"""Row of each NIC kind, by name."""
