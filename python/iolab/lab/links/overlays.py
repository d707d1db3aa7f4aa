"""Links over others: what carries each end, and how large a packet may be there. Pure."""

import itertools
from collections.abc import Iterable, Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, answered_once, ports_below
from iolab.experiment.model.quantities import PortRef
from iolab.locale import Phrase
from iolab.messages.conflicts import (
    BondMtusDiffer,
    ForwardConflict,
    MtuLimited,
    TunnelInOwnBridge,
    TunnelTwice,
)
from iolab.messages.places import ForLink, KeyOf, ValueOf
from iolab.messages.unmet import UnmetRequirement
from iolab.messages.warnings import LinkMtu, SegmentMtusDiffer
from iolab.units import ETHERNET_HEADER_BYTES

PLAIN_MTU = 1500
"""Of a link over nothing, where none is said [bytes]."""
UDP, VXLAN, GRE, GRE_KEY, WIREGUARD = 8, 8, 4, 4, 32
"""Headers [bytes]: RFC 768, RFC 7348, RFC 2784, RFC 2890, and WireGuard's with its tag (5.4.6 there)."""
COUNTED = {"vxlan": 0, "gre": 0, "wireguard": WIREGUARD}
"""What the kernel counts at the ports of tunnels of each packet beside it, where that is no frame's header [bytes]."""
IP_HEADER = {4: 20, 6: 40}
"""By version, without options [bytes]."""


def is_over(lab: Lab, link: str) -> bool:
    """Tell whether a link lies over others."""
    return bool(lab.links[link].over)


@answered_once
def carriers(lab: Lab, link: str, machine: str) -> tuple[PortRef, ...]:
    """Return the ports of a machine that carry its end of a link: all of a bond, the first of a tunnel."""
    found = ports_below(lab.links, lab.links[link], machine)
    return found if lab.links[link].bond is not None else found[:1]


@answered_once
def bonded(lab: Lab) -> frozenset[PortRef]:
    """Return the ports that are parts of bonds: they have no address of their own."""
    bonds = ((name, link) for name, link in lab.links.items() if link.bond is not None)
    return frozenset(
        ref for name, link in bonds for end in link.ends for ref in carriers(lab, name, end.machine)
    )


@answered_once
def links_below(lab: Lab, link: str) -> frozenset[str]:
    """Return every link below a link."""
    found: set[str] = set()
    waiting = list(lab.links[link].over)
    while waiting:
        if (name := waiting.pop()) not in found and name in lab.links:
            found.add(name)
            waiting += lab.links[name].over
    return frozenset(found)


def overhead_bytes(lab: Lab, link: str, ip: int) -> int:
    """Return what a tunnel adds to a packet on the link below, over IP of this version [bytes]."""
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
    """Return the largest packet that the links below carry in one piece, with what a tunnel adds [bytes]."""
    below = [name for name in lab.links[link].over if name in lab.links]
    ip = 6 if any(lab.links[name].ip == 6 for name in below) else 4
    return min((mtu_of(lab, name) for name in below), default=PLAIN_MTU) - overhead_bytes(lab, link, ip)


def unequal_mtus(lab: Lab, segments: Iterable[tuple[str, ...]]) -> Iterator[SegmentMtusDiffer]:
    """Yield the segments, each given by its links that bridges join, whose links have different MTUs."""
    for links in segments:
        mtus = {name: mtu_of(lab, name) for name in links}
        if len(set(mtus.values())) > 1:
            yield SegmentMtusDiffer(
                links=tuple(LinkMtu(link=name, mtu_bytes=mtu) for name, mtu in mtus.items())
            )


def mtu_of(lab: Lab, link: str) -> int:
    """Return the largest IP packet of a link: as written, or 1500, or what the links below leave [bytes].

    Raises:
        InputError: they leave nothing.
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
    """Tell of tunnels and bonds that cannot be."""
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
    """Tell whether two tunnels of one kind have the same number between the same ports."""
    one, two = lab.links[name], lab.links[other]
    numbered = one.id is not None or two.id is not None or one.tunnel != "vxlan"
    places = [
        {carriers(lab, at, end.machine)[0] for end in lab.links[at].ends if carriers(lab, at, end.machine)}
        for at in (name, other)
    ]
    both = places[0] & places[1] if one.tunnel == "vxlan" else places[0] == places[1]
    return one.tunnel == two.tunnel and numbered and one.id == two.id and bool(both)


LEAST_MTU = 68
"""That every link must carry (RFC 791) [bytes]."""
