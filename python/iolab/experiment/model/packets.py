"""Measures that send frames of our own: their flows, what fills the frames, and a model for each kind."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.model.measures import Flow, Measure
from iolab.experiment.model.quantities import (
    FROZEN,
    BitsPerSecond,
    Count,
    FrameRate,
    Maybe,
    Quantity,
    Ratio,
    Share,
    SomeNanoseconds,
)
from iolab.experiment.model.recordings import Replay
from iolab.frozen import frozen
from iolab.locale import Phrase, Text
from iolab.registry.searches import SearchKind
from iolab.units import UnitError

MOST_FLOWS = 1_000_000
"""Flows of one direction."""

MOST_PATTERN_BYTES = 1024
"""Of a payload's own bytes."""

ADDRESSES_ALLOWED = Phrase("check.address-network-or-range")

PORTS_ALLOWED = Phrase("check.port-or-port-range")

PAYLOAD_ALLOWED = Phrase("check.payload-pattern", most_pattern_bytes=MOST_PATTERN_BYTES)


@frozen
class AddressRange:
    """Addresses that flows have in turn."""

    first: IPv4Address | IPv6Address
    """The first."""
    count: int
    """How many."""
    step: int = 1
    """Distance of neighbours."""

    def __str__(self) -> str:
        """Return it as it is written."""
        return _written(
            str(self.first), str(self.first + self.step * (self.count - 1)), self.count, self.step
        )


@frozen
class PortRange:
    """Ports that flows have in turn."""

    first: int
    """The first."""
    count: int
    """How many."""
    step: int = 1
    """Distance of neighbours."""

    def __str__(self) -> str:
        """Return it as it is written."""
        return _written(
            str(self.first), str(self.first + self.step * (self.count - 1)), self.count, self.step
        )


def _written(first: str, last: str, count: int, step: int) -> str:
    if count == 1:
        return first
    return f"{first}-{last}" if step == 1 else f"{first}-{last} step {step}"


def _ends(text: str, value: object, allowed: Text) -> tuple[str, str, int]:
    """Return the two ends of a range as text, and the distance of neighbours."""
    whole, _, step = text.partition(" step ")
    first, _, last = whole.partition("-")
    if step and not (step.strip().isdigit() and 0 < int(step) < 1 << 32):
        raise UnitError(value, allowed)
    return first.strip(), (last or first).strip(), int(step) if step else 1


def address_range(value: object) -> AddressRange:
    """Return a range of addresses from text."""
    if isinstance(value, AddressRange):
        return value
    if not isinstance(value, str):
        raise UnitError(value, ADDRESSES_ALLOWED)
    try:
        if "/" in value:
            network = ip_network(value.strip())
            found = AddressRange(network.network_address, min(network.num_addresses, MOST_FLOWS))
            return _checked(found, value)
        first, last, step = _ends(value, value, ADDRESSES_ALLOWED)
        begin, end = ip_address(first), ip_address(last)
        if begin.version != end.version or int(end) < int(begin):
            raise UnitError(value, ADDRESSES_ALLOWED, Phrase("check.range-ends-behind-its-first"))
    except ValueError as error:
        raise UnitError(value, ADDRESSES_ALLOWED) from error
    return _checked(AddressRange(begin, (int(end) - int(begin)) // step + 1, step), value)


def _checked(found: AddressRange, value: object) -> AddressRange:
    last = int(found.first) + found.step * (found.count - 1)
    if found.count > MOST_FLOWS:
        raise UnitError(
            value,
            ADDRESSES_ALLOWED,
            Phrase("check.too-many-addresses", count=found.count, most_flows=MOST_FLOWS),
        )
    if found.first.version == 6 and last >> 64 != int(found.first) >> 64:
        raise UnitError(value, ADDRESSES_ALLOWED, Phrase("check.ipv6-range-within-one-network"))
    if any(
        address.is_multicast or address.is_unspecified
        for address in (found.first, found.first + (last - int(found.first)))
    ):
        raise UnitError(value, ADDRESSES_ALLOWED, Phrase("check.flows-join-single-hosts"))
    return found


def port_range(value: object) -> PortRange:
    """Return a range of ports from text or a number."""
    if isinstance(value, PortRange):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UnitError(value, PORTS_ALLOWED)
    first, last, step = _ends(str(value), value, PORTS_ALLOWED)
    if not (first.isdigit() and last.isdigit() and int(first) <= int(last) <= 65_535):
        raise UnitError(value, PORTS_ALLOWED)
    return PortRange(int(first), (int(last) - int(first)) // step + 1, step)


@frozen
class Payload:
    """What payloads are filled with."""

    kind: Literal["incrementing", "zeros", "ones", "random", "bytes"] = "incrementing"
    """How."""
    seed: int = 0
    """Of random bytes."""
    hex: str = ""
    """Bytes of the user's own."""

    def __str__(self) -> str:
        """Return it as it is written."""
        return {"random": f"random:{self.seed}", "bytes": f"0x{self.hex}"}.get(self.kind, self.kind)


def payload(value: object) -> Payload:
    """Return a payload from text."""
    if isinstance(value, Payload):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    match text:
        case "incrementing" | "zeros" | "ones":
            return Payload(text)
    kind, _, seed = text.partition(":")
    if kind == "random" and seed.isdigit() and int(seed) < 1 << 63:
        return Payload("random", seed=int(seed))
    digits = text.removeprefix("0x")
    whole = 0 < len(digits) <= 2 * MOST_PATTERN_BYTES and len(digits) % 2 == 0
    if text.startswith("0x") and whole and set(digits) <= set("0123456789abcdef"):
        return Payload("bytes", hex=digits)
    raise UnitError(value, PAYLOAD_ALLOWED)


Addresses = Annotated[
    AddressRange, Quantity(address_range, "addresses", ADDRESSES_ALLOWED, str, ("198.18.0.0/16",))
]

Ports = Annotated[PortRange, Quantity(port_range, "ports", PORTS_ALLOWED, str, ("1024-65535", "9"))]

PayloadPattern = Annotated[
    Payload, Quantity(payload, "a payload", PAYLOAD_ALLOWED, str, ("incrementing", "random:7"))
]


class FlowRules(BaseModel):
    """Which addresses and ports flows have: every combination of those given, those above changing first."""

    model_config = FROZEN
    source: Maybe[Addresses] = None
    """Source addresses; absent: those of the sender's network that no machine has, or of `ip: 6`, of 2001:2::/48."""
    destination: Maybe[Addresses] = None
    """Destination addresses, to which the lab must have routes; absent: the receiver's."""
    source_port: Maybe[Ports] = None
    """Source ports, of echo requests their identifiers; absent: from 1024 on, as many as flows."""
    destination_port: Maybe[Ports] = None
    """Destination ports, which echo requests do not have; absent: 9."""
    order: Literal["turns", "random"] = "turns"
    """Of flows: one after the other, or drawn for every frame."""
    seed: Annotated[Count, Field(ge=0)] = 1
    """Of the random order."""


PacketDirection = Literal["one-way", "both-ways"]


FrameSize = Annotated[int, Field(ge=64, le=9216, strict=True)]
"""An Ethernet frame with its checksum (RFC 2544) [bytes]."""


class Packets(Measure):
    """What all measures have in common that send frames of our own."""

    src: str = Field(alias="from")
    """Sender: a machine, or machine.port."""
    dst: str = Field(alias="to")
    """Receiver: a machine, or machine.port."""
    pairs: tuple[Flow, ...] = ()
    """Further senders and receivers, at once and at the same rate; the rate is that of all. May hold the first, too."""
    frame_size: FrameSize | Literal["imix"] = 64
    """Ethernet frame with its checksum (RFC 2544) [bytes]; imix: 7 of 64, 4 of 594, 1 of 1518 in turn."""
    direction: PacketDirection = "one-way"
    """Who sends; both-ways: both at once, each at half of the rate."""
    flows: Count = Field(default=1, ge=1, le=MOST_FLOWS)
    """Different source addresses and source ports, one after the other: a card has one queue for each flow."""
    flow_rules: Maybe[FlowRules] = None
    """Which addresses and ports flows have; both-ways: of the first direction, the other has them swapped."""
    ip: Literal[4, 6] = 4
    """Version of the Internet protocol of the flows."""
    protocol: Literal["udp", "tcp", "icmp"] = "udp"
    """What carries the payload: tcp: segments with ACK alone; icmp: echo requests."""
    tunnel: Maybe[Literal["vxlan", "gre"]] = None
    """What stands around the packets of the flows, between the addresses of sender and receiver."""
    tunnel_ip: Literal[4, 6] = 4
    """Version of the Internet protocol of the tunnel."""
    vni: Count = Field(default=1, ge=0, le=(1 << 24) - 1)
    """Segment of a vxlan tunnel."""
    replay: Maybe[Replay] = None
    """Frames of a capture, sent in place of frames of our own."""
    payload: PayloadPattern = Payload()
    """What frames are filled with behind headers and stamp."""
    vlan: Maybe[Annotated[int, Field(ge=0, le=4094, strict=True)]] = None
    """Tag of the frames; absent: that of the link."""
    line_rate: Maybe[BitsPerSecond] = None
    """Of the line, preamble and gaps included: no load is above it, and percents of a rate are of it."""
    spacing: Literal["clock", "gap-frames"] = "clock"
    """What spaces frames. gap-frames: the line of `line_rate`, kept full by PAUSE frames of no time, to the byte."""
    max_burst: Count = Field(default=1, ge=1, le=64)
    """Most frames that leave at once [frames]."""
    catch_up: Count = Field(default=64, ge=0, le=1_000_000)
    """Most frames sent late after a stall of the sender, at up to twice the rate; the rest stays unsent [frames]."""
    senders: Annotated[int, Field(ge=1, le=64, strict=True)] | Literal["auto"] = 1
    """Threads that send a direction, each by a transmit queue of its own; `flows` is a multiple. auto: by free CPUs."""
    path: Literal["auto", "af_xdp", "af_packet", "bpf_live"] = "auto"
    """How frames reach the interface. auto: af_xdp where it works; bpf_live where it is found faster and as even."""
    scheduling: Literal["realtime", "normal"] = "realtime"
    """Of the instrument's threads and of those that take frames in; an ordinary user's are normal."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the load is looked for, not given."""
        return False


class Forwarding(Packets):
    """Highest rate with loss within `loss_ratio` (RFC 2544)."""

    kind: Literal["forwarding"]
    """What is measured."""
    search: SearchKind = "fast"
    """How the highest rate is looked for: RFC 2544 bisection, MLRsearch, or iolab's own."""
    loss_ratio: Ratio = 0.0001
    """Acceptable loss: `bisect` wants less, as testers do (and none where it is 0), the others no more."""
    width: Annotated[Ratio, Field(gt=0, lt=1)] = 0.01
    """How far apart the bounds may stay, of the upper one."""
    trial: SomeNanoseconds = 1_000_000_000
    """Length of one trial of the search; `fast` chooses its own."""
    trials: Count = Field(default=1, ge=1, le=100)
    """Whole searches by `bisect`: gives mean, least and largest; the others run one."""
    start: Maybe[FrameRate] = None
    """First load by `bisect`; absent: the highest that is possible."""
    reruns: Count = Field(default=2, ge=0, le=10)
    """How often a trial that lost frames is run again because the host was disturbed."""
    limit: SomeNanoseconds = 600_000_000_000
    """Longest time of a search; it ends with the bounds known then."""
    latency_at: tuple[Share, ...] = (0.0, 0.1, 0.5, 0.9)
    """Shares of the found rate at which latency is measured; 0: idle, 1000 frames/s. Empty: not at all."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the load is looked for, not given."""
        return True


class LoadCurve(Packets):
    """Forwarded rate, loss, latency and CPU against offered load."""

    kind: Literal["load-curve"]
    """What is measured."""
    rate: Maybe[FrameRate] = None
    """What 100 % is; absent: the highest rate with loss within `loss_ratio`, looked for first."""
    loss_ratio: Ratio = 0.0001
    """Acceptable loss, where the rate is looked for."""
    steps: Annotated[tuple[Share, ...], Field(min_length=1)] = (
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2,
    )  # fmt: skip
    """Loads, as shares of the rate."""
    trial: SomeNanoseconds = 1_000_000_000
    """Length of one step."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the load is looked for, not given."""
        return self.rate is None


class Latency(Packets):
    """One-way latency at a given rate."""

    kind: Literal["latency"]
    """What is measured."""
    rate: Maybe[FrameRate] = None
    """Intended rate; absent, of a recording with its times: as recorded."""
    duration: SomeNanoseconds = 10_000_000_000
    """Of the measurement."""
