"""Which flows our own frames are of, and what they are filled with: ranges of addresses and ports, payload patterns."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.quantities import FROZEN, Count, Maybe, Quantity
from iolab.frozen import frozen
from iolab.units import UnitError

MOST_FLOWS = 1_000_000
"""Flows of one direction."""
MOST_PATTERN_BYTES = 1024
"""Of a payload's own bytes."""
ADDRESSES_ALLOWED = (
    "an address (198.18.0.1), a network (198.18.0.0/16: all of its addresses) or a range "
    "(198.18.0.1-198.18.3.254), with the distance of neighbours where it is not 1 (198.18.0.1-198.18.255.1 step 256)"
)
PORTS_ALLOWED = (
    "a port (9) or a range of ports (1024-65535), with the distance of neighbours where it is not 1 "
    "(1024-2048 step 2)"
)
PAYLOAD_ALLOWED = (
    "incrementing, zeros, ones, random:SEED, or bytes of your own that are repeated: 0x and 1 to "
    f"{MOST_PATTERN_BYTES} pairs of hexadecimal digits"
)


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


def _ends(text: str, value: object, allowed: str) -> tuple[str, str, int]:
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
            raise UnitError(
                value, ADDRESSES_ALLOWED, "a range ends in its own family, behind its first address"
            )
    except ValueError as error:
        raise UnitError(value, ADDRESSES_ALLOWED) from error
    return _checked(AddressRange(begin, (int(end) - int(begin)) // step + 1, step), value)


def _checked(found: AddressRange, value: object) -> AddressRange:
    last = int(found.first) + found.step * (found.count - 1)
    if found.count > MOST_FLOWS:
        raise UnitError(
            value, ADDRESSES_ALLOWED, f"{found.count} addresses; a range has at most {MOST_FLOWS}"
        )
    if found.first.version == 6 and last >> 64 != int(found.first) >> 64:
        raise UnitError(value, ADDRESSES_ALLOWED, "a range of IPv6 addresses stays within one /64")
    if any(
        address.is_multicast or address.is_unspecified
        for address in (found.first, found.first + (last - int(found.first)))
    ):
        raise UnitError(value, ADDRESSES_ALLOWED, "flows are between addresses of single hosts")
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
