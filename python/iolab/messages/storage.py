"""Why a disk trial failed: the server behind the disk, and what was seen of it. Types only."""

from typing import Literal

from iolab.messages.failures import Failure
from iolab.messages.statement import Name, Quoted, Statement


class DiskServer(Statement, kind=True):
    """What serves a disk: a program, or a kernel."""


class VolumeServer(DiskServer):
    """What serves a volume on a machine."""

    code: Literal[
        "storage-daemon",  # QEMU's storage daemon, which exports a volume through FUSE
        "nvme-target",  # An NVMe/TCP target of a kernel
        "nbd-server",  # An NBD server
    ]
    volume: Name
    machine: Name


class IscsiTarget(DiskServer):
    """An iSCSI target."""

    volume: Name
    machine: Name
    program: Name
    """tgtd, or LIO."""


class GuestKernel(DiskServer):
    """The kernel of a guest."""

    machine: Name


class Condition(Statement, kind=True):
    """What was seen of a server that does not answer."""


class ProcessStopped(Condition):
    """Its process is stopped."""

    pid: int


class ProcessGone(Condition):
    """Its process has ended."""


class WrongReply(Condition):
    """Nobody listens at its address, or what replied does not speak the protocol."""

    code: Literal["connection-refused", "other-protocol"]
    ping: Name
    """What was sent, or waited for."""


class NoReply(Condition):
    """It did not reply in time."""

    ping: Name
    waited_ns: int


class DiskServerSilent(Failure):
    """A program completed no I/O, and a server behind its disk does not answer."""

    program: Name
    machine: Name
    server: DiskServer
    condition: Condition
    still_ns: int
    """Since the last completion."""
    in_flight: int
    """Requests that the disk has not completed; 0 where nothing counts them."""


class DiskServerFailed(Failure):
    """A program failed, and a server behind its disk does not answer."""

    program: Name
    machine: Name
    server: DiskServer
    condition: Condition
    output: Quoted
    """What the program reported."""


class DiskDetached(Failure):
    """The loop device of a machine's disk is attached to nothing any more."""

    machine: Name
    volume: Name
    node: Name
    """The device."""


class DiskReattached(Failure):
    """The loop device of a machine's disk is attached to another file than its volume."""

    machine: Name
    volume: Name
    node: Name
    backing: Quoted
    """That file."""


class StoreFull(Failure):
    """The file system that holds a volume's file has no free space."""

    code = "disk-store-full"
    program: Name
    machine: Name
    volume: Name
    folder: Name
    output: Quoted


class DiskErred(Failure):
    """A disk returned other data than were written to it, or answered a request with an error."""

    code: Literal["disk-data-wrong", "disk-io-failed"]
    program: Name
    machine: Name
    volume: Name
    output: Quoted
