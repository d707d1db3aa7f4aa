"""What is stated of disks: caches on the way of their bytes, what limited them, what a reader must know. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.places import Place
from iolab.messages.statement import Name, Statement, TrialWarning


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
