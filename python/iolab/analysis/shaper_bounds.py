"""What a shaper and its classes are held to: the bounds, and one thing that was checked."""

from dataclasses import dataclass
from enum import StrEnum

from iolab.experiment.model.links import Shape
from iolab.messages.warnings import TrialWarning

MOST_ABOVE, LEAST_REACHED = 0.01, 0.97
"""How far the long-run rate may lie above the asked one, and from which part of it on it is reached."""
PACER_FRAMES = 1
"""What the pacer may send at once beside the frame that is allowed to all."""


def pacer_allowance(shape: Shape, frame_bytes: int) -> int:
    """Return what a pacer may send at once, as a whole and of each class [bytes]."""
    return max(PACER_FRAMES * frame_bytes, shape.burst or 0)


class Kept(StrEnum):
    """What is checked."""

    RATE = "rate"
    """The long-run rate is not above the asked one."""
    REACHED = "reached"
    """The asked rate is reached."""
    WINDOW = "window"
    """No window holds more than rate and burst allow."""
    CEIL = "ceil"
    """While a class sends, it has no more than its ceil."""
    ALONE = "alone"
    """While a class sends alone, it has its ceil."""
    SHARE = "share"
    """While others send too, it has its rate."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a shaper must keep."""

    what: Kept
    """What."""
    window_ns: int
    """Of the windows that were looked at."""
    seen_bps: float
    """What was seen."""
    allowed_bps: float
    """The bound."""
    held: bool
    """Whether it was kept."""
    excuse: TrialWarning | None = None
    """What held the host up, so that what was not kept says nothing of the shaper; None: it is judged."""

    @property
    def failed(self) -> bool:
        """Whether it was not kept, and nothing else can be why."""
        return not self.held and self.excuse is None
