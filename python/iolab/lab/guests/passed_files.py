"""The files that its parent's agent opens for a guest's QEMU, under numbers that its command line names. Pure."""

from typing import Literal

from iolab.frozen import frozen
from iolab.lab.guests.guest import (
    FunctionBackend,
    Guest,
    GuestNic,
    MacvtapBackend,
    TapBackend,
    VhostUserBackend,
)
from iolab.messages.commands import (
    CommandNote,
    OpenDevice,
    OpenMacvtap,
    OpenMacvtapIn,
    OpenTap,
    OpenTapIn,
)

FIRST_FD = 10
"""Number of the first passed file: above standard streams and what QEMU is started with."""


@frozen(kw_only=True)
class TapFile:
    """A queue of a tap; its fields are those of the protocol (contract, process.start)."""

    kind: Literal["tap"] = "tap"
    netns: str | None
    """Network namespace; None: the kernel's own."""
    name: str
    """The interface."""
    vnet_header: bool = True
    """Frames come with what the card may still have to do: checksums, segmentation."""
    multi_queue: bool = False
    """One of several."""


@frozen(kw_only=True)
class MacvtapFile:
    """A queue of a macvtap."""

    kind: Literal["macvtap"] = "macvtap"
    netns: str | None
    """Network namespace; None: the kernel's own."""
    interface: str
    """The interface."""


@frozen(kw_only=True)
class DeviceFile:
    """A device."""

    kind: Literal["device"] = "device"
    path: str
    """Below /dev."""


@frozen
class PassedFile:
    """A file that the agent opens for QEMU."""

    fd: int
    """Its number in QEMU."""
    open: TapFile | MacvtapFile | DeviceFile
    """What to open."""


def passed_files(guest: Guest, first_fd: int = FIRST_FD) -> tuple[PassedFile, ...]:
    """Return what must be open when QEMU starts: for each card its queues, then as many vhost devices."""
    opened = [one for nic in guest.nics for one in opened_for(nic)]
    return tuple(PassedFile(first_fd + number, one) for number, one in enumerate(opened))


def file_note(file: PassedFile) -> CommandNote:
    """Return what a number on QEMU's command line is."""
    match file.open:
        case TapFile(netns=netns, name=name):
            return (
                OpenTapIn(fd=file.fd, interface=name, netns=netns)
                if netns
                else OpenTap(fd=file.fd, interface=name)
            )
        case MacvtapFile(netns=netns, interface=interface):
            return (
                OpenMacvtapIn(fd=file.fd, interface=interface, netns=netns)
                if netns
                else OpenMacvtap(fd=file.fd, interface=interface)
            )
        case DeviceFile(path=path):
            return OpenDevice(fd=file.fd, path=path)


def opened_for(nic: GuestNic) -> tuple[TapFile | MacvtapFile | DeviceFile, ...]:
    """Return what is opened for a card: its queues, then as many vhost devices."""
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
