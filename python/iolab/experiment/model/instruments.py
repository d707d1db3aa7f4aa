"""What can stand beside a measure: one model per kind of instrument."""

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
"""How often counters are read: often enough to show an interruption of a fifth of a second [ns]."""


class WithInstrument(BaseModel):
    """What all instruments have in common."""

    model_config = FROZEN
    kind: str
    """What stands beside the measure."""


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _item(listing: JsonSchemaValue) -> JsonSchemaValue:
    found: JsonSchemaValue = listing["items"]
    return found


class Watch(WithInstrument):
    """The wire monitor at one port or on one link."""

    kind: Literal["watch"] = "watch"
    """What stands beside the measure."""
    at: str
    """A machine.port, or a link for all its ports."""
    window: Annotated[tuple[SomeWindow, ...], Shorthand(_listed, _item), Field(min_length=1)] = (
        12_000,
        100_000,
        1_000_000,
        10_000_000,
    )
    """Bytes are counted per window of each of these lengths, whole microseconds; one length may stand alone."""
    line: Maybe[BitsPerSecond] = None
    """Rate of the line that frames are thought to be on, one behind the other; absent: only as they come."""
    train_gap: Maybe[SomeWindow] = None
    """Frames that begin closer to each other than that are one train; absent: 1.5 times what a frame of the link's MTU
    takes on the line, or 5 us."""
    buffers: Annotated[tuple[SomeBytes, ...], Shorthand(_listed, _item)] = (
        16_384,
        32_768,
        65_536,
        131_072,
        524_288,
    )
    """Depths of buffers before the line, whose loss is predicted."""
    flows: Count = Field(default=0, ge=0, le=15)
    """How many flows are counted apart by addresses, protocol and ports, in windows of the shortest length: the first
    ones that come. All others are one."""


class CaptureFilter(BaseModel):
    """Which frames a capture keeps: those for which all that is written holds."""

    model_config = FROZEN
    protocol: Maybe[Literal["tcp", "udp", "icmp", "icmpv6"]] = None
    """Of this protocol; absent: of any."""
    host: Maybe[str] = None
    """From or to a machine, a machine.port, or an address; absent: from and to anybody."""
    port: Maybe[Annotated[int, Field(strict=True, ge=1, le=65_535)]] = None
    """From or to this port of TCP or UDP; absent: any."""


class Capture(WithInstrument):
    """The newest frames of a port as a pcapng file, which Wireshark opens."""

    kind: Literal["capture"] = "capture"
    """What stands beside the measure."""
    at: str
    """A machine.port, or a link for all its ports."""
    snaplen: Annotated[SomeBytes, Field(le=65_558)] = 128
    """What is kept of each frame, from its beginning."""
    ring: Annotated[SomeBytes, Field(ge=1 << 20, le=1 << 30)] = 64 << 20
    """Memory for the frames of a port: the oldest make room for new ones."""
    filter: CaptureFilter = unset(CaptureFilter)
    """Which frames are kept; absent: all."""


class Profile(WithInstrument):
    """A profiler (perf) of kernels: in which functions each thread ran, and where the kernel waited for locks."""

    kind: Literal["profile"] = "profile"
    """What stands beside the measure."""
    on: tuple[str, ...] = ()
    """Machines whose kernels are looked at. Absent: computers, and guests that `install: [linux-perf]`."""
    frequency: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 99
    """Samples of each CPU in a second; not a divisor of what the kernel itself does at regular times."""
    event: Literal["auto", "cpu-clock", "cycles"] = "auto"
    """What is sampled: cycles of a CPU, which see code that takes no interrupts, or its clock; auto: what there is."""
    locks: Switch = "off"
    """Whether waits for the kernel's locks are recorded too: an event each, which costs more than samples do."""


class Samplers(WithInstrument):
    """The counters of every kernel of the lab, read at one period."""

    kind: Literal["samplers"] = "samplers"
    """What stands beside the measure."""
    period: Period = SAMPLE_NS
    """From one reading to the next."""


class Queues(WithInstrument):
    """The receive queues of the lab's cards: which of them took the frames."""

    kind: Literal["queues"] = "queues"
    """What stands beside the measure."""


class Wires(WithInstrument):
    """The emulated paths and pacers of the lab: whether frames left when they were due."""

    kind: Literal["wires"] = "wires"
    """What stands beside the measure."""


def _watched(value: object) -> object:
    return {"at": value} if isinstance(value, str) else value


def _named(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


@frozen
class Registered:
    """Marks a place where any registered instrument may stand; which there are is known when a file is read."""

    @staticmethod
    def choices() -> Any:
        """Return the models of all instruments as one annotation."""
        models = reduce(or_, (kind.model for kind in instrument_kinds().values()))
        return Annotated[models, Field(discriminator="kind")]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.choices())


_TEXT = Shorthand(_watched, lambda _: {"type": "string"})

Watches = tuple[Annotated[Watch, _TEXT], ...]
"""A port or link's name alone is watched with the usual windows."""

Captures = tuple[Annotated[Capture, _TEXT], ...]
"""A port or link's name alone is captured with the usual sizes."""

Instruments = tuple[
    Annotated[WithInstrument, Registered(), Shorthand(_named, lambda _: {"type": "string"})], ...
]
"""Any instruments; the name of a kind alone is that kind with what it has where keys are absent."""
