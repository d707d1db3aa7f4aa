"""What the doctor sees of a computer that is to have guests. Types only."""

from iolab.statements.examined import Examined
from iolab.statements.statement import Name, Quoted


class QemuThere(Examined):
    """QEMU is installed."""

    code = "qemu-there"
    version: Name
    program: Name


class QemuUnfit(Examined):
    """No QEMU can be used."""

    code = "qemu-unfit"
    said: Quoted


class QemuNotThere(Examined):
    """Another host has no QEMU."""

    code = "qemu-not-there"


class ImagesBuilt(Examined):
    """Images of guests are built."""

    code = "images-built"
    images: tuple[Name, ...]


class ImageNotBuilt(Examined):
    """The first image of guests is not built."""

    code = "image-not-built"


class AcceleratorUntried(Examined):
    """No guest could be booted to try."""

    code = "accelerator-untried"
    said: Quoted


class AcceleratorUntold(Examined):
    """A guest was booted with KVM, and nothing was shown in time."""

    code = "accelerator-untold"
    said: Quoted


class AcceleratorKvm(Examined):
    """A guest was booted with KVM."""

    code = "accelerator-kvm"


class AcceleratorNone(Examined):
    """A guest could not be booted with KVM."""

    code = "accelerator-none"


class DeviceThere(Examined):
    """A device that guests need is there."""

    code = "device-there"
    path: Name


class TunAbsent(Examined):
    """No taps can be made."""

    code = "tun-absent"
    path: Name


class VhostNetAbsent(Examined):
    """No card can be carried by vhost."""

    code = "vhost-net-absent"
    path: Name


class KvmAbsent(Examined):
    """Guests have no hardware virtualisation."""

    code = "kvm-absent"
    path: Name


class MacvtapAbsent(Examined):
    """The kernel makes no macvtaps."""

    code = "macvtap-absent"


class MacvtapClosed(Examined):
    """An ordinary user may not open macvtaps."""

    code = "macvtap-closed"


class MacvtapOpen(Examined):
    """Macvtaps can be opened."""

    code = "macvtap-open"


class MacvtapBySudo(Examined):
    """sudo opens macvtaps."""

    code = "macvtap-by-sudo"


class SwitchMissing(Examined):
    """No switch in user space is installed."""

    code = "switch-missing"
    package: Name


class SwitchLacksQemu(Examined):
    """The switch is there, a QEMU for it is not."""

    code = "switch-lacks-qemu"
    said: Quoted


class SwitchThere(Examined):
    """A switch in user space can carry cards."""

    code = "switch-there"


class NoXen(Examined):
    """It runs no Xen, or is not its Dom0."""

    code = "no-xen"
    said: Quoted


class XenSilent(Examined):
    """Xen's services do not answer."""

    code = "xen-silent"
    said: Quoted


class XenRoom(Examined):
    """What is left for domains."""

    code = "xen-room"
    version: Name
    free_mib: int
    total_mib: int
    free_cpus: int
    cpus: int


class XenNotParavirtual(Examined):
    """This Xen makes no paravirtual domains."""

    code = "xen-not-paravirtual"


class XenMemoryShort(Examined):
    """There is little memory for domains."""

    code = "xen-memory-short"


class XenCpusShort(Examined):
    """No CPU is free for domains."""

    code = "xen-cpus-short"
