"""Warnings about instruments (watches, captures, profiles) and about emulated links. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.failures import Failure
from iolab.messages.places import Computer
from iolab.messages.statement import Name, Quoted
from iolab.messages.warnings import TrialWarning


class WatchBeforeQueue(TrialWarning):
    """A watch sees frames before their shaper delays them."""

    at: Name


class WatchByPackets(TrialWarning):
    """A watch used AF_PACKET instead of an eBPF program."""

    at: Name
    reasons: tuple[Quoted, ...]


class WatchLost(TrialWarning):
    """Frames are missing from the windows."""

    at: Name
    lost_frames: int


class WatchUnstamped(TrialWarning):
    """Frames are counted in the window in which a different CPU processed them, not in that of their arrival."""

    at: Name
    frames: int
    of_frames: int


class CaptureLost(TrialWarning):
    """A capture lost frames because the kernel's buffer was full."""

    at: Name
    lost_frames: int
    kept_frames: int


class CaptureOverwrote(TrialWarning):
    """A capture overwrote older frames with newer ones."""

    at: Name
    overwritten_frames: int
    kept_frames: int


class WindowsLeftOut(TrialWarning):
    """Windows are missing from the series because its memory was full; the figures include these windows."""

    at: Name
    windows: int


class WatchDisagrees(TrialWarning):
    """The sum of the windows differs from the interface counters."""

    at: Name
    window_bytes: int
    packet_bytes: int
    counted_bytes: int
    window_frames: int
    counted_frames: int


class WireLate(TrialWarning):
    """An emulated link or a pacer sent frames late."""

    link: Name
    direction: Name
    """From one port to the other."""
    late_frames: int
    """Frames that were more than 100 us late."""
    very_late_frames: int
    """Frames that were more than 1 ms late."""
    left_frames: int
    """All frames that were sent."""


class WireBypassed(TrialWarning):
    """Frames passed the port of a host without its emulated link, because the link's thread stalled."""

    link: Name
    direction: Name
    """From one port to the other."""
    bypassed_packets: int
    """Packets that passed without the emulated link; a super-frame counts once."""
    stale_frames: int
    """Frames that the emulated link dropped after the stall."""


class PacerSlipped(TrialWarning):
    """A pacer fell behind, because its thread did not run in time, and did not catch up."""

    link: Name
    direction: Name
    lost_ratio: float
    """Lost time, which equals the lost rate, as a ratio."""


class WireWeakened(TrialWarning):
    """An emulated link works with restrictions."""

    code: Literal[
        "wire-unprioritised",  # The thread of an emulated link has no real-time priority, although it was requested
        "wire-not-apart",  # The thread of a pacer shares its CPU with the receivers of its frames
        # The kernel does not timestamp frames on arrival, so their delay counts from their read
        "wire-unstamped",
        "wire-by-taps",  # The ends of an emulated link are taps, although veth pairs would carry more frames/s
    ]
    link: Name
    reason: Quoted


class WatchStolen(TrialWarning):
    """CPU steal occurred while a watch counted windows."""

    at: Name
    stolen_ratio: float


class WireMarked(Evidence):
    """Ratio of the frames that an emulated link marked with ECN, so that senders slow down."""

    link: Name
    marked_frames: int
    offered_frames: int


class WireReorders(Evidence):
    """An emulated link reorders frames, so TCP treats some as lost."""

    link: Name


class WireStalled(Evidence):
    """An emulated link has periodic stalls."""

    link: Name
    length_ns: int
    every_ns: int


class PacerPassed(Evidence):
    """The rate that a pacer passed, and its configured rate."""

    place: Name
    passed_bps: float
    rate_bps: float


class ProfileFailed(Failure):
    """A profiler could not start, or stopped on its own."""

    host: Computer
    said: Quoted


class ProfileLost(TrialWarning):
    """A profiler lost samples."""

    host: Computer
    lost_samples: int
    kept_samples: int


class ProfileCut(TrialWarning):
    """A profile reached its file size limit before the end of the trial."""

    host: Computer
    limit_bytes: int


class ProfileHidden(TrialWarning):
    """Kernel functions have no names, because the kernel hides its symbols."""

    host: Computer
    hidden_ratio: float
    """Ratio of the kernel samples without a function name."""


class ProfileCostly(TrialWarning):
    """The profiler itself used CPU time."""

    host: Computer
    cpu_ratio: float
    """Ratio of one CPU."""


class LocksUnseen(TrialWarning):
    """The kernel does not report lock contention."""

    host: Computer
    said: Quoted
