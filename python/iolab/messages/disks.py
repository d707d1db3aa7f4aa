"""Statements about disks: caches in the I/O path, limits, and reasons of failed disk trials. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.failures import Failure
from iolab.messages.places import Place
from iolab.messages.statement import Name, Quoted, Statement, TrialWarning


class AtDisk(Place):
    """A disk of a machine, identified by its volume."""

    volume: Name
    machine: Name


class BytesThrottled(Evidence):
    """A phase reached the disk's throttle limit in bytes/s."""

    phase: Name
    passed_ratio: float
    """Ratio of the throttle limit that the phase reached."""
    most_bytes: int
    """Throttle limit per second."""


class OperationsThrottled(Evidence):
    """A phase reached the disk's throttle limit in IOPS."""

    phase: Name
    passed_ratio: float
    most: int
    """Throttle limit per second."""


class OperationsOffered(Evidence):
    """The intended I/O request rate was reached."""

    reached_per_s: int
    offered_per_s: int


class DepthHeld(Evidence):
    """A phase was faster with a higher queue depth."""

    phase: Name
    block_bytes: int
    """Block size of one request."""
    depth: int
    deeper: int
    """Queue depth of the faster phase."""
    gain: float
    """Ratio of the faster phase's result to this phase's result."""


class CacheLayer(Statement, kind=True):
    """A cache in the I/O path."""


class ProgramCache(CacheLayer):
    """The page cache of the kernel on which the program runs."""

    machine: Name


class VolumeCache(CacheLayer):
    """A page cache of a volume's file."""

    code: Literal[
        "door-cache",  # The file through which a storage daemon exports the volume to the kernel
        "store-cache",  # The file of the volume
        "target-cache",  # The file of the volume on the target
    ]
    volume: Name


class FlushNotKept(TrialWarning):
    """A flush was acknowledged while a cache behind the disk contained bytes that no disk has."""

    comparable = False
    layer: CacheLayer
    dirty_bytes: int


class AcknowledgedLost(TrialWarning):
    """Flushes were acknowledged, but the disk below the volume's file lacks some of the flushed blocks."""

    comparable = False
    volume: Name
    acknowledged: int
    """Number of flushed blocks."""
    lost: int
    """Number of flushed blocks that are missing on the disk or have old content."""


class PhasesTooShort(TrialWarning):
    """A program reported no figure for these phases, because they were too short."""

    code = "disk-phases-too-short"
    program: Name
    phases: tuple[Name, ...]


class MemoryNotLimited(TrialWarning):
    """A program's memory could not be limited, so the program may have read from the page cache instead of the disk."""

    comparable = False
    machine: Name
    memory_bytes: int
    """The intended memory limit."""


class LessConfined(TrialWarning):
    """The kernel lacks some confinement features; the program's user, root folder and namespaces still confine it."""

    program: Name
    machine: Name
    lacking: tuple[Name, ...]
    """Missing features: Landlock, seccomp."""


class LedgerOpen(TrialWarning):
    """The byte counts of two layers differ in a disk trial, and nothing explains the difference."""

    above: Name
    below: Name
    direction: Name
    more_bytes: int


class SectionLedgerOpen(TrialWarning):
    """The byte counts of two layers differ during sections of a job file, and nothing explains the difference."""

    section: Name
    above: Name
    below: Name
    direction: Name
    more_bytes: int


class SectionLoadShort(TrialWarning):
    """A section of a job file issued fewer I/O requests than its intended rate."""

    section: Name
    offered_per_s: int
    reached_per_s: int


class JobKeysReplaced(TrialWarning):
    """iolab replaced keys of a job file, as requested with `replace`."""

    names: tuple[Name, ...]


class ReadFromMemory(TrialWarning):
    """A program read mostly from the page cache, so its read figures do not describe the disk."""

    program: Name
    read_bytes: int
    """Bytes that the program read."""
    disk_bytes: int
    """Maximum number of the bytes read that came from the disk."""


class DiskUsed(TrialWarning):
    """Programs outside the trial used the disk below a volume's file."""

    comparable = False
    volume: Name
    others_ratio: float
    """Ratio of the disk's bytes or requests (whichever is higher) that other programs caused."""
    others_bytes: int
    """Minimum number of bytes that other programs caused."""
    busy_ratio: float
    """Ratio of the time in which the disk was busy."""


class DiskServer(Statement, kind=True):
    """The server of a disk: a program or a kernel."""


class Condition(Statement, kind=True):
    """The observed condition of a server that does not answer."""


class DiskDetached(Failure):
    """The loop device of a machine's disk has no backing file any more."""

    machine: Name
    volume: Name
    node: Name
    """The loop device."""


class DiskReattached(Failure):
    """The loop device of a machine's disk has a backing file other than its volume."""

    machine: Name
    volume: Name
    node: Name
    backing: Quoted
    """The backing file."""


class StoreFull(Failure):
    """The file system with a volume's file has no free space."""

    code = "disk-store-full"
    program: Name
    machine: Name
    volume: Name
    folder: Name
    output: Quoted


class DiskErred(Failure):
    """A disk returned data that differ from the written data, or an I/O error."""

    code: Literal["disk-data-wrong", "disk-io-failed"]
    program: Name
    machine: Name
    volume: Name
    output: Quoted


class VolumeServer(DiskServer):
    """A server of a volume on a machine."""

    code: Literal[
        "storage-daemon",  # QEMU's storage daemon, which exports a volume through FUSE
        "nvme-target",  # The NVMe/TCP target in a kernel
        "nbd-server",  # An NBD server
    ]
    volume: Name
    machine: Name


class ExistingTargetServer(DiskServer):
    """The server of a target that the lab did not make."""

    volume: Name
    target: Name
    """Name of the target in its protocol."""
    portal: Name
    """Address and port."""


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
    """The server's process is stopped."""

    pid: int


class ProcessGone(Condition):
    """The server's process has exited."""


class WrongReply(Condition):
    """The connection was refused, or the reply uses a different protocol."""

    code: Literal["connection-refused", "other-protocol"]
    ping: Name
    """The request that was sent, or the expected greeting."""


class NoReply(Condition):
    """The server did not reply in time."""

    ping: Name
    waited_ns: int


class DiskServerSilent(Failure):
    """A program completed no I/O, and a server behind its disk does not answer."""

    program: Name
    machine: Name
    server: DiskServer
    condition: Condition
    still_ns: int
    """Time since the last completion."""
    in_flight: int
    """Requests in flight on the disk; 0 if they are not counted."""


class DiskServerFailed(Failure):
    """A program failed, and a server behind its disk does not answer."""

    program: Name
    machine: Name
    server: DiskServer
    condition: Condition
    output: Quoted
    """The program's error output."""
