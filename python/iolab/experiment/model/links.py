"""Links between ports, their shapes and emulated paths, and volumes: the models only.

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
    BlockBytes,
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
    """The queue of a class that has no classes below it."""

    model_config = FROZEN
    qdisc: LeafKind = "pfifo"
    """The kernel's queueing discipline."""
    frames: Maybe[Annotated[int, Field(ge=1, le=1_000_000, strict=True)]] = None
    """What may wait; absent: 1000."""


class ShapeClass(BaseModel):
    """One class of a shaped port; the addresses of `from` and `to` (machines or ports) select its packets."""

    model_config = FROZEN
    parent: Maybe[str] = None
    """The class that it is below, of whose rate its own is a part; absent: the port (htb)."""
    rate: BitsPerSecond
    """What it is sure to get."""
    ceil: Maybe[BitsPerSecond] = None
    """What it may borrow up to; absent: its rate."""
    burst: Maybe[SomeBytes] = None
    """What it may send at once at its rate (htb)."""
    cburst: Maybe[SomeBytes] = None
    """What it may send at once at its ceil (htb)."""
    quantum: Maybe[SomeBytes] = None
    """What it sends in a turn when classes borrow (htb); absent: a tenth of a second's rate, as tc has it."""
    leaf: Maybe[Leaf] = None
    """Its queue (htb); absent: a pfifo of 1000 frames, or a bfifo where the shape has a `limit`."""
    src: Maybe[str] = Field(default=None, alias="from")
    """Selects packets from this machine or port."""
    dst: Maybe[str] = Field(default=None, alias="to")
    """Selects packets to this machine or port."""

    @property
    def most_bps(self) -> int:
        """What it may have [bit/s]."""
        return self.rate if self.ceil is None else self.ceil


class Shape(BaseModel):
    """Rate control at the egress of one port."""

    model_config = FROZEN
    at: PortRef
    """The port, one of the link's ends."""
    qdisc: QdiscKind
    """The kernel's queueing discipline, or iolab's own pacer."""
    rate: Maybe[BitsPerSecond] = None
    """Of the port as a whole (fq: of each connection); absent with disciplines that have none."""
    burst: Maybe[SomeBytes] = None
    """What may be sent at once (htb, tbf). pacer: what leaves at most above the rate, when its thread had no CPU and
    catches up; what is later than that is lost to the rate. Absent: all is caught up, and nothing is lost."""
    limit: Maybe[SomeBytes] = None
    """Longest queue (tbf: either this or latency; htb, pacer: of each class)."""
    latency: Maybe[Delay] = None
    """Longest time in the queue (tbf)."""
    gso_max_segs: Maybe[Annotated[int, Field(ge=1, le=65535, strict=True)]] = None
    """Most frames in one super-frame that this port's kernel makes: a shaper passes each at once; absent: as it is."""
    classes: dict[str, ShapeClass] = Field(default_factory=dict)
    """By name; htb and pacer only."""
    default: Maybe[str] = None
    """Class for packets that no filter selects; absent: they pass unshaped."""

    @property
    def rate_bps(self) -> int:
        """Return the rate of a discipline that takes one [bit/s]; checking the file has seen to it.

        Raises:
            InputError: there is none.
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

    def senseless(self, ends: tuple[PortRef, ...]) -> Iterator[tuple[tuple[str, ...], Text, Text]]:
        """Give what makes no sense together: the place, what is there, and what is allowed."""
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
"""An IP address with its prefix length, or one of each version by a comma."""


class SendOffload(BaseModel):
    """What finishes frames for the stack on the way to one's children; absent: as the kernel made it."""

    model_config = FROZEN
    tx_checksum: Maybe[Switch] = None
    """Checksums of packets sent (ethtool: tx)."""
    sg: Maybe[Switch] = None
    """Scatter-gather: packets sent from several pieces of memory."""
    tso: Maybe[Switch] = None
    """TCP segmentation by the interface."""
    gso: Maybe[Switch] = None
    """Segmentation just before the interface."""


class Offload(BaseModel):
    """Offloads of every port of a link; absent ones are left as the kernel made them."""

    model_config = FROZEN
    tx_checksum: Maybe[Switch] = None
    """Checksums of packets sent (ethtool: tx)."""
    rx_checksum: Maybe[Switch] = None
    """Checksums of packets received (ethtool: rx)."""
    sg: Maybe[Switch] = None
    """Scatter-gather: packets sent from several pieces of memory."""
    tso: Maybe[Switch] = None
    """TCP segmentation by the interface."""
    gso: Maybe[Switch] = None
    """Segmentation just before the interface."""
    gro: Maybe[Switch] = None
    """Joining of received packets before the stack."""
    lro: Maybe[Switch] = None
    """Joining of received packets by the interface."""


LinkJoin = Literal["veth", "bridge", "macvlan", "ipvlan"]
"""How the ends of a link meet."""

TunnelKind = Literal["vxlan", "gre", "gretap", "wireguard"]
"""What wraps packets, or frames (vxlan, gretap), on their way over another link."""

BondMode = Literal[
    "balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"
]
"""How a bond uses its links, in the kernel's words."""

HashPolicy = Literal["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"]
"""What of a packet chooses the link of a bond that it takes (xmit_hash_policy)."""

JoinMode = Literal["bridge", "l2", "l3", "l3s"]
"""How macvlans or ipvlans on one interface pass frames among them."""


class KnownPath(BaseModel):
    """What is known of a path that is there: it is reported beside results, and nothing is made of it."""

    model_config = FROZEN
    rate: BitsPerSecond
    """What it carries in each direction."""
    rtt: SomeNanoseconds
    """Its round-trip time without load [ns]."""


class Link(BaseModel):
    """Two or more ports on one segment."""

    model_config = FROZEN
    ends: tuple[PortRef, ...] = Field(min_length=2)
    """Ports as machine.port; on a cable the port is the interface's name."""
    mtu: Maybe[Annotated[Count, Field(ge=68, le=65535)]] = 1500
    """Largest IP packet [bytes]; absent on a link over another: what that leaves room for."""
    vlan: Maybe[Annotated[int, Field(ge=1, le=4094, strict=True)]] = None
    """IEEE 802.1Q tag on this link."""
    offload: Offload = unset(Offload)
    """What the interfaces do for the kernel."""
    host_offload: SendOffload = unset(SendOffload)
    """On a link to a machine's own children: offloads of its side of each (a tap, a vif), and of its bridge to them."""
    shape: Maybe[Shape] = None
    """Rate control at one port."""
    wire: Maybe[Wire] = None
    """Emulated path between the ends."""
    addresses: dict[str, Address] = Field(default_factory=dict)
    """Address with prefix length per port; absent: from 198.18.0.0/15 (RFC 2544), 2001:2::/48 (RFC 5180)."""
    ip: Literal[4, 6, "both"] = 4
    """Version of IP of its ports' addresses; both: each has two, and measures choose by their own `ip`."""
    cable: Flag = False
    """A cable that exists between real hosts: only addresses, MTU and offloads are set."""
    path: Maybe[KnownPath] = None
    """What is known of the path of a cable: window sweeps are reported beside its bandwidth-delay product."""
    join: Maybe[LinkJoin] = None
    """How the ends meet; absent: a veth pair joins two, a bridge more, and guests' cards bring what they need."""
    mode: Maybe[JoinMode] = None
    """bridge for macvlan; l2, l3 or l3s for ipvlan; absent: bridge, l2."""
    over: Annotated[tuple[str, ...], Shorthand(_listed, lambda _: {"type": "string"})] = ()
    """The link whose ports carry this one, or several: of a bond all, of a tunnel that which a machine has."""
    tunnel: Maybe[TunnelKind] = None
    """What wraps the packets of a link over another; none: nothing, its ports are those of the link below."""
    id: Maybe[Annotated[int, Field(ge=0, lt=1 << 32, strict=True)]] = None
    """Of a tunnel: the VNI of vxlan (absent: one of its own), the key of gre (absent: none)."""
    bond: Maybe[BondMode] = None
    """How the links below are one; none: the first of them is all."""
    hash: Maybe[HashPolicy] = None
    """Of a bond that balances by it: what of a packet chooses its link; absent: as the kernel made it."""

    @model_validator(mode="before")
    @classmethod
    def _sized(cls, data: object) -> object:
        """Leave the size of a link over another open, where none is written."""
        over = isinstance(data, Mapping) and data.get("over") and "mtu" not in data
        return {**data, "mtu": None} if isinstance(data, Mapping) and over else data


class IscsiParams(BaseModel):
    """What the target offers when an initiator logs in (RFC 7143, 13); absent: the target's own defaults."""

    model_config = FROZEN
    max_recv_data_segment_length: Maybe[SomeBytes] = Field(default=None, alias="MaxRecvDataSegmentLength")
    """Longest data in one PDU that the target takes."""
    max_burst_length: Maybe[SomeBytes] = Field(default=None, alias="MaxBurstLength")
    """Longest data for one request to transfer."""
    first_burst_length: Maybe[SomeBytes] = Field(default=None, alias="FirstBurstLength")
    """Longest data that is sent unasked."""
    initial_r2t: Maybe[Switch] = Field(default=None, alias="InitialR2T")
    """on: data is sent after a request to transfer only."""
    immediate_data: Maybe[Switch] = Field(default=None, alias="ImmediateData")
    """on: data may come with the command."""

    def written(self) -> dict[str, str]:
        """Return the keys that are given, as the protocol writes them."""
        shown = {"on": "Yes", "off": "No"}
        return {
            name: shown.get(str(value), str(value))
            for name, value in self.model_dump(by_alias=True, exclude_none=True).items()
        }


class Chap(BaseModel):
    """By what an initiator shows that it may log in (RFC 7143, 12.1.3). Everybody who reads the report sees it."""

    model_config = FROZEN
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    """Name."""
    secret: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{12,16}$")]
    """Of the lab alone, 12 to 16 letters and digits."""


class Volume(BaseModel):
    """A scratch file or LUN that the lab makes."""

    model_config = FROZEN
    size: BlockBytes
    """Of the file or LUN, in whole blocks of 4 KiB."""
    on: Maybe[str] = None
    """The machine whose disk holds it; absent: this computer."""
    export: Maybe[Literal["iscsi", "nvme-tcp", "nbd"]] = None
    """How other machines reach it; absent: they do not."""
    cache: Literal["direct", "buffered"] = "direct"
    """Whether the target's host keeps what it reads and writes in its page cache."""
    target: Maybe[Literal["kernel", "user"]] = None
    """What exports it by iSCSI: LIO in the kernel, or tgt in user space; absent: LIO in guests, tgt elsewhere."""
    chap: Maybe[Chap] = None
    """What an initiator by iSCSI must know; absent: its name and address are enough."""
    params: IscsiParams = unset(IscsiParams)
    """Of an export by iSCSI."""
