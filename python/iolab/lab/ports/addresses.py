"""Addresses of ports, routes between them, and static neighbour entries. Pure.

A port has IPv6 only if its link requests IPv6, and then only the configured address, without a link-local one, so that
the port sends nothing except multicast listener reports (RFC 3810). The address is usable at once, without duplicate
address detection. A router also has a link-local address, from which it sends neighbour solicitations.

In packet trials, routers have static neighbour entries, because the instrument's frames do not wait for neighbour
discovery. On an emulated link all endpoints have static entries: discovery over the link would delay the first packet
by a round trip.
"""

from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import Literal

from iolab.experiment.experiment import Lab
from iolab.lab.actions import FOUND, Action, Command, Expectation, Reading, Run, Write
from iolab.lab.dependencies import place_of
from iolab.lab.endpoints import VERSIONS, Endpoint, Port, Route, Segment, version_of
from iolab.lab.links.bridges import show_interfaces
from iolab.lab.links.link_topology import mac_of
from iolab.lab.readback.values import Gateway, HasAddress, Interface, Neighbour
from iolab.lab.resources import Resource
from iolab.lab.topology import Topology

LOWER_HALF = 0xFFFF
"""Host part of the link-local addresses of routers."""
WHOLE = {4: 32, 6: 128}
"""Length of an address by IP version [bit]."""
WITHOUT_ETHERNET = ("gre", "wireguard")
"""Tunnels that carry packets without Ethernet, and thus have no neighbour discovery."""
MOST_ENDPOINTS = 16
"""Maximum number of endpoints of an emulated segment for which static entries are created: each endpoint has an entry
for each other endpoint. Larger segments use neighbour discovery."""


def address_resource(lab: Lab, point: Endpoint, port: Port) -> Resource:
    """Return the addresses of an endpoint."""
    actions: list[Action] = []
    expect: list[Expectation] = []
    for one in point.each():
        actions += _actions(lab, one)
        expect.append(_expected(lab, one, port))
    return Resource(
        key=f"address:{point.ref}",
        machine=point.machine,
        kernel=point.kernel,
        needs=(f"up:{point.ref}" if point.interface == port.bridge else place_of(lab, port),),
        actions=tuple(actions),
        expect=tuple(expect),
    )


def _actions(lab: Lab, point: Endpoint) -> Iterator[Action]:
    ip, address = version_of(point.address), f"{point.address}/{point.prefix_length}"
    if ip == 6:
        alone = ("ip", "link", "set", "dev", point.interface, "addrgenmode", "none")
        yield Run(Command(alone, point.netns))
        names = ("lo", point.interface) if point.netns is not None else (point.interface,)
        yield from (Write(disabled_path(name), point.netns, "0") for name in names)
    if ip == 6 and lab.machines[point.machine].forward == "route":
        own = f"fe80::{int(IPv6Address(point.address)) & LOWER_HALF:x}/64"
        local = ("ip", "addr", "add", own, "dev", point.interface, "nodad")
        gone = ("ip", "addr", "flush", "to", own.replace("/64", "/128"), "dev", point.interface)
        yield Run(Command(local, point.netns), Command(gone, point.netns))
    add = ("ip", "addr", "add", address, "dev", point.interface, *(("nodad",) if ip == 6 else ()))
    flush = ("ip", "addr", "flush", "to", f"{point.address}/{WHOLE[ip]}", "dev", point.interface)
    yield Run(Command(add, point.netns), Command(flush, point.netns))


def disabled_path(interface: str) -> str:
    """Return the setting that disables IPv6 on an interface."""
    return f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"


def _expected(lab: Lab, point: Endpoint, port: Port) -> Expectation:
    """Return the expectation of an endpoint's only address, or of one of several addresses of a cable's interface."""
    address = f"{point.address}/{point.prefix_length}"
    others = lab.links[port.link].cable and point.interface != port.bridge
    attribute: Literal["address", "address6"] = "address6" if version_of(point.address) == 6 else "address"
    how = HasAddress(point.interface, address) if others else Interface(point.interface, attribute)
    return Expectation(Reading(show_interfaces(point.netns), how), address, f"address of {point.ref}")


def route_resource(route: Route) -> Resource:
    """Return a static route."""
    ip = version_of(route.destination)
    add = ("ip", f"-{ip}", "route", "add", route.destination, "via", route.gateway)
    flush = ("ip", f"-{ip}", "route", "flush", "exact", route.destination)
    add, flush = (argv if ip == 6 else (argv[0], *argv[2:]) for argv in (add, flush))
    show = Command(("ip", "-j", f"-{ip}", "route", "show"), route.netns)
    what = f"gateway from {route.machine} to {route.destination}"
    return Resource(
        key=f"route:{route.machine}:{route.destination}",
        machine=route.machine,
        kernel=route.kernel,
        needs=(f"address:{route.via_port.ref}",),
        actions=(Run(Command(add, route.netns), Command(flush, route.netns)),),
        expect=(Expectation(Reading(show, Gateway(route.destination, route.gateway)), route.gateway, what),),
    )


def neighbour_resources(lab: Lab, topology: Topology, *, packets: bool) -> Iterator[Resource]:
    """Return neighbour entries for a segment's endpoints: for all endpoints of an emulated segment and, with `packets`,
    for routers."""
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
    """Whether a link of a segment, or a link that carries it, is emulated, and the segment has few endpoints."""
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
    """Return a neighbour entry on one endpoint for a second one; None: the other NIC is on a different host.

    A NIC of a different host is found by neighbour discovery. A missing entry costs only a round trip on links without
    generated frames, so entries are not read back in each trial.
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
