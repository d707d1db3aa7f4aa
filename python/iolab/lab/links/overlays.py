"""Links over other links: the ports that carry each end, and the maximum packet size. Pure."""

import itertools
from collections.abc import Iterable, Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, answered_once, ports_below
from iolab.experiment.model.quantities import PortRef
from iolab.locale import Phrase
from iolab.messages.conflicts import (
    BondMtusDiffer,
    ForwardConflict,
    LinkMtu,
    MtuLimited,
    SegmentMtusDiffer,
    TunnelInOwnBridge,
    TunnelTwice,
)
from iolab.messages.places import ForLink, KeyOf, ValueOf
from iolab.messages.unmet import UnmetRequirement
from iolab.units import ETHERNET_HEADER_BYTES

PLAIN_MTU = 1500
"""Default MTU of a link that does not run over another link [bytes]."""
UDP, VXLAN, GRE, GRE_KEY, WIREGUARD = 8, 8, 4, 4, 32
"""Header sizes [bytes], from RFC 768, RFC 7348, RFC 2784, RFC 2890 and, including the authentication tag, section 5.4.6
of the WireGuard paper."""
COUNTED = {"vxlan": 0, "gre": 0, "wireguard": WIREGUARD}
"""Bytes per packet that the kernel counts on tunnel ports in addition to the packet, if they are not a frame header
[bytes]."""
IP_HEADER = {4: 20, 6: 40}
"""Header size by IP version, without options [bytes]."""


def is_over(lab: Lab, link: str) -> bool:
    """Whether a link is over other links."""
    return bool(lab.links[link].over)


@answered_once
def carriers(lab: Lab, link: str, machine: str) -> tuple[PortRef, ...]:
    """Return the ports of a machine that carry its end of a link: the ports on all links of a bond, or on the first
    link of a tunnel."""
    found = ports_below(lab.links, lab.links[link], machine)
    return found if lab.links[link].bond is not None else found[:1]


@answered_once
def bonded(lab: Lab) -> frozenset[PortRef]:
    """Return the ports that are members of bonds, which have no addresses."""
    bonds = ((name, link) for name, link in lab.links.items() if link.bond is not None)
    return frozenset(
        ref for name, link in bonds for end in link.ends for ref in carriers(lab, name, end.machine)
    )


@answered_once
def links_below(lab: Lab, link: str) -> frozenset[str]:
    """Return all links below a link."""
    found: set[str] = set()
    waiting = list(lab.links[link].over)
    while waiting:
        if (name := waiting.pop()) not in found and name in lab.links:
            found.add(name)
            waiting += lab.links[name].over
    return frozenset(found)


def overhead_bytes(lab: Lab, link: str, ip: int) -> int:
    """Return the bytes that a tunnel adds to a packet on the link below, over this IP version [bytes]."""
    found = lab.links[link]
    key = GRE_KEY if found.id is not None else 0
    own = {
        "vxlan": UDP + VXLAN + ETHERNET_HEADER_BYTES,
        "gre": GRE + key,
        "gretap": GRE + key + ETHERNET_HEADER_BYTES,
        "wireguard": UDP + WIREGUARD,
    }
    return IP_HEADER[ip] + own[found.tunnel] if found.tunnel is not None else 0


def room_bytes(lab: Lab, link: str) -> int:
    """Return the size of the largest packet that the links below carry unfragmented, minus the tunnel overhead
    [bytes]."""
    below = [name for name in lab.links[link].over if name in lab.links]
    ip = 6 if any(lab.links[name].ip == 6 for name in below) else 4
    return min((mtu_of(lab, name) for name in below), default=PLAIN_MTU) - overhead_bytes(lab, link, ip)


def unequal_mtus(lab: Lab, segments: Iterable[tuple[str, ...]]) -> Iterator[SegmentMtusDiffer]:
    """Yield the segments whose links have different MTUs, each as a tuple of its bridged links."""
    for links in segments:
        mtus = {name: mtu_of(lab, name) for name in links}
        if len(set(mtus.values())) > 1:
            yield SegmentMtusDiffer(
                links=tuple(LinkMtu(link=name, mtu_bytes=mtu) for name, mtu in mtus.items())
            )


def mtu_of(lab: Lab, link: str) -> int:
    """Return the maximum IP packet size of a link: as configured, 1500, or the size that the links below leave [bytes].

    Raises:
        InputError: the links below leave no room.
    """
    found = lab.links[link]
    if found.mtu is not None:
        return found.mtu
    if not found.over:
        return PLAIN_MTU
    if (room := room_bytes(lab, link)) < LEAST_MTU:
        seen, allowed = (
            Phrase("lab.bytes-left-for-packets", room=room),
            Phrase("lab.larger-mtu-below", least=LEAST_MTU),
        )
        raise InputError([Problem(f"lab.links.{link}.mtu", Phrase("lab.sizing-overlay-link"), seen, allowed)])
    return room


def overlay_needs(lab: Lab) -> Iterator[UnmetRequirement]:
    """Yield conflicts of tunnels and bonds."""
    for name, link in lab.links.items():
        if link.bond is not None:
            below = tuple(one for one in link.over if one in lab.links)
            if len({mtu_of(lab, one) for one in below}) > 1:
                yield BondMtusDiffer(
                    purpose=ValueOf(key="bond", value=link.bond, part=ForLink(link=name)), links=below
                )
        elif link.tunnel is not None:
            yield from _tunnel_needs(lab, name)


def _tunnel_needs(lab: Lab, name: str) -> Iterator[UnmetRequirement]:
    link, part = lab.links[name], ForLink(link=name)
    purpose = ValueOf(key="tunnel", value=str(link.tunnel), part=part)
    if link.tunnel == "vxlan" and mtu_of(lab, name) > (most := room_bytes(lab, name)):
        yield MtuLimited(code="tunnel-mtu-large", purpose=KeyOf(key="mtu", part=part), most_bytes=most)
    for end in link.ends:
        forward = lab.machines[end.machine].forward
        if forward == "xdp" or (forward == "bridge" and link.tunnel in ("gre", "wireguard")):
            yield ForwardConflict(code="tunnel-of-packets", purpose=purpose, port=end, forward=forward)
        elif forward == "bridge":
            yield TunnelInOwnBridge(purpose=purpose, port=end, below=carriers(lab, name, end.machine)[0])
    for other in itertools.takewhile(lambda each: each != name, lab.links):
        if link.tunnel in ("gre", "gretap", "vxlan") and _alike(lab, name, other):
            yield TunnelTwice(purpose=purpose, other=other)


def _alike(lab: Lab, name: str, other: str) -> bool:
    """Whether two tunnels of one kind have the same identifier between the same ports."""
    one, two = lab.links[name], lab.links[other]
    numbered = one.id is not None or two.id is not None or one.tunnel != "vxlan"
    places = [
        {carriers(lab, at, end.machine)[0] for end in lab.links[at].ends if carriers(lab, at, end.machine)}
        for at in (name, other)
    ]
    both = places[0] & places[1] if one.tunnel == "vxlan" else places[0] == places[1]
    return one.tunnel == two.tunnel and numbered and one.id == two.id and bool(both)


LEAST_MTU = 68
"""Minimum MTU that every link must support (RFC 791) [bytes]."""
