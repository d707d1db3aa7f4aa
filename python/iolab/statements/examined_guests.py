"""What the doctor sees of a computer that is to have guests. Types only."""

from iolab.statements.examined import Examined
from iolab.statements.statement import Name, Quoted


class QemuThere(Examined):
    """QEMU is installed."""

    version: Name
    program: Name


class QemuUnfit(Examined):
    """No QEMU can be used."""

    said: Quoted


class QemuNotThere(Examined):
    """Another host has no QEMU."""


class ImagesBuilt(Examined):
    """Images of guests are built."""

    images: tuple[Name, ...]


class ImageNotBuilt(Examined):
    """The first image of guests is not built."""


class AcceleratorUntried(Examined):
    """No guest could be booted to try."""

    said: Quoted


class AcceleratorUntold(Examined):
    """A guest was booted with KVM, and nothing was shown in time."""

    said: Quoted


class AcceleratorKvm(Examined):
    """A guest was booted with KVM."""


class AcceleratorNone(Examined):
    """A guest could not be booted with KVM."""


class DeviceThere(Examined):
    """A device that guests need is there."""

    path: Name


class TunAbsent(Examined):
    """No taps can be made."""

    path: Name


class VhostNetAbsent(Examined):
    """No card can be carried by vhost."""

    path: Name


class KvmAbsent(Examined):
    """Guests have no hardware virtualisation."""

    path: Name


class MacvtapAbsent(Examined):
    """The kernel makes no macvtaps."""


class MacvtapClosed(Examined):
    """An ordinary user may not open macvtaps."""


class MacvtapOpen(Examined):
    """Macvtaps can be opened."""


class MacvtapBySudo(Examined):
    """sudo opens macvtaps."""


class SwitchMissing(Examined):
    """No switch in user space is installed."""

    package: Name


class SwitchLacksQemu(Examined):
    """The switch is there, a QEMU for it is not."""

    said: Quoted


class SwitchThere(Examined):
    """A switch in user space can carry cards."""


class NoXen(Examined):
    """It runs no Xen, or is not its Dom0."""

    said: Quoted


class XenSilent(Examined):
    """Xen's services do not answer."""

    said: Quoted


class XenRoom(Examined):
    """What is left for domains."""

    version: Name
    free_mib: int
    total_mib: int
    free_cpus: int
    cpus: int


class XenNotParavirtual(Examined):
    """This Xen makes no paravirtual domains."""


class XenMemoryShort(Examined):
    """There is little memory for domains."""


class XenCpusShort(Examined):
    """No CPU is free for domains."""
