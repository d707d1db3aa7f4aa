"""Why what a verdict says is not certain. Types only."""

from iolab.statements.places import Place
from iolab.statements.statement import Name, Statement


class Doubt(Statement):
    """Why something is not certain."""


class CalmTooShort(Doubt):
    """Too few frames were sent while the host was calm to tell whether frames are lost then."""

    code = "calm-too-short"
    calm_frames: int
    offered_frames: int


class PlaceUnknown(Doubt):
    """No counter tells where frames were lost."""

    code = "place-unknown"


class SeveralPlaces(Doubt):
    """Frames were lost at several places, and most of them at none."""

    code = "several-places"


class OthersOnCpu(Doubt):
    """Work that is not known had a part of the CPU, and may be why as well."""

    code = "others-on-cpu"
    others_ratio: float


class GeneratorWaited(Doubt):
    """The sender waited for its CPU: with one of its own it may send more."""

    code = "generator-waited"
    wait_ratio: float


class OthersDropped(Doubt):
    """A counter shows more dropped frames than are missing: it does not tell whose they were."""

    code = "others-dropped"
    place: Place
    dropped_frames: int
    lost_frames: int


class QueueBeganAgain(Doubt):
    """Counters of queues began again in the middle, so what was dropped there before is not known."""

    code = "queue-began-again"
    places: tuple[Name, ...]


class ShaperUnknown(Doubt):
    """The shaper is not of the lab, so its rate is not known."""

    code = "shaper-unknown"


class ShaperSuspected(Doubt):
    """A shaper of unknown rate held frames back, and may be why."""

    code = "shaper-suspected"
    shaper: Name
    place: Name
    held_back: int


class ReasonOfOthers(Doubt):
    """The kernel dropped another number of frames for a reason than are missing: it does not tell whose they were."""

    code = "reason-of-others"
    reason: Name
    """The kernel's name of it."""
    dropped_frames: int
    missing_frames: int


class QueueShowsFewer(Doubt):
    """A queue shows fewer drops than the kernel's reasons: it began again, or another queue dropped frames."""

    code = "queue-shows-fewer"
    place: Name
    frames: int
