"""Measures that send frames of iolab's generator: their flows and payloads, and a model for each kind."""

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
"""Maximum number of flows per direction."""

MOST_PATTERN_BYTES = 1024
"""Maximum length of a user-defined payload pattern."""

ADDRESSES_ALLOWED = Phrase("check.address-network-or-range")

PORTS_ALLOWED = Phrase("check.port-or-port-range")

PAYLOAD_ALLOWED = Phrase("check.payload-pattern", most_pattern_bytes=MOST_PATTERN_BYTES)


@frozen
class AddressRange:
    """A range of addresses, which flows use in turn."""

    first: IPv4Address | IPv6Address
    """First address."""
    count: int
    """Number of addresses."""
    step: int = 1
    """Increment between addresses."""

    def __str__(self) -> str:
        """Return the range in the syntax of experiment files."""
        return _written(
            str(self.first), str(self.first + self.step * (self.count - 1)), self.count, self.step
        )


@frozen
class PortRange:
    """A range of ports, which flows use in turn."""

    first: int
    """First port."""
    count: int
    """Number of ports."""
    step: int = 1
    """Increment between ports."""

    def __str__(self) -> str:
        """Return the range in the syntax of experiment files."""
        return _written(
            str(self.first), str(self.first + self.step * (self.count - 1)), self.count, self.step
        )


def _written(first: str, last: str, count: int, step: int) -> str:
    if count == 1:
        return first
    return f"{first}-{last}" if step == 1 else f"{first}-{last} step {step}"


def _ends(text: str, value: object, allowed: Text) -> tuple[str, str, int]:
    """Return the two ends of a range as text, and the increment."""
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
    """Content of payloads."""

    kind: Literal["incrementing", "zeros", "ones", "random", "bytes"] = "incrementing"
    """Type of the content: incrementing bytes, zeros, ones, random bytes, or user-defined bytes."""
    seed: int = 0
    """Seed of random bytes."""
    hex: str = ""
    """User-defined bytes."""

    def __str__(self) -> str:
        """Return the payload in the syntax of experiment files."""
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
    """Addresses and ports of flows: all combinations of the given ranges; the first key changes fastest."""

    model_config = FROZEN
    source: Maybe[Addresses] = None
    """Source addresses; default: unused addresses in the sender's network; with `ip: 6`, addresses in 2001:2::/48."""
    destination: Maybe[Addresses] = None
    """Destination addresses; the lab must have routes to them; default: the receiver's address."""
    source_port: Maybe[Ports] = None
    """Source ports, or identifiers of echo requests; default: from 1024, one for each flow."""
    destination_port: Maybe[Ports] = None
    """Destination ports; echo requests have none; default: 9."""
    order: Literal["turns", "random"] = "turns"
    """Order of flows: sequential, or random for every frame."""
    seed: Annotated[Count, Field(ge=0)] = 1
    """Seed of the random order."""


PacketDirection = Literal["one-way", "both-ways"]


FrameSize = Annotated[int, Field(ge=64, le=9216, strict=True)]
"""Size of an Ethernet frame with its checksum (RFC 2544) [bytes]."""


class Packets(Measure):
    """Keys that all measures with generated frames have."""

    src: str = Field(alias="from")
    """Sender: a machine, or machine.port."""
    dst: str = Field(alias="to")
    """Receiver: a machine, or machine.port."""
    pairs: tuple[Flow, ...] = ()
    """Additional senders and receivers, optionally including the first pair, that run in parallel at equal rates;
    the rate is the total of all pairs."""
    frame_size: FrameSize | Literal["imix"] = 64
    """Ethernet frame size with its checksum (RFC 2544) [bytes]; imix: a repeated sequence of 7 frames of 64 bytes, 4 of
    594 and 1 of 1518 bytes."""
    direction: PacketDirection = "one-way"
    """Direction of the frames; both-ways: both directions at once, each at half the rate."""
    flows: Count = Field(default=1, ge=1, le=MOST_FLOWS)
    """Number of flows, with different source addresses and source ports, used in turn: a NIC selects a receive queue
    per flow."""
    flow_rules: Maybe[FlowRules] = None
    """Addresses and ports of flows; both-ways: those of the first direction, swapped in the other direction."""
    ip: Literal[4, 6] = 4
    """IP version of the flows."""
    protocol: Literal["udp", "tcp", "icmp"] = "udp"
    """Protocol of the flows: tcp: segments with only ACK set; icmp: echo requests."""
    tunnel: Maybe[Literal["vxlan", "gre"]] = None
    """Encapsulation of the flows' packets, between the addresses of sender and receiver."""
    tunnel_ip: Literal[4, 6] = 4
    """IP version of the tunnel."""
    vni: Count = Field(default=1, ge=0, le=(1 << 24) - 1)
    """VNI of a vxlan tunnel."""
    replay: Maybe[Replay] = None
    """Frames of a capture, sent instead of generated frames."""
    payload: PayloadPattern = Payload()
    """Payload content after headers and stamp."""
    vlan: Maybe[Annotated[int, Field(ge=0, le=4094, strict=True)]] = None
    """VLAN tag of the frames; default: the link's tag."""
    line_rate: Maybe[BitsPerSecond] = None
    """Line rate, including preamble and gaps: the maximum load, and the base of percentages."""
    spacing: Literal["clock", "gap-frames"] = "clock"
    """Pacing method. gap-frames: PAUSE frames with pause time 0 fill the line of `line_rate`, so gaps are exact to the
    byte."""
    max_burst: Count = Field(default=1, ge=1, le=64)
    """Maximum number of frames sent at once [frames]."""
    catch_up: Count = Field(default=64, ge=0, le=1_000_000)
    """Maximum number of frames sent late after a stall of the sender, at up to twice the rate; the rest remains unsent
    [frames]."""
    senders: Annotated[int, Field(ge=1, le=64, strict=True)] | Literal["auto"] = 1
    """Sender threads per direction, each with a separate transmit queue; `flows` must be a multiple of their number.
    auto: as many as free CPUs allow."""
    path: Literal["auto", "af_xdp", "af_packet", "bpf_live"] = "auto"
    """Method of sending frames. auto: af_xdp if it works; bpf_live if it proves to be faster with equal pacing
    accuracy."""
    scheduling: Literal["realtime", "normal"] = "realtime"
    """Scheduling class of the instrument's threads and of the threads that receive frames; without root always
    normal."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the measure searches for the load instead of using a given load."""
        return False


class Forwarding(Packets):
    """The highest rate with a loss ratio up to `loss_ratio` (RFC 2544)."""

    kind: Literal["forwarding"]
    """Kind of the measure."""
    search: SearchKind = "fast"
    """Search method: RFC 2544 bisection, MLRsearch, or iolab's own search."""
    loss_ratio: Ratio = 0.0001
    """Acceptable loss: `bisect` requires less loss, as testers do (no loss if the ratio is 0); the other methods allow
    this loss."""
    width: Annotated[Ratio, Field(gt=0, lt=1)] = 0.01
    """Maximum distance between the bounds, as a ratio of the upper bound."""
    trial: SomeNanoseconds = 1_000_000_000
    """Duration of one trial of the search; `fast` selects the duration itself."""
    trials: Count = Field(default=1, ge=1, le=100)
    """Number of complete searches with `bisect`; results are their mean, minimum and maximum. The other methods run one
    search."""
    start: Maybe[FrameRate] = None
    """First load of `bisect`; default: the highest possible load."""
    reruns: Count = Field(default=2, ge=0, le=10)
    """Maximum number of reruns of a trial that lost frames while the host was disturbed."""
    limit: SomeNanoseconds = 600_000_000_000
    """Time limit of a search, which then returns its current bounds."""
    latency_at: tuple[Share, ...] = (0.0, 0.1, 0.5, 0.9)
    """Ratios of the resulting rate at which latency is measured; 0: idle, 1000 frames/s; empty: no latency
    measurement."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the measure searches for the load instead of using a given load."""
        return True


class LoadCurve(Packets):
    """Forwarding rate, loss, latency and CPU use over the offered load."""

    kind: Literal["load-curve"]
    """Kind of the measure."""
    rate: Maybe[FrameRate] = None
    """The rate that counts as 100 %; default: the highest rate with a loss ratio up to `loss_ratio`, which is searched
    for first."""
    loss_ratio: Ratio = 0.0001
    """Acceptable loss in the search for the rate."""
    steps: Annotated[tuple[Share, ...], Field(min_length=1)] = (
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2,
    )  # fmt: skip
    """Loads, as ratios of the rate."""
    trial: SomeNanoseconds = 1_000_000_000
    """Duration of one step."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the measure searches for the load instead of using a given load."""
        return self.rate is None


class Latency(Packets):
    """One-way latency at a given rate."""

    kind: Literal["latency"]
    """Kind of the measure."""
    rate: Maybe[FrameRate] = None
    """Intended rate; default for a recording with its own timing: the recorded rate."""
    duration: SomeNanoseconds = 10_000_000_000
    """Duration of the measurement."""
