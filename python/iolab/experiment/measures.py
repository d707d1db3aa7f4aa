"""What can be measured: one model per kind."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from iolab.experiment.quantities import FROZEN, BitsPerSecond, Bytes, Nanoseconds

Direction = Literal["one-way", "both-ways", "dual"]
"""both-ways: both directions at once through one iperf3 pair (--bidir); dual: two independent pairs at once."""


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


class Watch(BaseModel):
    """The wire monitor at one port."""

    model_config = FROZEN
    at: str
    window: Annotated[tuple[Nanoseconds, ...], BeforeValidator(_listed)]


class Flow(BaseModel):
    """One sender and one receiver: machines, or machine.port where a machine has several."""

    model_config = FROZEN
    src: str = Field(alias="from")
    dst: str = Field(alias="to")


class Stream(BaseModel):
    """TCP or UDP between machines, by iperf3."""

    model_config = FROZEN
    kind: Literal["stream"]
    protocol: Literal["tcp", "udp"] = "tcp"
    src: str | None = Field(default=None, alias="from")
    dst: str | None = Field(default=None, alias="to")
    on: str | None = None
    """The machine measured from, where `from` is absent."""
    flows: tuple[Flow, ...] = ()
    """Several flows at once; instead of from and to."""
    direction: Direction = "one-way"
    duration: Nanoseconds = Field(default=10_000_000_000, gt=0)
    warm_up: Nanoseconds = 0
    """Left out of the result, before `duration`."""
    rate: BitsPerSecond | None = None
    window: Bytes | None = None
    length: Bytes | None = None
    parallel: int = Field(default=1, ge=1, le=128)
    watch: tuple[Watch, ...] = ()


class Forwarding(BaseModel):
    """Highest rate with loss within `loss_ratio` (RFC 2544)."""

    model_config = FROZEN
    kind: Literal["forwarding"]
    src: str = Field(alias="from")
    dst: str = Field(alias="to")
    frame_size: int = Field(default=64, ge=64, le=9216)
    direction: Direction = "one-way"
    search: Literal["bisect", "mlr", "fast"] = "fast"
    loss_ratio: float = Field(default=0.0001, ge=0.0, lt=1.0)
    trial: Nanoseconds = Field(default=1_000_000_000, gt=0)
    watch: tuple[Watch, ...] = ()


class LoadCurve(BaseModel):
    """Forwarded rate, loss, latency and CPU against offered load."""

    model_config = FROZEN
    kind: Literal["load-curve"]
    src: str = Field(alias="from")
    dst: str = Field(alias="to")
    frame_size: int = Field(default=64, ge=64, le=9216)
    direction: Direction = "one-way"
    trial: Nanoseconds = Field(default=1_000_000_000, gt=0)
    watch: tuple[Watch, ...] = ()


class Latency(BaseModel):
    """One-way latency at a given rate."""

    model_config = FROZEN
    kind: Literal["latency"]
    src: str = Field(alias="from")
    dst: str = Field(alias="to")
    frame_size: int = Field(default=64, ge=64, le=9216)
    rate: BitsPerSecond
    duration: Nanoseconds = Field(default=10_000_000_000, gt=0)
    watch: tuple[Watch, ...] = ()


class DiskMeasure(BaseModel):
    """A disk program on a machine."""

    model_config = FROZEN
    kind: Literal["disk"]
    on: str
    program: Literal["hdparm", "thput-fsys", "bonnie++", "fio"]
    profile: str | None = None
    size: Bytes | None = None
    watch: tuple[Watch, ...] = ()


Measure = Annotated[Stream | Forwarding | LoadCurve | Latency | DiskMeasure, Field(discriminator="kind")]
