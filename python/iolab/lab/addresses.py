"""Give every addressed interface of a lab an IPv4 address: as written, or from 198.18.0.0/15 (RFC 2544).

Deterministic, and stable between labs: a segment's first link decides its network, a port's place its host.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv4Network, NetmaskValueError

from iolab.errors import InputError, Problem

POOL = IPv4Network("198.18.0.0/15")
"""For benchmarks between isolated networks (RFC 2544, appendix C.2.2)."""
PREFIX_LENGTH = 24
"""Of an automatic network, which holds 254 interfaces."""
NO_HOSTS = IPv4Network("0.0.0.0/8")
"""Of no host (RFC 1122)."""
NETWORKS = 1 << PREFIX_LENGTH - POOL.prefixlen
"""Automatic networks in the pool: 512."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A segment that needs addresses."""

    link: str
    """Its first link, for messages."""
    index: int
    """That link's place among all links: the network tried first."""
    given: Sequence[str | None]
    """Per addressed interface the address written, with prefix length; None: automatic."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A segment's addresses."""

    network: IPv4Network
    """Its network."""
    interfaces: tuple[IPv4Interface, ...]
    """In the order asked for."""


def assign(segments: Sequence[Wanted]) -> tuple[Assigned, ...]:
    """Return network and addresses of every segment, in order.

    Raises:
        InputError: a written address cannot be used, or there is no room left.
    """
    parsed = [[_parsed(text, wanted.link) for text in wanted.given] for wanted in segments]
    _check_duplicates(segments, parsed)
    written = [interface.network for row in parsed for interface in row if interface is not None]
    taken = list(written)
    assigned: list[Assigned] = []
    for wanted, row in zip(segments, parsed, strict=True):
        network = next((interface.network for interface in row if interface is not None), None)
        if network is None:
            network = _free_network(wanted, taken)
            taken.append(network)
        assigned.append(Assigned(network, tuple(_fill(wanted, network, row))))
    return tuple(assigned)


def _parsed(text: str | None, link: str) -> IPv4Interface | None:
    if text is None:
        return None
    try:
        interface = IPv4Interface(text)
    except (AddressValueError, NetmaskValueError):
        raise _refused(link, text) from None
    unusable = (
        interface.is_loopback or interface.is_multicast or interface.is_reserved or interface.ip in NO_HOSTS
    )
    if "/" not in text or not 8 <= interface.network.prefixlen <= 30 or unusable:
        raise _refused(link, text)
    return interface


def _refused(link: str, text: str) -> InputError:
    allowed = "an IPv4 address of a host (no loopback, no multicast) with a prefix length from 8 to 30: 198.18.7.1/24"
    return InputError([Problem(f"lab.links.{link}.addresses", "reading an address", repr(text), allowed)])


def _check_duplicates(segments: Sequence[Wanted], parsed: Sequence[Sequence[IPv4Interface | None]]) -> None:
    owners: dict[IPv4Address, str] = {}
    for wanted, row in zip(segments, parsed, strict=True):
        for interface in row:
            if interface is None:
                continue
            if interface.ip in owners:
                where = f"lab.links.{wanted.link}.addresses"
                seen = f"{interface.ip} twice (also on link {owners[interface.ip]})"
                raise InputError([Problem(where, "giving addresses", seen, "every address once in a lab")])
            owners[interface.ip] = wanted.link


def _free_network(wanted: Wanted, taken: Sequence[IPv4Network]) -> IPv4Network:
    for index in (wanted.index % NETWORKS, *reversed(range(NETWORKS))):
        network = IPv4Network((int(POOL.network_address) + (index << 32 - PREFIX_LENGTH), PREFIX_LENGTH))
        if not any(network.overlaps(other) for other in taken):
            return network
    seen = f"no free /{PREFIX_LENGTH} left in {POOL}"
    allowed = f"{NETWORKS} segments"
    advice = "write addresses from another network at the link"
    raise InputError([Problem(f"lab.links.{wanted.link}", "giving addresses", seen, allowed, advice)])


def _fill(
    wanted: Wanted, network: IPv4Network, row: Sequence[IPv4Interface | None]
) -> Iterator[IPv4Interface]:
    used = {interface.ip for interface in row if interface is not None}
    free = (host for host in network.hosts() if host not in used)
    for interface in row:
        if interface is not None:
            yield interface
            continue
        host = next(free, None)
        if host is None:
            seen = f"{len(row)} interfaces on one segment"
            allowed = f"at most {network.num_addresses - 2} in {network}"
            raise InputError([Problem(f"lab.links.{wanted.link}", "giving addresses", seen, allowed)])
        yield IPv4Interface((host, network.prefixlen))
