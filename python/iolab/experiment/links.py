"""Links between ports, what they do to frames, and volumes."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from iolab.experiment.quantities import FROZEN, BitsPerSecond, Bytes, Nanoseconds

Switch = Literal["on", "off"]


class Offload(BaseModel):
    """Offloads of every port of a link; absent ones are left as the kernel made them."""

    model_config = FROZEN
    tx_checksum: Switch | None = None
    rx_checksum: Switch | None = None
    sg: Switch | None = None
    tso: Switch | None = None
    gso: Switch | None = None
    gro: Switch | None = None
    lro: Switch | None = None


class ShapeClass(BaseModel):
    """One class of a shaped port; `src` and `dst` are machines (or ports) whose addresses select its packets."""

    model_config = FROZEN
    rate: BitsPerSecond
    ceil: BitsPerSecond | None = None
    burst: Bytes | None = None
    cburst: Bytes | None = None
    src: str | None = Field(default=None, alias="from")
    dst: str | None = Field(default=None, alias="to")


class Shape(BaseModel):
    """Rate control at the egress of one port."""

    model_config = FROZEN
    at: str
    qdisc: Literal["htb", "tbf", "fq", "etf", "pacer"]
    rate: BitsPerSecond
    burst: Bytes | None = None
    limit: Bytes | None = None
    latency: Nanoseconds | None = None
    classes: dict[str, ShapeClass] = Field(default_factory=dict)
    default: str | None = None
    """Class for packets that no filter selects; absent: they pass unshaped."""


class Wire(BaseModel):
    """Emulated path, the same in both directions."""

    model_config = FROZEN
    delay: Nanoseconds = 0
    jitter: Nanoseconds = 0
    loss: float = Field(default=0.0, ge=0.0, le=1.0)
    rate: BitsPerSecond | None = None
    queue: Bytes | None = None


def _none_word(value: object) -> object:
    return None if value == "none" else value


class Link(BaseModel):
    """Two or more ports on one segment."""

    model_config = FROZEN
    ends: tuple[str, ...] = Field(min_length=2)
    """Ports as machine.port; on a cable the port is the interface's name."""
    mtu: int = Field(default=1500, ge=68, le=65535)
    vlan: Annotated[int | None, BeforeValidator(_none_word), Field(ge=1, le=4094)] = None
    offload: Offload = Offload()
    shape: Annotated[Shape | None, BeforeValidator(_none_word)] = None
    wire: Annotated[Wire | None, BeforeValidator(_none_word)] = None
    addresses: dict[str, str] = Field(default_factory=dict)
    """Address with prefix length per port; absent ports get one from 198.18.0.0/15 (RFC 2544)."""
    cable: bool = False
    """A cable that exists between real hosts: only addresses, MTU and offloads are set."""


class Volume(BaseModel):
    """A scratch file or LUN that the lab makes."""

    model_config = FROZEN
    size: Bytes = Field(gt=0)
    on: str
    export: Literal["iscsi", "nvme-tcp", "nbd"] | None = None
