"""Ports, endpoints and segments of a lab as values, and an address for every interface: as written, or by rule.

IPv4 addresses are from 198.18.0.0/15 (RFC 2544), IPv6 addresses from 2001:2::/48 (RFC 5180). Deterministic, and stable
between labs: a segment's first link decides its network, a port's place its host.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_interface,
    ip_network,
)
from itertools import islice

from iolab.errors import InputError, Problem
from iolab.experiment.model.quantities import PortRef
from iolab.frozen import frozen
from iolab.lab.kernels import HERE
from iolab.locale import Phrase
from iolab.units import ETHERNET_HEADER_BYTES

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network


@frozen
class Pool:
    """Where automatic addresses of one version of IP come from."""

    network: Network
    """All of them."""
    prefix_length: int
    """Of an automatic network."""
    written: range
    """Prefix lengths that may be written."""
    example: str
    """For messages."""

    @property
    def networks(self) -> int:
        """Return how many automatic networks there are."""
        return 1 << self.prefix_length - self.network.prefixlen


POOLS: Mapping[int, Pool] = {
    4: Pool(IPv4Network("198.18.0.0/15"), 24, range(8, 31), "198.18.7.1/24"),
    6: Pool(IPv6Network("2001:2::/48"), 64, range(16, 127), "2001:2:0:7::1/64"),
}
"""For benchmarks between isolated networks (RFC 2544, appendix C.2.2; RFC 5180, section 8)."""
NO_HOSTS = IPv4Network("0.0.0.0/8")
"""Of no host (RFC 1122)."""
MOST_HOSTS = 4096
"""Interfaces on one segment: more than a bridge has ports for."""


@frozen
class Wanted:
    """A segment that needs addresses."""

    link: str
    """Its first link, for messages."""
    index: int
    """That link's place among all links: the network tried first."""
    given: Sequence[str | None]
    """Per addressed interface the address written, with prefix length; None: automatic."""


@frozen
class Assigned:
    """A segment's addresses."""

    network: Network
    """Its network."""
    interfaces: tuple[Interface, ...]
    """In the order asked for."""


VERSIONS = (4, 6)
"""Of IP; the first is taken where both lead to a place."""


def version_of(address: str) -> int:
    """Return the version of IP of an address or a network."""
    return 6 if ":" in address else 4


@frozen
class Port:
    """An end of a link."""

    machine: str
    """The machine's name."""
    name: str
    """The port's name, which is the interface's."""
    link: str
    """The link's name."""
    netns: str | None
    """Network namespace it lives in; None: the kernel's own."""
    interface: str
    """The interface that carries its packets: the port itself, or its VLAN's sub-interface."""
    bridge: str | None
    """The bridge that its machine puts it on; None: the machine does not bridge."""
    kernel: str = HERE
    """The machine whose kernel it lives on; empty: this computer."""
    children: tuple[str, ...] = ()
    """Links that join its machine's children to it, by its bridge or by its card's own switch."""

    @property
    def ref(self) -> PortRef:
        """Return machine.port."""
        return PortRef.of(self.machine, self.name)


@frozen
class Endpoint:
    """An interface with an address: where packets of a machine begin and end."""

    machine: str
    """The machine's name."""
    port: str
    """The port's name; of a machine that bridges its ports: the bridge's name."""
    netns: str | None
    """Network namespace it lives in; None: the kernel's own."""
    interface: str
    """The interface's name."""
    address: str
    """IP address."""
    prefix_length: int
    """Of its network [bit]."""
    kernel: str = HERE
    """The machine whose kernel it lives on; empty: this computer."""
    cpus: tuple[int, ...] = ()
    """CPUs of the programs of its machine; empty: all of the kernel's."""
    counted_bytes: int = ETHERNET_HEADER_BYTES
    """What the kernel counts at the interface of each packet beside the packet [bytes]."""
    second: tuple[str, int] | None = None
    """An IPv6 address beside one of IPv4, and its prefix length; None: there is one address."""

    def of(self, ip: int) -> "Endpoint | None":
        """Return the endpoint with its address of one version of IP; None: it has none."""
        if version_of(self.address) == ip:
            return self
        if self.second is None:
            return None
        return replace(self, address=self.second[0], prefix_length=self.second[1], second=None)

    def each(self) -> "tuple[Endpoint, ...]":
        """Return the endpoint once with each of its addresses."""
        return tuple(found for ip in VERSIONS if (found := self.of(ip)) is not None)

    @property
    def ref(self) -> PortRef:
        """Return machine.port."""
        return PortRef.of(self.machine, self.port)


@frozen
class Segment:
    """Links joined by bridging machines: what an Ethernet broadcast reaches."""

    name: str
    """Its first link."""
    links: tuple[str, ...]
    """In the order written."""
    network: str
    """IP network with prefix length, that of the endpoints' addresses."""
    ports: tuple[Port, ...]
    """In the order written."""
    endpoints: tuple[Endpoint, ...]
    """One per port that is not bridged, and one per bridging machine."""
    below: frozenset[str] = frozenset()
    """Links that carry its own."""
    second: str | None = None
    """IPv6 network beside one of IPv4."""

    def network_of(self, ip: int) -> str | None:
        """Return the network of one version of IP; None: the segment has none."""
        if version_of(self.network) == ip:
            return self.network
        return self.second if ip != 4 else None

    def has(self, ref: str) -> bool:
        """Tell whether a machine, or machine.port, has an endpoint here."""
        return any(owns(self, point, ref) for point in self.endpoints)


@frozen
class Route:
    """A static route."""

    machine: str
    """Where it is set."""
    netns: str | None
    """Network namespace it is set in."""
    via_port: Endpoint
    """The interface it leaves by."""
    destination: str
    """Network with prefix length."""
    gateway: str
    """Address of the next router."""
    kernel: str = HERE
    """The machine whose kernel it is set in; empty: this computer."""


@frozen
class Home:
    """Where programs of a machine run."""

    kernel: str
    """The machine whose kernel it is; empty: this computer."""
    netns: str | None
    """Network namespace; None: the kernel's own."""
    cpus: tuple[int, ...] = ()
    """CPUs of its programs; empty: all of the kernel's."""


def owns(segment: Segment, point: Endpoint, ref: str) -> bool:
    """Tell whether `ref` (machine or machine.port) is at this endpoint; a bridged port is at its bridge's."""
    if not ref.startswith(point.machine):
        return False  # most are not: said before the name is taken apart
    wanted = PortRef(ref)
    if point.machine != wanted.machine:
        return False
    if not wanted.port or point.port == wanted.port:
        return True
    there = (own for own in segment.ports if own.bridge == point.interface)
    return any(own.name == wanted.port and own.machine == wanted.machine for own in there)


def assign(segments: Sequence[Wanted], ip: int = 4) -> tuple[Assigned, ...]:
    """Return network and addresses of one version of IP of every segment, in order.

    Raises:
        InputError: a written address cannot be used, or there is no room left.
    """
    parsed = [[_parsed(text, wanted.link, ip) for text in wanted.given] for wanted in segments]
    _check_duplicates(segments, parsed)
    written = [interface.network for row in parsed for interface in row if interface is not None]
    taken = list(written)
    assigned: list[Assigned] = []
    for wanted, row in zip(segments, parsed, strict=True):
        network = next((interface.network for interface in row if interface is not None), None)
        if network is None:
            network = _free_network(wanted, taken, POOLS[ip])
            taken.append(network)
        assigned.append(Assigned(network, tuple(_fill(wanted, network, row))))
    return tuple(assigned)


def _parsed(text: str | None, link: str, ip: int) -> Interface | None:
    """Return the address of one version that is written; None: nothing is."""
    if text is None:
        return None
    try:
        written = [ip_interface(part.strip()) for part in text.split(",")]
    except ValueError:
        raise _refused(link, text, ip) from None
    own = [interface for interface in written if interface.version == ip]
    if len(own) != 1 or len(written) > 2:
        raise _refused(link, text, ip)
    interface, lengths = own[0], POOLS[ip].written
    unusable = interface.is_loopback or interface.is_multicast or interface.is_link_local
    unusable = unusable or (ip == 4 and (interface.is_reserved or interface.ip in NO_HOSTS))
    if "/" not in text or interface.network.prefixlen not in lengths or unusable:
        raise _refused(link, text, ip)
    return interface


def _refused(link: str, text: str, ip: int) -> InputError:
    lengths = POOLS[ip].written
    allowed = Phrase(
        "lab.address-of-a-host",
        version=ip,
        shortest=lengths[0],
        longest=lengths[-1],
        example=POOLS[ip].example,
    )
    return InputError(
        [Problem(f"lab.links.{link}.addresses", Phrase("lab.reading-an-address"), repr(text), allowed)]
    )


def _check_duplicates(segments: Sequence[Wanted], parsed: Sequence[Sequence[Interface | None]]) -> None:
    owners: dict[Address, str] = {}
    for wanted, row in zip(segments, parsed, strict=True):
        for interface in row:
            if interface is None:
                continue
            if interface.ip in owners:
                where = f"lab.links.{wanted.link}.addresses"
                seen = Phrase("lab.address-twice", address=interface.ip, link=owners[interface.ip])
                doing, allowed = Phrase("lab.giving-addresses"), Phrase("lab.unique-addresses")
                raise InputError([Problem(where, doing, seen, allowed)])
            owners[interface.ip] = wanted.link


def _free_network(wanted: Wanted, taken: Sequence[Network], pool: Pool) -> Network:
    first, bits = int(pool.network.network_address), pool.network.max_prefixlen - pool.prefix_length
    for index in (wanted.index % pool.networks, *reversed(range(pool.networks))):
        network = ip_network((first + (index << bits), pool.prefix_length))
        if not any(network.overlaps(other) for other in taken):
            return network
    seen = Phrase("lab.no-free-network", length=pool.prefix_length, network=pool.network)
    allowed = Phrase("lab.number-of-segments", count=pool.networks)
    advice = Phrase("lab.write-addresses-of-another-network")
    raise InputError(
        [Problem(f"lab.links.{wanted.link}", Phrase("lab.giving-addresses"), seen, allowed, advice)]
    )


def _fill(wanted: Wanted, network: Network, row: Sequence[Interface | None]) -> Iterator[Interface]:
    used = {interface.ip for interface in row if interface is not None}
    free = (host for host in islice(network.hosts(), MOST_HOSTS) if host not in used)
    for interface in row:
        if interface is not None:
            yield interface
            continue
        host = next(free, None)
        if host is None:
            seen = Phrase("lab.interfaces-on-segment", count=len(row))
            most = min(MOST_HOSTS, network.num_addresses - 2)
            allowed = Phrase("lab.at-most-in-network", most=most, network=network)
            raise InputError(
                [Problem(f"lab.links.{wanted.link}", Phrase("lab.giving-addresses"), seen, allowed)]
            )
        yield ip_interface(f"{host}/{network.prefixlen}")
