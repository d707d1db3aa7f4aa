"""Caveats: reasons why a verdict is uncertain. Types only."""

from typing import Literal

from iolab.messages.places import Place
from iolab.messages.statement import Name, Statement


class Caveat(Statement, kind=True):
    """A reason why a verdict is uncertain."""


class CauseUnsure(Caveat):
    """The cause of the loss is unclear.

    No drop counter accounts for the lost frames, no single place accounts for most of the loss, or the shaper is not
    part of the lab, so its rate is unknown.
    """

    code: Literal["place-unknown", "several-places", "shaper-unknown"]


class TooCoarse(Caveat):
    """The readings are too coarse for a certain verdict.

    The window, which is read once per second, may have grown between readings; no single thread was busy all the time;
    or processes were too short-lived to be sampled, and may have run one after the other.
    """

    code: Literal["window-of-second", "no-single-thread", "one-after-the-other"]


class CalmTooShort(Caveat):
    """Too few frames were sent while the host was undisturbed to tell whether frames are lost then."""

    calm_frames: int
    offered_frames: int


class OthersOnCpu(Caveat):
    """Unidentified work used a part of the CPU, and may also be the cause."""

    others_ratio: float


class GeneratorWaited(Caveat):
    """The sender waited for its CPU; with a dedicated CPU it may send more."""

    wait_ratio: float


class OthersDropped(Caveat):
    """A drop counter exceeds the number of missing frames, because it includes frames outside this trial."""

    place: Place
    dropped_frames: int
    lost_frames: int


class QueueBeganAgain(Caveat):
    """The counters of queues were reset during the trial, so earlier drops are unknown."""

    places: tuple[Name, ...]


class ShaperSuspected(Caveat):
    """A shaper of unknown rate delayed frames, and may be the cause."""

    shaper: Name
    place: Name
    held_back: int


class ReasonOfOthers(Caveat):
    """The kernel's count for a drop reason differs from the number of missing frames: it includes other frames."""

    reason: Name
    """The kernel's name of the drop reason."""
    dropped_frames: int
    missing_frames: int


class QueueShowsFewer(Caveat):
    """The queue counters show fewer drops than the kernel's drop reasons.

    The counters were reset, or a different queue dropped frames.
    """

    place: Name
    frames: int
