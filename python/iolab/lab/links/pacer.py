"""The configuration of iolab's pacer: classes with rate and ceil on a line; every frame of a class is paced."""

from iolab.experiment.model.impairments import Stage
from iolab.frozen import frozen

QUEUE_FRAMES = 1000
"""Default queue of a class [frames], as in an htb leaf."""
LONGEST_FRAME_BYTES = 9018
"""Maximum number of bytes per frame in a queue whose limit is a number of frames."""


@frozen
class PacedClass:
    """A class of the pacer."""

    rate_bps: int
    """Guaranteed rate."""
    ceil_bps: int
    """Maximum rate, including borrowed rate."""


@frozen
class PacedFlow:
    """A filter that assigns packets to a class."""

    source: str | None
    """Source of the packets; None: any."""
    destination: str | None
    """Destination of the packets; None: any."""
    place: int
    """Index of the class."""


@frozen(kw_only=True)
class Pacing:
    """The pacer of one direction of an emulated link."""

    rate_bps: int
    """Rate of the whole port."""
    classes: tuple[PacedClass, ...]
    """Classes, in file order; one class with the whole rate if the file has none."""
    flows: tuple[PacedFlow, ...]
    """Filters; the first match applies."""
    default: int | None
    """Class of packets that match no filter; None: such packets are not paced."""
    limit_bytes: int | None
    """Queue of each class; None: 1000 frames."""
    burst_bytes: int | None = None
    """Maximum burst above the rate; None: a late pacer catches up completely."""

    def stage(self) -> Stage:
        """Return the pacer as a stage of the agent (contract, wire.change)."""
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
        """Return the maximum memory of the pacer's queues."""
        return len(self.classes) * (self.limit_bytes or QUEUE_FRAMES * LONGEST_FRAME_BYTES)
