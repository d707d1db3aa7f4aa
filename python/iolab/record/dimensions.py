"""What a metric is about, beside its name: at which load, of which flow, CPU, thread, port."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Where, when and of what a metric was taken. What is None does not apply: the metric is of the whole."""

    load_ratio: float | None = None
    """Offered load, of the rate that was found or given [ratio]."""
    flow: str | None = None
    """Sender and receiver: near->far; the second flow with the same ends is near->far#2."""
    direction: str | None = None
    """Of frames: from->to, both as machine.port."""
    machine: str | None = None
    """The machine whose kernel has the CPU or thread; None: this computer, or the one that sends the frames."""
    port: str | None = None
    """machine.port."""
    queue: int | None = None
    """Receive queue of the port, as the card numbers it."""
    cpu: int | None = None
    """Number of the CPU."""
    role: str | None = None
    """What a thread does: device, guest, kernel, generator, receiver or napi."""
    thread: str | None = None
    """Name of the thread, as the kernel calls it."""
    window_ns: int | None = None
    """Length of the windows that were looked at [ns]."""
    block_bytes: int | None = None
    """Of one read or write of a disk [bytes]."""
    part: str | None = None
    """A part of what is measured that no other dimension names."""

    def known(self) -> Mapping[str, str | int | float]:
        """Return the dimensions that apply, by name."""
        found = {name: getattr(self, name) for name in names()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def whole(self) -> bool:
        """Whether none applies."""
        return self == WHOLE


WHOLE = Dimensions()
"""Of a metric that is of the whole trial."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all dimensions, in their order."""
    return tuple(field.name for field in fields(Dimensions))


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a metric or a series measures. Trials are compared in the quantities that they share."""

    name: str
    """With its unit in it; docs/method defines each."""
    dimensions: Dimensions = WHOLE
    """What it is about."""

    def __str__(self) -> str:
        """Return the name and what it is about, for messages: cpu_busy_ratio (load_ratio 1.1, cpu 1)."""
        about = ", ".join(f"{name} {value}" for name, value in self.dimensions.known().items())
        return f"{self.name} ({about})" if about else self.name
