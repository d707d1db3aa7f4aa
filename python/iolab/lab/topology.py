"""The topology of a lab: its segments, their addresses, and the paths between machines."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, answered_once
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.quantities import PortRef
from iolab.frozen import frozen
from iolab.lab.endpoints import (
    VERSIONS,
    Assigned,
    Endpoint,
    Home,
    Interface,
    Port,
    Route,
    Segment,
    Wanted,
    assign,
    owns,
)
from iolab.lab.kernels import kernel_of
from iolab.lab.links.link_topology import Join, is_parent, join_of, owner_of
from iolab.lab.links.overlays import COUNTED, bonded, links_below
from iolab.locale import Phrase
from iolab.units import ETHERNET_HEADER_BYTES

__all__ = ["Endpoint", "Home", "Port", "Route", "Segment"]

LOOPBACK = "lo"
"""Loopback interface of a kernel; Linux counts an Ethernet header for each of its packets, too."""


@frozen
class Topology:
    """The segments of a lab, and the machines that join them."""

    machines: tuple[str, ...]
    """Machines, in file order."""
    routers: frozenset[str]
    """Machines that forward packets between segments."""
    segments: tuple[Segment, ...]
    """Segments, in the order of their first links."""
    homes: Mapping[str, Home] = field(default_factory=dict)
    """Kernel, namespace and CPUs of each machine's programs, by machine."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Port below each port of a plain link, by the name of the plain link's port."""
    loopbacks: Mapping[str, Endpoint] = field(default_factory=dict)
    """Loopback endpoint of each host, for packets to itself."""
    prefix: str = "iolab-"
    """Prefix of the names of the lab's namespaces and interfaces on a host."""
    file_prefix: str = "iolab-"
    """Prefix of the names of the lab's files on a host; volumes have their own prefix."""
    answers: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Cache of `answered_once`."""

    def named(self, ref: str) -> str:
        """Return the port or machine of a name, with aliases resolved."""
        return self.aliases.get(ref, ref)

    @answered_once
    def ports(self) -> tuple[Port, ...]:
        """Return all ports of the lab."""
        return tuple(port for segment in self.segments for port in segment.ports)

    def endpoint(self, ref: str, towards: str, ip: int | None = None) -> Endpoint:
        """Return the endpoint of `ref` on the path to `towards`, where packets between the two start.

        `ref` and `towards` are machines, or machine.port if a machine has several ports. `ip` is the IP version;
        default: 4 if the links have both.

        Raises:
            InputError: one of the ends does not exist, or the ends are not connected.
        """
        return self._endpoint(self.named(ref), self.named(towards), ip)

    @answered_once
    def _endpoint(self, ref: str, towards: str, ip: int | None) -> Endpoint:
        here, there = PortRef(ref), PortRef(towards)
        if ref == towards and ref in self.loopbacks:
            return self.loopbacks[ref].of(ip or VERSIONS[0]) or self.loopbacks[ref]
        problem = self._unknown(ref) or self._unknown(towards)
        if here.machine == there.machine and (here.port == there.port or not here.port or not there.port):
            seen, allowed = (
                Phrase("lab.same-machine-at-both-ends", machine=here.machine),
                Phrase("lab.two-machines-or-ports"),
            )
            problem = Problem(ref, Phrase("lab.finding-path-to", target=towards), seen, allowed)
        if problem:
            raise InputError([problem])
        for version in VERSIONS if ip is None else (ip,):
            if (found := self._beginning(here, there, version)) is not None:
                return found
        raise InputError([self._unjoined(ref, towards, ip)])

    def _beginning(self, here: PortRef, there: PortRef, ip: int) -> Endpoint | None:
        """Return the endpoint at which packets of one IP version start; None: the ends are not connected."""
        machine = here.machine
        goals = {segment.name for segment in self._at(there, ip)}
        way = self._way(self._at(here, ip), goals, ip)
        if way is None:
            return None
        first, goal = way
        endpoint = next(point for point in first.endpoints if owns(first, point, here))
        taken, _ = self._way(self._at(machine, ip), {goal.name}, ip) or way
        if machine != there.machine and taken is not first:
            port = next(point for point in taken.endpoints if point.machine == machine)
            allowed = Phrase("lab.machine-or-sending-port", machine=machine, port=port.ref)
            raise InputError([Problem(here, Phrase("lab.finding-path-to", target=there), here, allowed)])
        return endpoint.of(ip)

    def endpoints(self, ref: str) -> tuple[Endpoint, ...]:
        """Return all endpoints of a machine, or that of one port."""
        own = self.named(ref)
        return tuple(
            point for segment in self.segments for point in segment.endpoints if owns(segment, point, own)
        )

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of every machine to the segments that routers join to its own."""
        versions = [ip for ip in VERSIONS if any(segment.network_of(ip) for segment in self.segments)]
        return tuple(
            route for machine in self.machines for ip in versions for route in self._routes_of(machine, ip)
        )

    def _routes_of(self, machine: str, ip: int) -> Iterator[Route]:
        ways: dict[str, tuple[Endpoint, Endpoint]] = {}
        for segment, first, router in self._walk(self._at(machine, ip), ip):
            if router is not None:
                own = {point.machine: point.of(ip) or point for point in first.endpoints}
                ways[segment.name] = own[machine], own[router]
        for segment in self.segments:
            if segment.name in ways:
                source, gateway = ways[segment.name]
                network = segment.network_of(ip) or ""
                yield Route(machine, source.netns, source, network, gateway.address, source.kernel)

    @answered_once
    def _at(self, ref: str, ip: int | None = None) -> tuple[Segment, ...]:
        """Return the segments of a machine or a port; segments over other segments come first, and are thus
        preferred."""
        own = (segment for segment in self.segments if segment.has(ref))
        found = (segment for segment in own if ip is None or segment.network_of(ip) is not None)
        return tuple(sorted(found, key=lambda segment: -len(segment.below)))

    def _way(self, starts: tuple[Segment, ...], goals: set[str], ip: int) -> tuple[Segment, Segment] | None:
        """Return the first and last segment of a shortest path from `starts` to `goals`."""
        return next(
            ((first, segment) for segment, first, _ in self._walk(starts, ip) if segment.name in goals), None
        )

    def _walk(self, starts: tuple[Segment, ...], ip: int) -> Iterator[tuple[Segment, Segment, str | None]]:
        """Yield segments, nearest first, each with the first segment and router on the path to it.

        No path through a tunnel leads to the links that carry the tunnel.
        """
        queue: deque[tuple[Segment, Segment, str | None, frozenset[str]]] = deque(
            (start, start, None, start.below) for start in starts
        )
        visited = {start.name for start in starts}
        while queue:
            segment, first, router, below = queue.popleft()
            yield segment, first, router
            for machine in self.machines:
                if machine not in self.routers or not segment.has(machine):
                    continue
                for onward in self._at(machine, ip):
                    if onward.name not in visited and below.isdisjoint(onward.links):
                        visited.add(onward.name)
                        queue.append((onward, first, router or machine, below | onward.below))

    def _unknown(self, ref: str) -> Problem | None:
        if self._at(ref):
            return None
        wanted = PortRef(ref)
        own = [port.ref for port in self.ports() if port.machine == wanted.machine]
        several = Phrase("errors.listed", items=own or self.machines)
        allowed = several if wanted.port or not own else Phrase("lab.port-of-a-link")
        return Problem(ref, Phrase("lab.finding-end-of-measurement"), ref, allowed)

    def _unjoined(self, ref: str, towards: str, ip: int | None) -> Problem:
        seen = Phrase("lab.not-linked", source=ref, target=towards)
        if ip is not None:
            seen = Phrase("lab.not-linked-by-version", source=ref, target=towards, ip=ip)
        allowed = Phrase("lab.machines-joined-by-routers")
        advice = Phrase("lab.add-link-or-forward")
        return Problem(ref, Phrase("lab.finding-path-to", target=towards), seen, allowed, advice)


@answered_once
def topology_of(lab: Lab) -> Topology:
    """Return the topology of a lab; there is one per lab, so that all callers share its caches.

    Raises:
        InputError: a port is used twice, or an address is invalid.
    """
    return make_topology(lab)


def make_topology(lab: Lab) -> Topology:
    """Determine the segments of a lab and assign addresses.

    Raises:
        InputError: a port is used twice, or an address is invalid.
    """
    ports = _ports(lab)
    groups, parts = _joined(lab, ports), bonded(lab)
    wanted: list[Wanted] = []
    owners: list[list[Port]] = []
    indices = {name: index for index, name in enumerate(lab.links)}
    for links in groups:
        _check_version(lab, links)
        slots, given = _slots([port for port in ports if port.link in links and port.ref not in parts], lab)
        owners.append(slots)
        wanted.append(Wanted(links[0], indices[links[0]], given))
    addresses = {ip: _assigned(lab, wanted, ip) for ip in VERSIONS}
    segments: list[Segment] = []
    for links, slots in zip(groups, owners, strict=True):
        first, *more = (addresses[ip][links[0]] for ip in VERSIONS if links[0] in addresses[ip])
        endpoints = tuple(
            _endpoint(lab, port, *(one.interfaces[number] for one in (first, *more)))
            for number, port in enumerate(slots)
        )
        own = tuple(port for port in ports if port.link in links)
        below = frozenset(name for link in links for name in links_below(lab, link))
        second = next((str(one.network) for one in more), None)
        segments.append(Segment(links[0], links, str(first.network), own, endpoints, below, second))
    routers = frozenset(name for name, machine in lab.machines.items() if machine.forward == "route")
    homes = {
        name: Home(kernel_of(lab, name), netns_of(lab, name), cpus_of(lab, name)) for name in lab.machines
    }
    ports_aliased = {name: own for name, own in lab.aliases.items() if "." in name}
    loopbacks = {
        name: _loopback(name, kernel_of(lab, name))
        for name, one in lab.machines.items()
        if one.kind == "host"
    }
    return Topology(
        tuple(lab.machines),
        routers,
        tuple(segments),
        homes,
        ports_aliased,
        loopbacks,
        prefix=lab.prefix,
        file_prefix=lab.file_prefix,
    )


def _loopback(machine: str, kernel: str) -> Endpoint:
    """Return the loopback endpoint of a host, whose addresses every kernel has (RFC 1122, RFC 4291)."""
    return Endpoint(machine, LOOPBACK, None, LOOPBACK, "127.0.0.1", 8, kernel, second=("::1", 128))


def _check_version(lab: Lab, links: tuple[str, ...]) -> None:
    for name in links[1:]:
        if lab.links[name].ip != lab.links[links[0]].ip:
            seen = Phrase(
                "lab.versions-differ", ip=lab.links[name].ip, other_ip=lab.links[links[0]].ip, link=links[0]
            )
            allowed = Phrase("lab.same-version-on-segment")
            raise InputError([Problem(f"lab.links.{name}.ip", Phrase("lab.giving-addresses"), seen, allowed)])


def _assigned(lab: Lab, wanted: list[Wanted], ip: int) -> dict[str, Assigned]:
    """Return the addresses of one IP version, by the first link of each segment that has this version."""
    own = [one for one in wanted if lab.links[one.link].ip in (ip, "both")]
    return {one.link: found for one, found in zip(own, assign(own, ip), strict=True)}


def _endpoint(lab: Lab, port: Port, address: Interface, *more: Interface) -> Endpoint:
    return Endpoint(
        port.machine,
        port.bridge or port.name,
        port.netns,
        port.bridge or port.interface,
        str(address.ip),
        address.network.prefixlen,
        port.kernel,
        cpus_of(lab, port.machine),
        _counted_bytes(lab, port),
        next(((str(one.ip), one.network.prefixlen) for one in more), None),
    )


def _counted_bytes(lab: Lab, port: Port) -> int:
    """Return the bytes that are counted in addition to each packet at an endpoint of a port [bytes]."""
    return (
        ETHERNET_HEADER_BYTES
        if port.bridge
        else COUNTED.get(lab.links[port.link].tunnel or "", ETHERNET_HEADER_BYTES)
    )


def netns_of(lab: Lab, machine: str) -> str | None:
    """Return the network namespace of a machine; None if the machine is a whole kernel."""
    return f"{lab.prefix}{machine}" if lab.machines[machine].kind == "netns" else None


def cpus_of(lab: Lab, machine: str) -> tuple[int, ...]:
    """Return the CPUs for a machine's programs; empty: all CPUs of its kernel."""
    found = lab.machines[machine]
    return found.program_cpus if found.kind == "netns" else ()


def buildable(machine: Machine) -> bool:
    """Whether a machine is on the local host's kernel."""
    return machine.kind == "netns" or (machine.kind == "host" and machine.ssh is None)


def _ports(lab: Lab) -> tuple[Port, ...]:
    _check_ends(lab)
    parts = bonded(lab)
    found: dict[str, Port] = {}
    for name, link in lab.links.items():
        for end in link.ends:
            if owner_of(lab, end) != name:
                continue
            children = tuple(other for other, one in lab.links.items() if end in one.ends and other != name)
            bridged = [other for other in children if join_of(lab, other) is Join.CHILDREN]
            found[end] = Port(
                end.machine,
                end.port,
                name,
                netns_of(lab, end.machine),
                end.port if link.vlan is None else f"{end.port}.{link.vlan}",
                _bridge_of(lab, end)
                if bridged or (_bridges(lab, end.machine) and end not in parts)
                else None,
                kernel_of(lab, end.machine),
                children,
            )
    return tuple(found.values())


def _check_ends(lab: Lab) -> None:
    taken: dict[str, str] = {}
    for name, link in lab.links.items():
        for end in link.ends:
            machine = end.machine
            strange = machine not in lab.machines or not end.port or link.ends.count(end) > 1
            if strange or (end in taken and not is_parent(lab, name, machine)):
                seen = Phrase("lab.end-of-two-links", end=end, link=taken[end]) if end in taken else end
                allowed = Phrase("lab.port-of-one-link")
                raise InputError(
                    [Problem(f"lab.links.{name}.ends", Phrase("lab.joining-ports"), seen, allowed)]
                )
            if not is_parent(lab, name, machine):
                taken[end] = name


def _bridges(lab: Lab, machine: str) -> bool:
    return lab.machines[machine].forward == "bridge"


def _bridge_of(lab: Lab, ref: PortRef) -> str:
    """Return the bridge of a port: one for all ports of a bridging machine, otherwise one per port with children."""
    machine = ref.machine
    number = 0
    if not _bridges(lab, machine):
        ends = [end for link in lab.links.values() for end in link.ends if end.machine == machine]
        number = [end for end in dict.fromkeys(ends) if ends.count(end) > 1].index(ref)
    return f"{lab.prefix if lab.machines[machine].kind == 'host' else ''}br{number}"


def _joined(lab: Lab, ports: tuple[Port, ...]) -> list[tuple[str, ...]]:
    """Group links into segments: two links are in one segment if a machine bridges them."""
    group = {name: {name} for name in lab.links}
    together: dict[tuple[str, str], list[str]] = {}
    for port in ports:
        if port.bridge or port.children or lab.machines[port.machine].forward == "xdp":
            switch = port.bridge or (port.name if port.children else "")
            together.setdefault((port.machine, switch), []).extend((port.link, *port.children))
    for bridged in together.values():
        merged = {name for link in bridged for name in group[link]}
        for name in merged:
            group[name] = merged
    order: dict[tuple[str, ...], None] = {}
    for name in lab.links:
        order.setdefault(tuple(link for link in lab.links if link in group[name]))
    return list(order)


def _slots(ports: list[Port], lab: Lab) -> tuple[list[Port], list[str | None]]:
    """Return the ports that have a segment's addresses, one per bridge, with their configured addresses."""
    slots: dict[tuple[str, str], Port] = {}
    given: dict[tuple[str, str], str | None] = {}
    for port in ports:
        if lab.machines[port.machine].forward == "xdp":
            continue  # frames of the port never reach a stack, so it has no address
        key = (port.machine, port.bridge or port.interface)
        slots.setdefault(key, port)
        for link in (port.link, *port.children):
            given[key] = given.get(key) or lab.links[link].addresses.get(port.ref)
    return list(slots.values()), list(given.values())
