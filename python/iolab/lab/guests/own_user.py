"""What a guest's QEMU has to do with as a user of its own: what it reads and writes. Pure.

A guest that breaks out of its emulator is then no root of its parent, and finds no file of anybody else that is closed.
"""

from iolab.frozen import frozen
from iolab.lab.guests.guest import FunctionBackend, Guest, VhostUserBackend
from iolab.lab.guests.qemu import Place

KVM = "/dev/kvm"


@frozen(kw_only=True)
class OwnUser:
    """The user of a program; its fields are those of the protocol (contract, process.start)."""

    reads: tuple[str, ...]
    """Files, folders and devices that it sees, whatever closed folder they are in."""
    writes: tuple[str, ...]
    """Likewise, and they are its own."""


def own_user_of(guest: Guest, place: Place) -> OwnUser | None:
    """Return with what a guest's QEMU runs as a user of its own; None: a card that is passed through needs root."""
    backends = [nic.backend for nic in guest.nics]
    if any(isinstance(backend, FunctionBackend) for backend in backends):
        return None
    boot = place.boot
    image = (boot.kernel, boot.initrd, boot.root, boot.modules, *([boot.xen] if boot.xen else []))
    sockets = [f"{place.folder}/{one.socket}" for one in backends if isinstance(one, VhostUserBackend)]
    disks = [disk.path for disk in guest.disks if disk.path]
    nodes = [KVM] if place.accel == "kvm" else []
    return OwnUser(reads=(*image, *place.program_files), writes=(place.folder, *sockets, *disks, *nodes))
