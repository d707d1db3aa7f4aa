"""What the reader must know of those who looked on: watches, captures, profiles; and of emulated paths. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.failures import Failure
from iolab.messages.places import Computer
from iolab.messages.statement import Name, Quoted
from iolab.messages.warnings import TrialWarning


class WatchBeforeQueue(TrialWarning):
    """Frames were seen before the shaper that they go through."""

    at: Name


class WatchByPackets(TrialWarning):
    """Frames were seen by AF_PACKET, not by a program in the kernel."""

    at: Name
    reasons: tuple[Quoted, ...]


class WatchLost(TrialWarning):
    """Frames are in no window."""

    at: Name
    lost_frames: int


class WatchUnstamped(TrialWarning):
    """Frames are in the windows of when another CPU looked at them, not of when they came."""

    at: Name
    frames: int
    of_frames: int


class CaptureLost(TrialWarning):
    """The kernel had no room for frames that a capture was to keep."""

    at: Name
    lost_frames: int
    kept_frames: int


class CaptureOverwrote(TrialWarning):
    """Older frames of a capture made room for newer ones."""

    at: Name
    overwritten_frames: int
    kept_frames: int


class WindowsLeftOut(TrialWarning):
    """Windows are in the figures, but not in the series: there was no room."""

    at: Name
    windows: int


class WatchDisagrees(TrialWarning):
    """The windows do not sum up to what the interface counted."""

    at: Name
    window_bytes: int
    packet_bytes: int
    counted_bytes: int
    window_frames: int
    counted_frames: int


class WireLate(TrialWarning):
    """Frames left an emulated path or a pacer after they were due."""

    link: Name
    direction: Name
    """From one port to the other."""
    late_frames: int
    """By over 100 us."""
    very_late_frames: int
    """By over 1 ms."""
    left_frames: int
    """All that left."""


class PacerSlipped(TrialWarning):
    """A pacer shifted the times of its frames, because its thread could not keep them."""

    link: Name
    direction: Name
    lost_ratio: float
    """Of the time, and so of the rate."""


class WireWeakened(TrialWarning):
    """A wire is less than it was to be."""

    code: Literal[
        "wire-unprioritised",  # The thread of a wire has no real-time priority, although it was to have one
        "wire-not-apart",  # The thread of a pacer shares its CPU with those who handle the frames that it gives
        # The kernel does not stamp the frames of a wire as they come: they count from when they are read:
        "wire-unstamped",
        "wire-by-taps",  # The ends of a wire are taps, although veth pairs were to carry more frames a second
    ]
    link: Name
    reason: Quoted


class WatchStolen(TrialWarning):
    """CPUs were stolen while windows were counted."""

    at: Name
    stolen_ratio: float


class WireMarked(Evidence):
    """Which share of its frames an emulated line marked, so that their senders slow down (ECN)."""

    link: Name
    marked_frames: int
    offered_frames: int


class WireReorders(Evidence):
    """An emulated path on which frames overtake others, so that TCP takes some for lost."""

    link: Name


class WireStalled(Evidence):
    """An emulated path that forwards nothing for a part of the time."""

    link: Name
    length_ns: int
    every_ns: int


class PacerPassed(Evidence):
    """What a pacer let through, and its rate."""

    place: Name
    passed_bps: float
    rate_bps: float


class ProfileFailed(Failure):
    """A profiler could not begin, or ended by itself."""

    host: Computer
    said: Quoted


class ProfileLost(TrialWarning):
    """Samples were lost."""

    host: Computer
    lost_samples: int
    kept_samples: int


class ProfileCut(TrialWarning):
    """The profiler's file was full before the trial ended."""

    host: Computer
    limit_bytes: int


class ProfileHidden(TrialWarning):
    """Functions of the kernel have no names: it hides its symbols."""

    host: Computer
    hidden_ratio: float
    """Of the samples in the kernel."""


class ProfileCostly(TrialWarning):
    """The profiler itself used CPU time."""

    host: Computer
    cpu_ratio: float
    """Of one CPU."""


class LocksUnseen(TrialWarning):
    """The kernel does not tell of contended locks."""

    host: Computer
    said: Quoted
