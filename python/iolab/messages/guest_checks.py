"""What the doctor sees of a computer that is to have guests. Types only."""

from typing import Literal

from iolab.messages.checks import Examined
from iolab.messages.statement import Name, Quoted


class QemuThere(Examined):
    """QEMU is installed."""

    version: Name
    program: Name


class ProgramExamined(Examined):
    """What a program answered that guests need."""

    code: Literal[
        "qemu-unfit",  # No QEMU can be used
        "accelerator-untried",  # No guest could be booted to try
        "accelerator-untold",  # A guest was booted with KVM, and nothing was shown in time
        "switch-lacks-qemu",  # The switch is there, a QEMU for it is not
        "no-xen",  # It runs no Xen, or is not its Dom0
        "xen-silent",  # Xen's services do not answer
    ]
    said: Quoted


class GuestsExamined(Examined):
    """Something that guests need, which its code says whole."""

    code: Literal[
        "qemu-not-there",  # Another host has no QEMU
        "image-not-built",  # The first image of guests is not built
        "accelerator-kvm",  # A guest was booted with KVM
        "accelerator-none",  # A guest could not be booted with KVM
        "macvtap-absent",  # The kernel makes no macvtaps
        "macvtap-closed",  # An ordinary user may not open macvtaps
        "macvtap-open",  # Macvtaps can be opened
        "macvtap-by-sudo",  # sudo opens macvtaps
        "switch-there",  # A switch in user space can carry cards
        "xen-not-paravirtual",  # This Xen makes no paravirtual domains
        "xen-memory-short",  # There is little memory for domains
        "xen-cpus-short",  # No CPU is free for domains
    ]


class ImagesBuilt(Examined):
    """Images of guests are built."""

    images: tuple[Name, ...]


class DeviceExamined(Examined):
    """Whether a device file that guests need is there."""

    code: Literal[
        "device-there",  # A device that guests need is there
        "tun-absent",  # No taps can be made
        "vhost-net-absent",  # No card can be carried by vhost
        "kvm-absent",  # Guests have no hardware virtualisation
    ]
    path: Name


class XenRoom(Examined):
    """What is left for domains."""

    version: Name
    free_mib: int
    total_mib: int
    free_cpus: int
    cpus: int
