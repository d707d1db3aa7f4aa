"""Instruments that observe a measurement: one model per kind of instrument."""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetCoreSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from iolab.experiment.model.quantities import (
    FROZEN,
    BitsPerSecond,
    Count,
    Maybe,
    Period,
    Shorthand,
    SomeBytes,
    SomeWindow,
    Switch,
    unset,
)
from iolab.frozen import frozen
from iolab.registry.registry import instrument_kinds

SAMPLE_NS = 100_000_000
"""Interval between readings of counters; it is short enough to show a stall of 0.2 s [ns]."""


class WithInstrument(BaseModel):
    """Keys that all instruments have."""

    model_config = FROZEN
    kind: str
    """Kind of the instrument."""


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _item(listing: JsonSchemaValue) -> JsonSchemaValue:
    found: JsonSchemaValue = listing["items"]
    return found


class Watch(WithInstrument):
    """The wire monitor on one port or one link."""

    kind: Literal["watch"] = "watch"
    """Kind of the instrument."""
    at: str
    """The observed machine.port, or a link: all its ports."""
    window: Annotated[tuple[SomeWindow, ...], Shorthand(_listed, _item), Field(min_length=1)] = (
        12_000,
        100_000,
        1_000_000,
        10_000_000,
    )
    """Lengths of the windows in which bytes are counted, in whole microseconds; one length may be written without a
    list."""
    line: Maybe[BitsPerSecond] = None
    """Rate of an assumed line on which the frames are sent one after the other; default: no line, only arrival times
    count."""
    train_gap: Maybe[SomeWindow] = None
    """Maximum gap between the start times of two frames in one train; default: 1.5 times the transmission time of
    an MTU-sized frame on the line, or 5 us."""
    buffers: Annotated[tuple[SomeBytes, ...], Shorthand(_listed, _item)] = (
        16_384,
        32_768,
        65_536,
        131_072,
        524_288,
    )
    """Buffer sizes in front of the line, for which loss is predicted."""
    flows: Count = Field(default=0, ge=0, le=15)
    """Number of flows (by addresses, protocol and ports) that are counted separately, in windows of the shortest
    length: the first flows that arrive. All other flows are counted together."""


class CaptureFilter(BaseModel):
    """Selects the frames that a capture keeps: those that match all given keys."""

    model_config = FROZEN
    protocol: Maybe[Literal["tcp", "udp", "icmp", "icmpv6"]] = None
    """Protocol of the frames; default: any."""
    host: Maybe[str] = None
    """Source or destination: a machine, a machine.port or an address; default: any."""
    port: Maybe[Annotated[int, Field(strict=True, ge=1, le=65_535)]] = None
    """Source or destination port of TCP or UDP; default: any."""


class Capture(WithInstrument):
    """A pcapng capture of the most recent frames on a port, which Wireshark can open."""

    kind: Literal["capture"] = "capture"
    """Kind of the instrument."""
    at: str
    """The observed machine.port, or a link: all its ports."""
    snaplen: Annotated[SomeBytes, Field(le=65_558)] = 128
    """Number of bytes kept of each frame, from its start."""
    ring: Annotated[SomeBytes, Field(ge=1 << 20, le=1 << 30)] = 64 << 20
    """Size of the ring buffer for the frames of a port; new frames overwrite the oldest ones."""
    filter: CaptureFilter = unset(CaptureFilter)
    """Selects the frames that are kept; default: all."""


class Profile(WithInstrument):
    """A profiler (perf) of kernels: the functions in which each thread ran, and waits for kernel locks."""

    kind: Literal["profile"] = "profile"
    """Kind of the instrument."""
    on: tuple[str, ...] = ()
    """Machines whose kernels are profiled; default: hosts, and guests with `install: [linux-perf]`."""
    frequency: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 99
    """Samples per second and CPU; must not be a divisor of the frequency of the kernel's periodic work."""
    event: Literal["auto", "cpu-clock", "cycles"] = "auto"
    """Sampled event: CPU cycles, which also sample code with interrupts disabled, or the CPU clock; auto: cycles if
    available."""
    locks: Switch = "off"
    """Whether waits for kernel locks are recorded too: one event for each wait, with a higher overhead than samples."""


class Samplers(WithInstrument):
    """Periodic readings of the counters of every kernel in the lab."""

    kind: Literal["samplers"] = "samplers"
    """Kind of the instrument."""
    period: Period = SAMPLE_NS
    """Interval between readings."""


class Queues(WithInstrument):
    """The distribution of frames over the receive queues of the lab's NICs."""

    kind: Literal["queues"] = "queues"
    """Kind of the instrument."""


class Wires(WithInstrument):
    """Pacing accuracy of the lab's emulated links and pacers: whether frames were sent when they were due."""

    kind: Literal["wires"] = "wires"
    """Kind of the instrument."""


def _watched(value: object) -> object:
    return {"at": value} if isinstance(value, str) else value


def _named(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


@frozen
class Registered:
    """Marks a field that accepts any registered instrument; the kinds are known when a file is read."""

    @staticmethod
    def choices() -> Any:
        """Return the models of all instruments as one annotation."""
        models = reduce(or_, (kind.model for kind in instrument_kinds().values()))
        return Annotated[models, Field(discriminator="kind")]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.choices())


_TEXT = Shorthand(_watched, lambda _: {"type": "string"})

Watches = tuple[Annotated[Watch, _TEXT], ...]
"""A list of watches; the name of a port or link alone means a watch with default windows."""

Captures = tuple[Annotated[Capture, _TEXT], ...]
"""A list of captures; the name of a port or link alone means a capture with default sizes."""

Instruments = tuple[
    Annotated[WithInstrument, Registered(), Shorthand(_named, lambda _: {"type": "string"})], ...
]
"""A list of instruments; the name of a kind alone means that instrument with its defaults."""
