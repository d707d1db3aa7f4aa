"""Models of links between ports, of shapes and emulated links.

References are checked elsewhere.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_interface
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from iolab.errors import InputError, Problem
from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.quantities import (
    FROZEN,
    BitsPerSecond,
    Count,
    Delay,
    Flag,
    Maybe,
    PortRef,
    Shorthand,
    SomeBytes,
    SomeNanoseconds,
    Switch,
    unset,
)
from iolab.locale import Phrase, Text
from iolab.registry.qdiscs import LeafKind, QdiscKind
from iolab.units import UnitError


class Leaf(BaseModel):
    """The queue of a leaf class, which has no classes below it."""

    model_config = FROZEN
    qdisc: LeafKind = "pfifo"
    """The kernel's queueing discipline."""
    frames: Maybe[Annotated[int, Field(ge=1, le=1_000_000, strict=True)]] = None
    """Queue length [frames]; default: 1000."""


class ShapeClass(BaseModel):
    """A class of a shaped port; `from` and `to` (machines or ports) select its packets by address."""

    model_config = FROZEN
    parent: Maybe[str] = None
    """The parent class, whose rate includes the rate of this class; default: the port (htb)."""
    rate: BitsPerSecond
    """Guaranteed rate."""
    ceil: Maybe[BitsPerSecond] = None
    """Maximum rate, including borrowed rate; default: the guaranteed rate."""
    burst: Maybe[SomeBytes] = None
    """Burst at the guaranteed rate (htb)."""
    cburst: Maybe[SomeBytes] = None
    """Burst at the ceil (htb)."""
    quantum: Maybe[SomeBytes] = None
    """Bytes that the class may send per turn when classes borrow (htb); default: tc's default, the bytes of 0.1 s."""
    leaf: Maybe[Leaf] = None
    """Queue of the class (htb); default: a pfifo of 1000 frames, or a bfifo if the shape has a `limit`."""
    src: Maybe[str] = Field(default=None, alias="from")
    """Selects packets from this machine or port."""
    dst: Maybe[str] = Field(default=None, alias="to")
    """Selects packets to this machine or port."""

    @property
    def most_bps(self) -> int:
        """Maximum rate of the class [bit/s]."""
        return self.rate if self.ceil is None else self.ceil


class Shape(BaseModel):
    """Rate control on egress of one port."""

    model_config = FROZEN
    at: PortRef
    """The port, one of the link's ends."""
    qdisc: QdiscKind
    """The kernel's queueing discipline, or iolab's pacer."""
    rate: Maybe[BitsPerSecond] = None
    """Rate of the whole port (fq: of each connection); not used by disciplines without a rate."""
    burst: Maybe[SomeBytes] = None
    """Maximum burst (htb, tbf). pacer: maximum burst above the rate, to catch up after the pacer's thread had no CPU;
    longer delays reduce the mean rate; default: the pacer catches up completely and loses no rate."""
    limit: Maybe[SomeBytes] = None
    """Maximum queue length in bytes (tbf: either `limit` or `latency`; htb, pacer: per class)."""
    latency: Maybe[Delay] = None
    """Maximum queueing time (tbf)."""
    gso_max_segs: Maybe[Annotated[int, Field(ge=1, le=65535, strict=True)]] = None
    """Maximum number of frames in one GSO super-frame from this port's kernel; a shaper sends each super-frame at
    once; default: unchanged."""
    classes: dict[str, ShapeClass] = Field(default_factory=dict)
    """Classes by name; htb and pacer only."""
    default: Maybe[str] = None
    """Class for packets that no filter selects; default: these packets are not shaped."""

    def rates_between(self, source: str, target: str) -> list[int]:
        """Return the rate of the whole port, and the maximum rate of each class for packets between two machines
        [bit/s]."""

        def selects(ends: tuple[str | None, str | None]) -> bool:
            pairs = zip(ends, (source, target), strict=True)
            return all(end is None or end.partition(".")[0] == machine for end, machine in pairs)

        own = [one.most_bps for one in self.classes.values() if selects((one.src, one.dst))]
        return own if self.rate is None else [self.rate, *own]

    @property
    def rate_bps(self) -> int:
        """Return the rate of a discipline that requires a rate [bit/s].

        The check of the experiment file guarantees that the rate is set.

        Raises:
            InputError: the shape has no rate.
        """
        if self.rate is None:
            raise InputError(
                [
                    Problem(
                        "shape",
                        Phrase("check.shaping-by", qdisc=self.qdisc),
                        Phrase("check.no-rate"),
                        Phrase("check.a-rate"),
                        Phrase("check.add-rate"),
                    )
                ]
            )
        return self.rate

    def below(self, name: str | None) -> tuple[str, ...]:
        """Return the classes directly below a class; None: below the port."""
        return tuple(each for each, one in self.classes.items() if one.parent == name)


NETEM_KEYS = (
    "loss", "loss_bursts", "corrupt", "duplicate", "rate", "queue_frames", "delay", "jitter", "jitter_kind",
    "jitter_correlation", "overtake", "seed",
)  # fmt: skip
"""The impairment keys that the kernel's netem supports."""


class Wire(Impairments):
    """An emulated link: impairments of the frames in both directions, or in one direction."""

    emulator: Literal["auto", "iolab", "netem"] = "auto"
    """The emulator: iolab in user space, or the kernel's netem at each end. auto is iolab, which works on every kernel,
    has reproducible random decisions, and impairs the frames of super-frames individually."""
    sent_by: dict[PortRef, Impairments] = Field(default_factory=dict)
    """Impairments of the frames that an end sends, by end; they override the same keys of `wire`."""

    def way(self, sender: PortRef) -> Impairments:
        """Return the impairments of frames that an end sends."""
        own = {key: getattr(self, key) for key in Impairments.model_fields if key in self.model_fields_set}
        other = self.sent_by.get(sender)
        if other is not None:
            own |= {key: getattr(other, key) for key in other.model_fields_set}
        return Impairments.model_construct(_fields_set=set(own), **own)

    def ways(self, ends: tuple[PortRef, ...]) -> Mapping[PortRef, Impairments]:
        """Return the impairments of frames that each end sends."""
        return {end: self.way(end) for end in ends}

    def senseless(self, ends: tuple[PortRef, ...]) -> Iterator[tuple[tuple[str, ...], Text, Text]]:
        """Yield conflicting settings: the place, its value, and what is allowed."""
        told: set[Text] = set()
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
                        Phrase("check.key-with-netem", key=key),
                        Phrase("check.key-of-emulator-iolab", netem_keys=[*NETEM_KEYS]),
                    )
            if way.in_frames:
                yield (
                    ("rate",),
                    Phrase("check.rate-with-netem", rate=way.rate),
                    Phrase("check.rate-in-bits"),
                )


ADDRESS_ALLOWED = Phrase("check.address-with-prefix-length")


def _address(value: str) -> str:
    for part in (one.strip() for one in value.split(",")):
        try:
            found = ip_interface(part)
        except ValueError as error:
            raise UnitError(value, ADDRESS_ALLOWED) from error
        if "/" not in part:
            length = 24 if found.version == 4 else 64
            raise UnitError(
                value, ADDRESS_ALLOWED, Phrase("check.did-you-mean-network", network=part, length=length)
            )
    return value


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Address = Annotated[str, AfterValidator(_address)]
"""An IP address with its prefix length, or one address of each IP version, separated by a comma."""


class SendOffload(BaseModel):
    """Offloads on the path from the stack to the children's interfaces; default: the kernel's setting."""

    model_config = FROZEN
    tx_checksum: Maybe[Switch] = None
    """Checksum offload of sent packets (ethtool: tx)."""
    sg: Maybe[Switch] = None
    """Scatter-gather: sent packets may be in several pieces of memory."""
    tso: Maybe[Switch] = None
    """TCP segmentation by the interface."""
    gso: Maybe[Switch] = None
    """Segmentation just before the interface."""


class Offload(BaseModel):
    """Offloads of every port of a link; default: the kernel's setting."""

    model_config = FROZEN
    tx_checksum: Maybe[Switch] = None
    """Checksum offload of sent packets (ethtool: tx)."""
    rx_checksum: Maybe[Switch] = None
    """Checksum offload of received packets (ethtool: rx)."""
    sg: Maybe[Switch] = None
    """Scatter-gather: sent packets may be in several pieces of memory."""
    tso: Maybe[Switch] = None
    """TCP segmentation by the interface."""
    gso: Maybe[Switch] = None
    """Segmentation just before the interface."""
    gro: Maybe[Switch] = None
    """Merging of received packets before the stack."""
    lro: Maybe[Switch] = None
    """Merging of received packets by the interface."""


LinkJoin = Literal["veth", "bridge", "macvlan", "ipvlan"]
"""Link types: how the ends of a link are joined."""

TunnelKind = Literal["vxlan", "gre", "gretap", "wireguard"]
"""Tunnel types, which encapsulate packets, or frames (vxlan, gretap), on the link below."""

BondMode = Literal[
    "balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"
]
"""Bonding modes, as named by the kernel."""

HashPolicy = Literal["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"]
"""Packet fields that select the bond's link for a packet (xmit_hash_policy)."""

JoinMode = Literal["bridge", "l2", "l3", "l3s"]
"""How macvlan or ipvlan interfaces on one parent interface exchange frames."""


class KnownPath(BaseModel):
    """Known properties of an existing path, only for reports, which show them with the results."""

    model_config = FROZEN
    rate: BitsPerSecond
    """Capacity in each direction."""
    rtt: SomeNanoseconds
    """Round-trip time without load [ns]."""


class Link(BaseModel):
    """Two or more ports on one segment."""

    model_config = FROZEN
    ends: tuple[PortRef, ...] = Field(min_length=2)
    """Ports as machine.port; on a cable the port is the name of the interface."""
    mtu: Maybe[Annotated[Count, Field(ge=68, le=65535)]] = 1500
    """Maximum IP packet size [bytes]; default on a link over a different link: the size that the encapsulation
    leaves."""
    vlan: Maybe[Annotated[int, Field(ge=1, le=4094, strict=True)]] = None
    """IEEE 802.1Q tag on this link."""
    offload: Offload = unset(Offload)
    """Offloads of the interfaces."""
    host_offload: SendOffload = unset(SendOffload)
    """On a link between a machine and its children: offloads of the machine's interface to each child (a tap, a vif),
    and of its bridge port."""
    shape: Maybe[Shape] = None
    """Rate control on one port."""
    wire: Maybe[Wire] = None
    """Emulated link between the ends."""
    addresses: dict[str, Address] = Field(default_factory=dict)
    """Address with prefix length per port; default: from 198.18.0.0/15 (RFC 2544) and 2001:2::/48 (RFC 5180)."""
    ip: Literal[4, 6, "both"] = 4
    """IP version of the ports' addresses; both: each port has two addresses, and measures select one with their key
    `ip`."""
    cable: Flag = False
    """Whether the link is an existing cable between real hosts: only addresses, MTU and offloads are set."""
    path: Maybe[KnownPath] = None
    """Known properties of a cable's path: reports compare window sweeps with its bandwidth-delay product."""
    join: Maybe[LinkJoin] = None
    """Link type; default: a veth pair for two ends, a bridge for more; the NIC type of guests determines the rest."""
    mode: Maybe[JoinMode] = None
    """Mode: bridge for macvlan; l2 (default), l3 or l3s for ipvlan."""
    over: Annotated[tuple[str, ...], Shorthand(_listed, lambda _: {"type": "string"})] = ()
    """The link or links below, whose ports carry this link: a bond uses all of them, a tunnel uses the link on which
    its machine has a port."""
    tunnel: Maybe[TunnelKind] = None
    """Encapsulation over the link below; none: no encapsulation, and the ports are those of the link below."""
    id: Maybe[Annotated[int, Field(ge=0, lt=1 << 32, strict=True)]] = None
    """Tunnel identifier: the VNI of vxlan (default: a unique number), or the key of gre (default: none)."""
    bond: Maybe[BondMode] = None
    """Bonding mode of the links below; none: only the first link is used."""
    hash: Maybe[HashPolicy] = None
    """Transmit hash policy of a bond; default: the kernel's setting."""

    @model_validator(mode="before")
    @classmethod
    def _sized(cls, data: object) -> object:
        """Leave the MTU of a link over a different link undefined if the file does not set it."""
        over = isinstance(data, Mapping) and data.get("over") and "mtu" not in data
        return {**data, "mtu": None} if isinstance(data, Mapping) and over else data
