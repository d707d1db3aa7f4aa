"""Neighbours that are known before a trial begins: who is asked for first is nobody's figure.

Routers of packet trials know theirs, for the frames of the instrument do not wait for answers. On an emulated link
everybody does: a request that takes the way of the link, and its answer, cost the first packet a round trip.
"""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.lab.actions import FOUND, Command, Expectation, Reading, Run
from iolab.lab.dependencies import place_of
from iolab.lab.endpoints import VERSIONS, Endpoint, Segment, version_of
from iolab.lab.links.bridges import show_interfaces
from iolab.lab.links.link_topology import mac_of
from iolab.lab.readback.values import Interface, Neighbour
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology

WITHOUT_ETHERNET = ("gre", "wireguard")
"""Tunnels that carry packets alone: there is nobody to ask for an Ethernet address."""
MOST_ENDPOINTS = 16
"""Of an emulated segment: each has an entry for each other. In a larger one they ask, and what they ask is spared."""


def neighbour_resources(lab: Lab, topology: Topology, *, packets: bool) -> Iterator[Resource]:
    """Return entries for the other endpoints of a segment: at those of emulated segments, for `packets` at routers."""
    for segment in topology.segments:
        emulated = _is_emulated(lab, segment)
        for point in segment.endpoints:
            routes = packets and lab.machines[point.machine].forward == "route"
            if not (emulated or routes) or (port := _port_of(segment, point)) is None:
                continue
            if lab.links[port.link].tunnel in WITHOUT_ETHERNET:
                continue
            for other in segment.endpoints:
                theirs = None if other is point else _port_of(segment, other)
                if theirs is None:
                    continue
                places = (place_of(lab, port), place_of(lab, theirs), f"address:{point.ref}")
                for ip in VERSIONS:
                    if (here := point.of(ip)) is not None and (there := other.of(ip)) is not None:
                        yield from _neighbour(lab, here, there, places, read_back=routes)


def _is_emulated(lab: Lab, segment: Segment) -> bool:
    """Tell whether a link of a segment, or one that carries it, is emulated, and its endpoints are few."""
    links = (*segment.links, *segment.below)
    return len(segment.endpoints) <= MOST_ENDPOINTS and any(
        lab.links[name].wire is not None for name in links
    )


def _port_of(segment: Segment, point: Endpoint) -> Port | None:
    own = (p for p in segment.ports if p.machine == point.machine and p.interface == point.interface)
    return next(own, None)


def _neighbour(
    lab: Lab, point: Endpoint, other: Endpoint, needs: tuple[str, ...], *, read_back: bool
) -> Iterator[Resource]:
    """Return an entry at an endpoint for another; none for a card of another computer, which is asked for.

    Where an entry that is gone costs a round trip and no frame, reading it back in each trial is not worth its time.
    """
    known = None if other.kernel == point.kernel else mac_of(lab, other.ref)
    if other.kernel != point.kernel and known is None:
        return
    entry = ("lladdr", known or FOUND, "nud", "permanent", "dev", point.interface)
    add = Command(("ip", "neigh", "replace", other.address, *entry), point.netns)
    delete = Command(("ip", "neigh", "del", other.address, "dev", point.interface), point.netns)
    mac = Reading(show_interfaces(other.netns), Interface(other.interface, "mac"))
    show = Reading(Command(("ip", "-j", "neigh", "show"), point.netns), Neighbour(other.address))
    expected = Expectation(show, "permanent", f"neighbour {other.ref} of {point.machine}")
    wide = ":6" if version_of(point.address) == 6 else ""
    yield Resource(
        key=f"neighbour:{point.ref}:{other.ref}{wide}",
        machine=point.machine,
        kernel=point.kernel,
        needs=needs,
        actions=(Run(add, delete, find=None if known else mac),),
        expect=(expected,) if read_back else (),
    )
