"""What is stated of disks: caches on the way of their bytes, what limited them, why their trials failed. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.failures import Failure
from iolab.messages.places import Place
from iolab.messages.statement import Name, Quoted, Statement, TrialWarning


class AtDisk(Place):
    """A disk of a machine, by its volume."""

    volume: Name
    machine: Name


class BytesThrottled(Evidence):
    """A phase moved as many bytes as the disk's throttle lets through."""

    phase: Name
    passed_ratio: float
    """Of what the throttle lets through."""
    most_bytes: int
    """In a second."""


class OperationsThrottled(Evidence):
    """A phase did as many reads and writes as the disk's throttle lets through."""

    phase: Name
    passed_ratio: float
    most: int
    """In a second."""


class OperationsOffered(Evidence):
    """As many reads and writes were begun as were asked for."""

    reached_per_s: int
    offered_per_s: int


class DepthHeld(Evidence):
    """A phase did more with more reads and writes under way."""

    phase: Name
    block_bytes: int
    """Of one read or write."""
    depth: int
    deeper: int
    """Under way, in the phase that did more."""
    gain: float
    """What it did, of what this one did."""


class CacheLayer(Statement, kind=True):
    """One cache."""


class ProgramCache(CacheLayer):
    """Of the kernel on which the program runs."""

    machine: Name


class VolumeCache(CacheLayer):
    """Of a file of a volume."""

    code: Literal[
        "door-cache",  # Of the file by which a storage daemon shows a volume to the kernel
        "store-cache",  # Of the volume's own file
        "target-cache",  # Of the volume's file at the target
    ]
    volume: Name


class FlushNotKept(TrialWarning):
    """A flush was acknowledged, and a cache behind the disk has bytes that no disk has."""

    comparable = False
    layer: CacheLayer
    dirty_bytes: int


class AcknowledgedLost(TrialWarning):
    """Flushes were acknowledged, and the disk below the volume's file has not all that they covered."""

    comparable = False
    volume: Name
    acknowledged: int
    """Blocks that the flushes covered."""
    lost: int
    """Of them, those that the disk has not, or only as they were before."""


class PhasesTooShort(TrialWarning):
    """A program gave no figure of these phases: they ended too soon for it."""

    code = "disk-phases-too-short"
    program: Name
    phases: tuple[Name, ...]


class MemoryNotLimited(TrialWarning):
    """The memory of a program could not be limited: it may have read from memory what it was to read from its disk."""

    comparable = False
    machine: Name
    memory_bytes: int
    """That it was to have."""


class LessConfined(TrialWarning):
    """The kernel has not all that confines a program: its user, root folder and namespaces are what holds it."""

    program: Name
    machine: Name
    lacking: tuple[Name, ...]
    """Landlock, seccomp."""


class LedgerOpen(TrialWarning):
    """Two layers of a disk trial do not agree, and nothing says why."""

    above: Name
    below: Name
    direction: Name
    more_bytes: int


class SectionLedgerOpen(TrialWarning):
    """The same while sections of a job file went on."""

    section: Name
    above: Name
    below: Name
    direction: Name
    more_bytes: int


class SectionLoadShort(TrialWarning):
    """A section of a job file began fewer reads or writes than its rate says."""

    section: Name
    offered_per_s: int
    reached_per_s: int


class JobKeysReplaced(TrialWarning):
    """Keys of a job file were left to iolab, as the measure asked."""

    names: tuple[Name, ...]


class ReadFromMemory(TrialWarning):
    """Much of what a program read came from the page cache: those figures are of memory, not of its disk."""

    program: Name
    read_bytes: int
    """By the program."""
    disk_bytes: int
    """Of them, at most, from the disk."""


class DiskUsed(TrialWarning):
    """Others used the disk on which a volume's file lies."""

    comparable = False
    volume: Name
    others_ratio: float
    """Of what that disk moved, or of what it was asked, whichever is more."""
    others_bytes: int
    """Of what it moved, at least."""
    busy_ratio: float
    """Time that it had something to do."""


class DiskServer(Statement, kind=True):
    """What serves a disk: a program, or a kernel."""


class Condition(Statement, kind=True):
    """What was seen of a server that does not answer."""


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
