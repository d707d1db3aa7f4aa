"""Ports, endpoints and segments of a lab as values, and the assignment of addresses to interfaces.

Automatic IPv4 addresses are in 198.18.0.0/15 (RFC 2544), IPv6 addresses in 2001:2::/48 (RFC 5180). The assignment is
deterministic and stable between labs: the first link of a segment determines its network, and the position of a port
determines the port's host part.
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
    """The pool of automatic addresses of one IP version."""

    network: Network
    """Network of the whole pool."""
    prefix_length: int
    """Prefix length of automatic networks."""
    written: range
    """Valid prefix lengths of configured addresses."""
    example: str
    """Example for messages."""

    @property
    def networks(self) -> int:
        """Return the number of automatic networks."""
        return 1 << self.prefix_length - self.network.prefixlen


POOLS: Mapping[int, Pool] = {
    4: Pool(IPv4Network("198.18.0.0/15"), 24, range(8, 31), "198.18.7.1/24"),
    6: Pool(IPv6Network("2001:2::/48"), 64, range(16, 127), "2001:2:0:7::1/64"),
}
"""Networks for benchmarks between isolated networks (RFC 2544, appendix C.2.2; RFC 5180, section 8)."""
NO_HOSTS = IPv4Network("0.0.0.0/8")
"""Networks that contain no host addresses (RFC 1122)."""
MOST_HOSTS = 4096
"""Maximum number of interfaces on a segment: more than the number of ports that a bridge can have."""


@frozen
class Wanted:
    """A segment that needs addresses."""

    link: str
    """First link of the segment, for messages."""
    index: int
    """Index of this link among all links; the network with this index is tried first."""
    given: Sequence[str | None]
    """Configured address with prefix length of each interface; None: automatic."""


@frozen
class Assigned:
    """The addresses of a segment."""

    network: Network
    """Network of the segment."""
    interfaces: tuple[Interface, ...]
    """Addresses of the interfaces, in the order of the request."""


VERSIONS = (4, 6)
"""IP versions; the first one is preferred if both are possible."""


def version_of(address: str) -> int:
    """Return the IP version of an address or a network."""
    return 6 if ":" in address else 4


@frozen
class Port:
    """An end of a link."""

    machine: str
    """Name of the machine."""
    name: str
    """Name of the port, which is that of its interface."""
    link: str
    """Name of the link."""
    netns: str | None
    """Network namespace of the port; None: the kernel's initial namespace."""
    interface: str
    """Interface that carries the packets: the port, or its VLAN interface."""
    bridge: str | None
    """Bridge on which the machine puts the port; None: the machine does not bridge the port."""
    kernel: str = HERE
    """Machine whose kernel has the port; empty: the local host."""
    children: tuple[str, ...] = ()
    """Links that join the machine's children to the port, through its bridge or through the embedded switch of its
    NIC."""

    @property
    def ref(self) -> PortRef:
        """Return machine.port."""
        return PortRef.of(self.machine, self.name)


@frozen
class Endpoint:
    """An interface with an address, at which packets of a machine start and end."""

    machine: str
    """Name of the machine."""
    port: str
    """Name of the port; if the machine bridges its ports, the name of the bridge."""
    netns: str | None
    """Network namespace of the interface; None: the kernel's initial namespace."""
    interface: str
    """Name of the interface."""
    address: str
    """IP address."""
    prefix_length: int
    """Prefix length of the network [bit]."""
    kernel: str = HERE
    """Machine whose kernel has the interface; empty: the local host."""
    cpus: tuple[int, ...] = ()
    """CPUs for programs of the machine; empty: all CPUs of the kernel."""
    counted_bytes: int = ETHERNET_HEADER_BYTES
    """Bytes per packet that the interface counts in addition to the packet [bytes]."""
    second: tuple[str, int] | None = None
    """Additional IPv6 address with its prefix length, on an interface with an IPv4 address; None: there is only one
    address."""

    def of(self, ip: int) -> "Endpoint | None":
        """Return the endpoint with its address of one IP version; None: the endpoint has no such address."""
        if version_of(self.address) == ip:
            return self
        if self.second is None:
            return None
        return replace(self, address=self.second[0], prefix_length=self.second[1], second=None)

    def each(self) -> "tuple[Endpoint, ...]":
        """Return one endpoint for each address."""
        return tuple(found for ip in VERSIONS if (found := self.of(ip)) is not None)

    @property
    def ref(self) -> PortRef:
        """Return machine.port."""
        return PortRef.of(self.machine, self.port)


@frozen
class Segment:
    """A broadcast domain: links joined by machines that bridge."""

    name: str
    """Name of the first link."""
    links: tuple[str, ...]
    """Links, in file order."""
    network: str
    """IP network with prefix length, which contains the addresses of the endpoints."""
    ports: tuple[Port, ...]
    """Ports, in file order."""
    endpoints: tuple[Endpoint, ...]
    """One endpoint for each port that is not bridged, and one for each bridging machine."""
    below: frozenset[str] = frozenset()
    """Links that carry the links of this segment."""
    second: str | None = None
    """Additional IPv6 network, on a segment with an IPv4 network."""

    def network_of(self, ip: int) -> str | None:
        """Return the network of one IP version; None: the segment has no such network."""
        if version_of(self.network) == ip:
            return self.network
        return self.second if ip != 4 else None

    def has(self, ref: str) -> bool:
        """Whether a machine, or machine.port, has an endpoint on the segment."""
        return any(owns(self, point, ref) for point in self.endpoints)


@frozen
class Route:
    """A static route."""

    machine: str
    """Machine with the route."""
    netns: str | None
    """Network namespace with the route."""
    via_port: Endpoint
    """Interface of the route."""
    destination: str
    """Destination network with prefix length."""
    gateway: str
    """Address of the next router."""
    kernel: str = HERE
    """Machine whose kernel has the route; empty: the local host."""


@frozen
class Home:
    """The kernel, namespace and CPUs of a machine's programs."""

    kernel: str
    """Machine whose kernel runs the programs; empty: the local host."""
    netns: str | None
    """Network namespace; None: the kernel's initial namespace."""
    cpus: tuple[int, ...] = ()
    """CPUs for the programs; empty: all CPUs of the kernel."""


def owns(segment: Segment, point: Endpoint, ref: str) -> bool:
    """Whether `ref` (machine or machine.port) is at this endpoint; a bridged port is at the endpoint of its bridge."""
    if not ref.startswith(point.machine):
        return False  # fast path: most references do not match, so the name is not split
    wanted = PortRef(ref)
    if point.machine != wanted.machine:
        return False
    if not wanted.port or point.port == wanted.port:
        return True
    there = (own for own in segment.ports if own.bridge == point.interface)
    return any(own.name == wanted.port and own.machine == wanted.machine for own in there)


def assign(segments: Sequence[Wanted], ip: int = 4) -> tuple[Assigned, ...]:
    """Return the network and addresses of one IP version for every segment, in order.

    Raises:
        InputError: a configured address is invalid, or no address is free.
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
    """Return the configured address of one IP version; None: no such address is configured."""
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
