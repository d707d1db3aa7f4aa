"""Rate control at one port: a queueing discipline of the kernel, or iolab's own pacer. The models only."""

from typing import Annotated

from pydantic import BaseModel, Field

from iolab.errors import InputError, Problem
from iolab.experiment.port_ref import PortRef
from iolab.experiment.quantities import FROZEN, BitsPerSecond, Delay, Maybe, SomeBytes
from iolab.registry.qdiscs import LeafKind, QdiscKind


class Leaf(BaseModel):
    """The queue of a class that has no classes below it."""

    model_config = FROZEN
    qdisc: LeafKind = "pfifo"
    """The kernel's queueing discipline."""
    frames: Maybe[Annotated[int, Field(ge=1, le=1_000_000, strict=True)]] = None
    """What may wait; absent: 1000."""


class ShapeClass(BaseModel):
    """One class of a shaped port; the addresses of `from` and `to` (machines or ports) select its packets."""

    model_config = FROZEN
    parent: Maybe[str] = None
    """The class that it is below, of whose rate its own is a part; absent: the port (htb)."""
    rate: BitsPerSecond
    """What it is sure to get."""
    ceil: Maybe[BitsPerSecond] = None
    """What it may borrow up to; absent: its rate."""
    burst: Maybe[SomeBytes] = None
    """What it may send at once at its rate (htb)."""
    cburst: Maybe[SomeBytes] = None
    """What it may send at once at its ceil (htb)."""
    quantum: Maybe[SomeBytes] = None
    """What it sends in a turn when classes borrow (htb); absent: a tenth of a second's rate, as tc has it."""
    leaf: Maybe[Leaf] = None
    """Its queue (htb); absent: a pfifo of 1000 frames, or a bfifo where the shape has a `limit`."""
    src: Maybe[str] = Field(default=None, alias="from")
    """Selects packets from this machine or port."""
    dst: Maybe[str] = Field(default=None, alias="to")
    """Selects packets to this machine or port."""

    @property
    def most_bps(self) -> int:
        """What it may have [bit/s]."""
        return self.rate if self.ceil is None else self.ceil


class Shape(BaseModel):
    """Rate control at the egress of one port."""

    model_config = FROZEN
    at: PortRef
    """The port, one of the link's ends."""
    qdisc: QdiscKind
    """The kernel's queueing discipline, or iolab's own pacer."""
    rate: Maybe[BitsPerSecond] = None
    """Of the port as a whole (fq: of each connection); absent with disciplines that have none."""
    burst: Maybe[SomeBytes] = None
    """What may be sent at once (htb, tbf). pacer: what leaves at most above the rate, when its thread had no CPU and
    catches up; what is later than that is lost to the rate. Absent: all is caught up, and nothing is lost."""
    limit: Maybe[SomeBytes] = None
    """Longest queue (tbf: either this or latency; htb, pacer: of each class)."""
    latency: Maybe[Delay] = None
    """Longest time in the queue (tbf)."""
    gso_max_segs: Maybe[Annotated[int, Field(ge=1, le=65535, strict=True)]] = None
    """Most frames in one super-frame that this port's kernel makes: a shaper passes each at once; absent: as it is."""
    classes: dict[str, ShapeClass] = Field(default_factory=dict)
    """By name; htb and pacer only."""
    default: Maybe[str] = None
    """Class for packets that no filter selects; absent: they pass unshaped."""

    @property
    def rate_bps(self) -> int:
        """Return the rate of a discipline that takes one [bit/s]; checking the file has seen to it.

        Raises:
            InputError: there is none.
        """
        if self.rate is None:
            raise InputError(
                [Problem("shape", f"shaping by {self.qdisc}", "no rate", "a rate", "add rate: ...")]
            )
        return self.rate

    def below(self, name: str | None) -> tuple[str, ...]:
        """Return the classes directly below a class; None: below the port."""
        return tuple(each for each, one in self.classes.items() if one.parent == name)
