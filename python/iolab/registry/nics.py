"""Network cards of guests: a row per kind says what the guest sees and what carries its frames.

A new emulated card is a row here. What carries frames in another way than those here do is made in `lab/guests`.
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
    """One kind of network card."""

    driver: str
    """Driver that Linux has for it, and its module."""
    device: str | None
    """QEMU's device; None: nothing is emulated, a device of the parent is passed through."""
    card: str
    """What the guest sees: several kinds show it the same card."""
    vhost: bool = False
    """Whether the parent's kernel carries its frames."""
    newer_qemu: bool = False
    """Whether Debian 12's QEMU is too old for it."""
    fixed_rings: bool = False
    """Whether its driver has one size of rings."""
    settle_ns: int = 0
    """How long frames wait in it after it was opened, or told what to receive [ns]."""

    @property
    def is_virtio(self) -> bool:
        """Whether the guest sees a virtio card: its queues and rings are the hypervisor's to set."""
        return self.driver == VIRTIO_DRIVER

    @property
    def feature(self) -> str:
        """What a guest's kernel must have, as a host's facts name it."""
        return f"nic:{self.card}"


def _emulated(
    device: str,
    driver: str | None = None,
    *,
    newer_qemu: bool = False,
    fixed_rings: bool = False,
    settle_ns: int = 0,
) -> Nic:
    """Return a card that QEMU emulates; `driver` where Linux does not call it as QEMU does."""
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
"""QEMU holds frames back for 1 s, and the driver's watchdog takes in what came too early every 2 s: latencies of 200 to
900 ms were measured in the first 3 s, and 1 ms from then on. No counter or flag of the card shows it."""
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
"""The table."""
