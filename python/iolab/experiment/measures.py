"""What can be measured: one model per kind."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import JsonSchemaValue

from iolab.experiment.quantities import (
    FROZEN,
    BitsPerSecond,
    Count,
    Maybe,
    Nanoseconds,
    Ratio,
    Shorthand,
    SomeBytes,
    SomeNanoseconds,
)

Direction = Literal["one-way", "both-ways", "dual"]
"""both-ways: both directions at once through one iperf3 pair (--bidir); dual: two independent pairs at once."""


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _item(listing: JsonSchemaValue) -> JsonSchemaValue:
    found: JsonSchemaValue = listing["items"]
    return found


class Watch(BaseModel):
    """The wire monitor at one port or on one link."""

    model_config = FROZEN
    at: str
    """A machine.port, or a link for all its ports."""
    window: Annotated[tuple[SomeNanoseconds, ...], Shorthand(_listed, _item), Field(min_length=1)] = (
        12_000,
        100_000,
        1_000_000,
        10_000_000,
    )
    """Bytes are counted per window of each of these lengths; one length may stand alone."""


def _watched(value: object) -> object:
    return {"at": value} if isinstance(value, str) else value


Watches = tuple[Annotated[Watch, Shorthand(_watched, lambda _: {"type": "string"})], ...]
"""A port or link's name alone is watched with the usual windows."""


class Flow(BaseModel):
    """One sender and one receiver: machines, or machine.port where a machine has several."""

    model_config = FROZEN
    src: str = Field(alias="from")
    """Sender."""
    dst: str = Field(alias="to")
    """Receiver."""


class Stream(BaseModel):
    """TCP or UDP between machines, by iperf3."""

    model_config = FROZEN
    kind: Literal["stream"]
    """What is measured."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """What carries it."""
    src: Maybe[str] = Field(default=None, alias="from")
    """Sender: a machine, or machine.port."""
    dst: Maybe[str] = Field(default=None, alias="to")
    """Receiver: a machine, or machine.port."""
    on: Maybe[str] = None
    """The machine measured from, where `from` is absent."""
    flows: tuple[Flow, ...] = ()
    """Several flows at once; instead of from and to."""
    direction: Direction = "one-way"
    """Who sends."""
    duration: SomeNanoseconds = 10_000_000_000
    """Of the measurement."""
    warm_up: Nanoseconds = 0
    """Left out of the result, before `duration`."""
    rate: Maybe[BitsPerSecond] = None
    """Intended rate; absent: as fast as it goes."""
    window: Maybe[SomeBytes] = None
    """Socket buffers, which bound the TCP window; absent: the kernel tunes them."""
    length: Maybe[SomeBytes] = None
    """Bytes per write, for UDP per datagram; absent: what fits the path's MTU."""
    parallel: Count = Field(default=1, ge=1, le=128)
    """Connections per flow."""
    watch: Watches = ()
    """Wire monitors."""


class Forwarding(BaseModel):
    """Highest rate with loss within `loss_ratio` (RFC 2544)."""

    model_config = FROZEN
    kind: Literal["forwarding"]
    """What is measured."""
    src: str = Field(alias="from")
    """Sender."""
    dst: str = Field(alias="to")
    """Receiver."""
    frame_size: Count = Field(default=64, ge=64, le=9216)
    """Ethernet frame with its checksum (RFC 2544) [bytes]."""
    direction: Direction = "one-way"
    """Who sends."""
    search: Literal["bisect", "mlr", "fast"] = "fast"
    """How the highest rate is looked for: RFC 2544 bisection, MLRsearch, or iolab's own."""
    loss_ratio: Ratio = 0.0001
    """Acceptable loss."""
    trial: SomeNanoseconds = 1_000_000_000
    """Length of one trial of the search."""
    watch: Watches = ()
    """Wire monitors."""


class LoadCurve(BaseModel):
    """Forwarded rate, loss, latency and CPU against offered load."""

    model_config = FROZEN
    kind: Literal["load-curve"]
    """What is measured."""
    src: str = Field(alias="from")
    """Sender."""
    dst: str = Field(alias="to")
    """Receiver."""
    frame_size: Count = Field(default=64, ge=64, le=9216)
    """Ethernet frame with its checksum (RFC 2544) [bytes]."""
    direction: Direction = "one-way"
    """Who sends."""
    trial: SomeNanoseconds = 1_000_000_000
    """Length of one trial of the search."""
    watch: Watches = ()
    """Wire monitors."""


class Latency(BaseModel):
    """One-way latency at a given rate."""

    model_config = FROZEN
    kind: Literal["latency"]
    """What is measured."""
    src: str = Field(alias="from")
    """Sender."""
    dst: str = Field(alias="to")
    """Receiver."""
    frame_size: Count = Field(default=64, ge=64, le=9216)
    """Ethernet frame with its checksum (RFC 2544) [bytes]."""
    rate: BitsPerSecond
    """Intended rate."""
    duration: SomeNanoseconds = 10_000_000_000
    """Of the measurement."""
    watch: Watches = ()
    """Wire monitors."""


class DiskMeasure(BaseModel):
    """A disk program on a machine."""

    model_config = FROZEN
    kind: Literal["disk"]
    """What is measured."""
    on: str
    """The machine whose disk is measured."""
    program: Literal["hdparm", "thput-fsys", "bonnie++", "fio"]
    """What measures."""
    profile: Maybe[str] = None
    """A named set of the program's options; absent: its defaults."""
    size: Maybe[SomeBytes] = None
    """How much is written and read; absent: the program's default."""
    watch: Watches = ()
    """Wire monitors."""


Measure = Annotated[Stream | Forwarding | LoadCurve | Latency | DiskMeasure, Field(discriminator="kind")]
