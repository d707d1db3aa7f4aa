"""What a metric is about, beside its name: at which load, of which flow, CPU, thread, port."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, lru_cache

from iolab.messages.statement import Name


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Where, when and of what a metric was taken. What is None does not apply: the metric is of the whole."""

    load_ratio: float | None = None
    """Offered load, of the rate that was found or given [ratio]."""
    flow: Name | None = None
    """Sender and receiver: near->far; the second flow with the same ends is near->far#2."""
    direction: Name | None = None
    """Of frames: from->to, both as machine.port."""
    machine: Name | None = None
    """The machine whose kernel has the CPU or thread; None: this computer, or the one that sends the frames."""
    port: Name | None = None
    """machine.port."""
    queue: int | None = None
    """Receive queue of the port, as the card numbers it."""
    cpu: int | None = None
    """Number of the CPU."""
    role: Name | None = None
    """What a thread does: device, guest, kernel, generator, receiver or napi."""
    thread: Name | None = None
    """Name of the thread, as the kernel calls it."""
    window_ns: int | None = None
    """Length of the windows that were looked at [ns]."""
    block_bytes: int | None = None
    """Of one read or write of a disk [bytes]."""
    depth: int | None = None
    """Reads and writes of a disk that are kept under way."""
    rate_bps: int | None = None
    """Of a token bucket, or of a line [bit/s]."""
    buffer_bytes: int | None = None
    """Depth of a buffer [bytes]."""
    section: Name | None = None
    """Of a job file that a disk program was given, as the file names it."""
    part: Name | None = None
    """A part of what is measured that no other dimension names."""

    def known(self) -> Mapping[str, str | int | float]:
        """Return the dimensions that apply, by name."""
        return {} if self is WHOLE else _known(self)

    @property
    def whole(self) -> bool:
        """Whether none applies."""
        return self == WHOLE


@lru_cache(maxsize=4096)
def _known(about: Dimensions) -> dict[str, str | int | float]:
    """A run has millions of metrics, about a few things; nobody changes what is given here."""
    found = {name: getattr(about, name) for name in names()}
    return {name: value for name, value in found.items() if value is not None}


WHOLE = Dimensions()
"""Of a metric that is of the whole trial."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all dimensions, in their order."""
    return tuple(field.name for field in fields(Dimensions))


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a metric or a series measures. Trials are compared in the quantities that they share."""

    name: Name
    """With its unit in it; docs/method defines each."""
    dimensions: Dimensions = WHOLE
    """What it is about."""

    def __str__(self) -> str:
        """Return the name and what it is about, for messages: cpu_busy_ratio (load_ratio 1.1, cpu 1)."""
        about = ", ".join(f"{name} {value}" for name, value in self.dimensions.known().items())
        return f"{self.name} ({about})" if about else self.name
