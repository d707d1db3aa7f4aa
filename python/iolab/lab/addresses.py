"""Give every addressed interface of a lab an address: as written, or by rule.

IPv4 addresses are from 198.18.0.0/15 (RFC 2544), IPv6 addresses from 2001:2::/48 (RFC 5180). Deterministic, and stable
between labs: a segment's first link decides its network, a port's place its host.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from iolab.frozen import frozen

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
    allowed = (
        f"an IPv{ip} address of a host (no loopback, no multicast) with a prefix length from {lengths[0]} to "
        f"{lengths[-1]}: {POOLS[ip].example}"
    )
    return InputError([Problem(f"lab.links.{link}.addresses", "reading an address", repr(text), allowed)])


def _check_duplicates(segments: Sequence[Wanted], parsed: Sequence[Sequence[Interface | None]]) -> None:
    owners: dict[Address, str] = {}
    for wanted, row in zip(segments, parsed, strict=True):
        for interface in row:
            if interface is None:
                continue
            if interface.ip in owners:
                where = f"lab.links.{wanted.link}.addresses"
                seen = f"{interface.ip} twice (also on link {owners[interface.ip]})"
                raise InputError([Problem(where, "giving addresses", seen, "every address once in a lab")])
            owners[interface.ip] = wanted.link


def _free_network(wanted: Wanted, taken: Sequence[Network], pool: Pool) -> Network:
    first, bits = int(pool.network.network_address), pool.network.max_prefixlen - pool.prefix_length
    for index in (wanted.index % pool.networks, *reversed(range(pool.networks))):
        network = ip_network((first + (index << bits), pool.prefix_length))
        if not any(network.overlaps(other) for other in taken):
            return network
    seen = f"no free /{pool.prefix_length} left in {pool.network}"
    allowed = f"{pool.networks} segments"
    advice = "write addresses from another network at the link"
    raise InputError([Problem(f"lab.links.{wanted.link}", "giving addresses", seen, allowed, advice)])


def _fill(wanted: Wanted, network: Network, row: Sequence[Interface | None]) -> Iterator[Interface]:
    used = {interface.ip for interface in row if interface is not None}
    free = (host for host in islice(network.hosts(), MOST_HOSTS) if host not in used)
    for interface in row:
        if interface is not None:
            yield interface
            continue
        host = next(free, None)
        if host is None:
            seen = f"{len(row)} interfaces on one segment"
            most = min(MOST_HOSTS, network.num_addresses - 2)
            allowed = f"at most {most} in {network}"
            raise InputError([Problem(f"lab.links.{wanted.link}", "giving addresses", seen, allowed)])
        yield ip_interface(f"{host}/{network.prefixlen}")
