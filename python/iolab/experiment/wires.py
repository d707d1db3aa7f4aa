"""The `wire:` of a link: what happens to the frames of each direction, and what does it."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from iolab.experiment.impairments import Impairments
from iolab.experiment.port_ref import PortRef

NETEM_KEYS = (
    "loss", "loss_bursts", "corrupt", "duplicate", "rate", "queue_frames", "delay", "jitter", "jitter_kind",
    "jitter_correlation", "overtake", "seed",
)  # fmt: skip
"""What the kernel's netem can do, of all keys."""


class Wire(Impairments):
    """An emulated path: what happens to the frames of both directions, or of one."""

    emulator: Literal["auto", "iolab", "netem"] = "auto"
    """What does it: iolab in user space, or the kernel's netem at each end. auto is iolab: it works on every kernel,
    repeats its decisions, and impairs the frames of super-frames one by one."""
    sent_by: dict[PortRef, Impairments] = Field(default_factory=dict)
    """By end: what holds for the frames that it sends, in place of the same keys of the wire."""

    def way(self, sender: PortRef) -> Impairments:
        """Return what happens to the frames that an end sends."""
        own = {key: getattr(self, key) for key in Impairments.model_fields if key in self.model_fields_set}
        other = self.sent_by.get(sender)
        if other is not None:
            own |= {key: getattr(other, key) for key in other.model_fields_set}
        return Impairments.model_construct(_fields_set=set(own), **own)

    def ways(self, ends: tuple[PortRef, ...]) -> Mapping[PortRef, Impairments]:
        """Return what happens to the frames of each end."""
        return {end: self.way(end) for end in ends}

    def senseless(self, ends: tuple[PortRef, ...]) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Give what makes no sense together: the place, what is there, and what is allowed."""
        told: set[str] = set()
        for end, way in self.ways(ends).items():
            for key, seen, allowed in way.problems():
                place = ("sent_by", end, key) if end in self.sent_by else (key,)
                if seen not in told:
                    yield place, seen, allowed
                told.add(seen)
            if self.emulator != "netem":
                continue
            default = Impairments()
            for key in Impairments.model_fields:
                if key not in NETEM_KEYS and getattr(way, key) != getattr(default, key) and key not in told:
                    told.add(key)
                    yield (
                        (key,),
                        f"{key} with emulator: netem",
                        f"emulator: iolab, or {', '.join(NETEM_KEYS)}",
                    )
            if way.in_frames:
                yield ("rate",), f"a rate of {way.rate} with emulator: netem", "a rate in bits (10Mbit)"
