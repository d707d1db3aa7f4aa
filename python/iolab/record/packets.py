"""All load trials of one trial that sends frames, and the ports, places and search behind them."""

from dataclasses import dataclass

from iolab.statements.instrument import PathReason


@dataclass(frozen=True, slots=True)
class Tried:
    """What a path did on the ports at hand."""

    path: str
    """af_xdp or bpf_live."""
    ceiling_fps: float
    """What left of more than it can send, in one direction [frames/s]."""
    late_p90_ns: int | None = None
    """How late 90 % of the frames were at most, at the load of the comparison [ns]; None: it was not tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The path that was taken, and why."""

    path: str
    """As measures name it."""
    reasons: tuple[PathReason, ...]
    """With the figures."""
    tried: tuple[Tried, ...] = ()
    """What was compared."""
