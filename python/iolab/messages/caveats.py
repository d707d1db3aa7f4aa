"""Why what a verdict says is not certain. Types only."""

from typing import Literal

from iolab.messages.places import Place
from iolab.messages.statement import Name, Statement


class Caveat(Statement, kind=True):
    """Why something is not certain."""


class CauseUnsure(Caveat):
    """No counter tells where frames were lost, most were lost at none of several places, or the shaper is not of the
    lab, so that its rate is not known."""

    code: Literal["place-unknown", "several-places", "shaper-unknown"]


class TooCoarse(Caveat):
    """What was read does not tell: the window, read once a second, may still have grown; no single thread had all of
    its time; or processes were too short to be seen, and may have run one after the other."""

    code: Literal["window-of-second", "no-single-thread", "one-after-the-other"]


class CalmTooShort(Caveat):
    """Too few frames were sent while the host was calm to tell whether frames are lost then."""

    calm_frames: int
    offered_frames: int


class OthersOnCpu(Caveat):
    """Work that is not known had a part of the CPU, and may be why as well."""

    others_ratio: float


class GeneratorWaited(Caveat):
    """The sender waited for its CPU: with one of its own it may send more."""

    wait_ratio: float


class OthersDropped(Caveat):
    """A counter shows more dropped frames than are missing: it does not tell whose they were."""

    place: Place
    dropped_frames: int
    lost_frames: int


class QueueBeganAgain(Caveat):
    """Counters of queues began again in the middle, so what was dropped there before is not known."""

    places: tuple[Name, ...]


class ShaperSuspected(Caveat):
    """A shaper of unknown rate held frames back, and may be why."""

    shaper: Name
    place: Name
    held_back: int


class ReasonOfOthers(Caveat):
    """The kernel dropped another number of frames for a reason than are missing: it does not tell whose they were."""

    reason: Name
    """The kernel's name of it."""
    dropped_frames: int
    missing_frames: int


class QueueShowsFewer(Caveat):
    """A queue shows fewer drops than the kernel's reasons: it began again, or another queue dropped frames."""

    place: Name
    frames: int
