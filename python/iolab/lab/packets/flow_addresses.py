"""Addresses and ports of the flows of generated frames. Pure."""

from functools import lru_cache
from ipaddress import ip_address, ip_interface
from math import prod

from iolab.errors import InputError, Problem
from iolab.experiment.model.packets import AddressRange, FlowRules, Packets, PortRange
from iolab.frozen import frozen
from iolab.lab.endpoints import Endpoint, version_of
from iolab.lab.packets.placement import Way
from iolab.locale import Phrase

FIRST_PORT, DISCARD_PORT = 1024, 9
"""Source port of the first flow; destination port of all flows (discard, as in RFC 2544, appendix C.2.6.4: RFC 863)."""
PORTS = 65_536 - FIRST_PORT
"""Number of source ports, from `FIRST_PORT` on."""
IPV6_NETWORK = "2001:2:0:"
"""Network for benchmarks (RFC 5180)."""
FIELDS = ("source_address", "destination_address", "source_port", "destination_port")
"""Fields that distinguish flows; the first one changes fastest from flow to flow."""


@frozen
class Sweep:
    """Values that flows use in turn."""

    first: str | int
    """First value: an address or a port."""
    count: int = 1
    """Number of values."""
    step: int = 1
    """Increment between values."""
    every: int = 1
    """Number of consecutive flows with the same value."""


def source_addresses(way: Way, source: Endpoint, flows: int) -> tuple[str, int]:
    """Return the first source address, and the number of consecutive source addresses for a number of flows.

    A NIC selects a receive queue by both addresses, and many NICs ignore UDP ports: flows that are to be distributed
    need different addresses (RFC 4814, section 3). The addresses are in the sender's network, above those of all
    machines, so a router accepts them and does not treat them as its own.
    """
    if flows == 1:
        return source.address, 1
    version = version_of(source.address)
    near = frozenset((point.of(version) or point).address for point in way.near)
    first, room = _free_above(near, source.address, source.prefix_length)
    return (first, min(flows, room)) if room > 1 else (source.address, 1)


@lru_cache
def _free_above(taken: frozenset[str], own: str, prefix_length: int) -> tuple[str, int]:
    """Return the first address of a network above all used ones, and the number of addresses from there on."""
    first = max(map(ip_address, taken)) + 1
    return str(first), int(ip_interface(f"{own}/{prefix_length}").network.broadcast_address) - int(first)


def flow_sweeps(measure: Packets, way: Way, index: int) -> dict[str, Sweep]:
    """Return the values of each field for the flows of direction `index`.

    Raises:
        InputError: the rules have a different IP version, or result in fewer flows than requested.
    """
    rules = _rules_of(measure, index)
    if measure.flow_rules is None and measure.flows <= PORTS:
        # Address and port change together, so that every flow is different in whichever field a NIC uses.
        sources, target = _usual(measure, way, index)
        ports = Sweep(FIRST_PORT, measure.flows)
        return dict(zip(FIELDS, (sources, target, ports, Sweep(DISCARD_PORT)), strict=True))
    sources, target = _usual(measure, way, index)
    given = (
        _of(rules.source) or sources,
        _of(rules.destination) or target,
        _of(rules.source_port) or Sweep(FIRST_PORT, PORTS),
        _of(rules.destination_port) or Sweep(DISCARD_PORT),
    )
    _check(measure, given)
    # Fields with rules change first; the other fields change only if that does not give enough flows.
    asked = (rules.source, rules.destination, rules.source_port, rules.destination_port)
    order = sorted(zip(FIELDS, given, asked, strict=True), key=lambda row: row[2] is None)
    every, found = 1, {}
    for name, sweep, _ in order:
        found[name] = Sweep(sweep.first, sweep.count, sweep.step, every if sweep.count > 1 else 1)
        every *= sweep.count
    return found


def tunnel_ends(measure: Packets, way: Way, index: int) -> tuple[str, str]:
    """Return the endpoints of the tunnel of direction `index`: the addresses of sender and receiver."""
    source, target = way.source.of(measure.tunnel_ip), way.target.of(measure.tunnel_ip)
    return _ipv6(index) if source is None or target is None else (source.address, target.address)


def _rules_of(measure: Packets, index: int) -> FlowRules:
    """Return the rules of a direction; for the reverse direction, source and destination are swapped."""
    rules = measure.flow_rules or FlowRules()
    if measure.direction == "one-way" or index % 2 == 0:
        return rules
    return FlowRules.model_construct(
        source=rules.destination,
        destination=rules.source,
        source_port=rules.destination_port,
        destination_port=rules.source_port,
    )


def _usual(measure: Packets, way: Way, index: int) -> tuple[Sweep, Sweep]:
    """Return the default source and destination addresses, for fields without rules."""
    source, target = way.source.of(measure.ip), way.target.of(measure.ip)
    if source is not None and target is not None:
        first, count = source_addresses(way, source, measure.flows)
        return Sweep(first, count), Sweep(target.address)
    if measure.ip == 4:
        seen = Phrase("lab.no-such-address-on-links", source=way.source.ref, target=way.target.ref)
        doing, allowed = Phrase("lab.laying-out-flows"), Phrase("lab.other-version-or-both")
        raise InputError([Problem("measure", doing, seen, allowed)])
    here, there = _ipv6(index)
    return Sweep(here, measure.flows), Sweep(there)


def _ipv6(index: int) -> tuple[str, str]:
    return f"{IPV6_NETWORK}{index + 1}::1", f"{IPV6_NETWORK}{2 - index}::1"


def _of(given: AddressRange | PortRange | None) -> Sweep | None:
    if given is None:
        return None
    first = given.first if isinstance(given.first, int) else str(given.first)
    return Sweep(first, given.count, given.step)


def _check(measure: Packets, given: tuple[Sweep, ...]) -> None:
    doing = Phrase("lab.laying-out-flows")
    versions = {ip_address(sweep.first).version for sweep in given[:2]}
    if versions != {measure.ip}:
        found = [f"IPv{version}" for version in sorted(versions)]
        seen = Phrase("lab.addresses-of-other-version", versions=found, ip=measure.ip)
        raise InputError(
            [Problem("measure", doing, seen, Phrase("lab.rules-of-same-version", ip=measure.ip))]
        )
    told_apart = given[:3] if measure.protocol == "icmp" else given
    if measure.protocol == "icmp" and measure.flow_rules is not None and measure.flow_rules.destination_port:
        seen = Phrase("lab.destination-port-with-icmp")
        raise InputError([Problem("measure", doing, seen, Phrase("lab.source-port-for-identifiers"))])
    most = prod(sweep.count for sweep in told_apart)
    if most < measure.flows:
        counts = " * ".join(str(sweep.count) for sweep in told_apart)
        seen = Phrase("lab.too-many-flows", flows=measure.flows, counts=counts)
        advice = Phrase("lab.widen-range-of-rules")
        raise InputError([Problem("measure", doing, seen, Phrase("lab.at-most-flows", most=most), advice)])
