"""What ports carry, as resources: VLAN, MTU, offloads, bridges inside machines, addresses, routes."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Offload
from iolab.lab.links import (
    BRIDGE,
    base_of,
    bridge_resource,
    bridge_up,
    expect_interface,
    link_netns,
    peer_name,
    place_of,
    ports_of,
)
from iolab.lab.resources import ORIGINAL, Command, Expectation, Reading, Resource, Run
from iolab.lab.shown import Features, Gateway, Interface
from iolab.lab.topology import Endpoint, Port, Route, Topology


def port_resources(lab: Lab, topology: Topology, name: str, prefix: str) -> Iterator[Resource]:
    """Return VLAN, MTU and offloads of one link's ports."""
    ports = ports_of(lab, topology, name)
    for port in ports:
        if port.interface != port.name:
            yield _vlan(lab, port)
    yield _mtu(lab, name, ports, prefix)
    switches = offload_switches(lab.links[name].offload)
    if switches:
        for port in ports:
            yield _offload(lab, port, switches)


def bridge_resources(lab: Lab, topology: Topology, links: list[str]) -> Iterator[Resource]:
    """Return the bridges inside machines, and the addresses of every endpoint on `links`."""
    for machine in lab.machines:
        ports = [p for p in topology.ports() if p.machine == machine and p.bridge and p.link in links]
        if ports:
            yield from _bridge(lab, machine, ports)
    for segment in topology.segments:
        for point in segment.endpoints:
            own = (p for p in segment.ports if p.machine == point.machine and p.link in links)
            port = next((p for p in own if point.port in (p.name, p.bridge)), None)
            if port is not None:
                yield _address(lab, point, port)


def offload_switches(offload: Offload) -> dict[str, str]:
    """Return the offloads that were asked for, by their short `ethtool -K` names."""
    named = {
        "rx": offload.rx_checksum,
        "tx": offload.tx_checksum,
        "sg": offload.sg,
        "tso": offload.tso,
        "gso": offload.gso,
        "gro": offload.gro,
        "lro": offload.lro,
    }
    return {name: switch for name, switch in named.items() if switch is not None}


def _vlan(lab: Lab, port: Port) -> Resource:
    vlan = lab.links[port.link].vlan
    add = ("ip", "link", "add", "link", port.name, "name", port.interface, "type", "vlan", "id", str(vlan))
    delete = ("ip", "link", "del", "dev", port.interface)
    return Resource(
        key=f"vlan:{port.ref}",
        machine=port.machine,
        needs=(base_of(lab, port),),
        actions=(
            Run(Command(add, port.netns), Command(delete, port.netns)),
            Run(Command(("ip", "link", "set", "dev", port.interface, "up"), port.netns)),
        ),
        expect=(
            expect_interface(
                port.netns, Interface(port.interface, "kind"), "vlan", f"kind of {port.interface}"
            ),
            expect_interface(port.netns, Interface(port.interface, "vlan"), str(vlan), f"vlan of {port.ref}"),
        ),
    )


def _mtu(lab: Lab, link: str, ports: list[Port], prefix: str) -> Resource:
    """Return the MTU of all of a link's ports; a bridge follows the smallest of its ports by itself."""
    mtu = str(lab.links[link].mtu)
    places = [(port.netns, name, port.ref) for port in ports for name in _layers(port)]
    bridge = link_netns(link, prefix)
    if len(ports) > 2:
        places += [(bridge, peer_name(i), f"the bridge's side of {port.ref}") for i, port in enumerate(ports)]
    expect = [
        expect_interface(ns, Interface(name, "mtu"), mtu, f"mtu of {what}") for ns, name, what in places
    ]
    if len(ports) > 2:
        expect.append(expect_interface(bridge, Interface(BRIDGE, "mtu"), mtu, f"mtu of the bridge of {link}"))
    return Resource(
        key=f"mtu:{link}",
        machine=ports[0].machine,
        needs=tuple(dict.fromkeys(place_of(lab, port) for port in ports)),
        actions=tuple(
            Run(Command(("ip", "link", "set", "dev", name, "mtu", mtu), netns)) for netns, name, _ in places
        ),
        expect=tuple(expect),
        held=True,
    )


def _layers(port: Port) -> tuple[str, ...]:
    """Return the port and the VLAN interface on it: the lower one first, for it caps the upper."""
    return tuple(dict.fromkeys((port.name, port.interface)))


def _offload(lab: Lab, port: Port, switches: dict[str, str]) -> Resource:
    show = Command(("ethtool", "--json", "-k", port.name), port.netns)
    words = tuple(word for pair in switches.items() for word in pair)
    return Resource(
        key=f"offload:{port.ref}:{'+'.join(switches)}",
        machine=port.machine,
        needs=(base_of(lab, port),),
        actions=(
            Run(
                Command(("ethtool", "-K", port.name, *words), port.netns),
                Command(("ethtool", "-K", port.name, ORIGINAL), port.netns),
                Reading(show, Features(port.name, tuple(switches))),
            ),
        ),
        expect=tuple(
            Expectation(
                Reading(show, Features(port.name, (name,))), f"{name} {switch}", f"{name} of {port.ref}"
            )
            for name, switch in switches.items()
        ),
        held=True,
    )


def _bridge(lab: Lab, machine: str, ports: list[Port]) -> Iterator[Resource]:
    name, netns = ports[0].bridge or BRIDGE, ports[0].netns
    bridge = f"bridge:{machine}.{name}"
    yield bridge_resource(bridge, machine, f"netns:{machine}" if netns else None, name, netns)
    for port in ports:
        join = ("ip", "link", "set", "dev", port.interface, "master", name)
        leave = ("ip", "link", "set", "dev", port.interface, "nomaster")
        what = f"bridge of {port.ref}"
        yield Resource(
            key=f"member:{port.ref}",
            machine=machine,
            needs=(bridge, place_of(lab, port)),
            actions=(Run(Command(join, netns), Command(leave, netns)),),
            expect=(expect_interface(netns, Interface(port.interface, "master"), name, what),),
        )
    needs = (bridge, *(f"member:{port.ref}" for port in ports))
    members = tuple(port.interface for port in ports)
    yield bridge_up(f"up:{machine}.{name}", machine, needs, name, netns, members)


def _address(lab: Lab, point: Endpoint, port: Port) -> Resource:
    address = f"{point.address}/{point.prefix_length}"
    add = ("ip", "addr", "add", address, "dev", point.interface)
    flush = ("ip", "addr", "flush", "to", f"{point.address}/32", "dev", point.interface)
    place = f"up:{point.ref}" if point.interface == port.bridge else place_of(lab, port)
    what = f"address of {point.ref}"
    return Resource(
        key=f"address:{point.ref}",
        machine=point.machine,
        needs=(place,),
        actions=(Run(Command(add, point.netns), Command(flush, point.netns)),),
        expect=(expect_interface(point.netns, Interface(point.interface, "address"), address, what),),
    )


def route_resource(route: Route) -> Resource:
    """Return a static route."""
    add = ("ip", "route", "add", route.destination, "via", route.gateway)
    flush = ("ip", "route", "flush", "exact", route.destination)
    show = Command(("ip", "-j", "-4", "route", "show"), route.netns)
    what = f"gateway from {route.machine} to {route.destination}"
    return Resource(
        key=f"route:{route.machine}:{route.destination}",
        machine=route.machine,
        needs=(f"address:{route.via_port.ref}",),
        actions=(Run(Command(add, route.netns), Command(flush, route.netns)),),
        expect=(Expectation(Reading(show, Gateway(route.destination)), route.gateway, what),),
    )
