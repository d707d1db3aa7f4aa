"""iolab's own pacer as a value: classes with rate and ceil on a line, every frame of a class spaced."""

from iolab.experiment.model.impairments import Stage
from iolab.frozen import frozen

QUEUE_FRAMES = 1000
"""Queue of a class where the shape gives no limit: as below a class of htb."""
LONGEST_FRAME_BYTES = 9018
"""What a queue in frames may hold of each."""


@frozen
class PacedClass:
    """A class of the pacer."""

    rate_bps: int
    """What it is sure to get."""
    ceil_bps: int
    """What it may borrow up to."""


@frozen
class PacedFlow:
    """Which packets belong to a class."""

    source: str | None
    """Their source; None: any."""
    destination: str | None
    """Their destination; None: any."""
    place: int
    """Of the class among the classes."""


@frozen(kw_only=True)
class Pacing:
    """The pacer of one way of a wire."""

    rate_bps: int
    """Of the port as a whole."""
    classes: tuple[PacedClass, ...]
    """In the order written; one that has everything where none is written."""
    flows: tuple[PacedFlow, ...]
    """The first that fits holds."""
    default: int | None
    """Class of what fits none; None: it passes unspaced."""
    limit_bytes: int | None
    """Queue of each class; None: 1000 frames."""
    burst_bytes: int | None = None
    """What leaves at most above the rate; None: all that is late is caught up."""

    def stage(self) -> Stage:
        """Return it as the agent's stage (contract, wire.change)."""
        queue: Stage = {"kind": "frames", "frames": QUEUE_FRAMES}
        if self.limit_bytes is not None:
            queue = {"kind": "bytes", "bytes": self.limit_bytes}
        flows = (
            (("source", one.source), ("destination", one.destination), ("class", one.place))
            for one in self.flows
        )
        stage: Stage = {
            "kind": "pacer",
            "rate_bps": self.rate_bps,
            "classes": [
                {"rate_bps": one.rate_bps, "ceil_bps": one.ceil_bps, "queue": queue} for one in self.classes
            ],
            "filters": [{key: value for key, value in flow if value is not None} for flow in flows],
        }
        optional = {"default": self.default, "burst_bytes": self.burst_bytes}
        return stage | {key: value for key, value in optional.items() if value is not None}

    def memory_bytes(self) -> int:
        """Return what its queues may hold."""
        return len(self.classes) * (self.limit_bytes or QUEUE_FRAMES * LONGEST_FRAME_BYTES)
