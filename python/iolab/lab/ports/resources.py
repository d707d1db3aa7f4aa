"""Port settings as resources: VLANs, MTUs, offloads, bridges inside machines, addresses, routes."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.quantities import PortRef
from iolab.frozen import frozen
from iolab.lab.actions import ORIGINAL, Command, Reading, Run
from iolab.lab.dependencies import (
    Place,
    base_of,
    place_of,
    place_of_link,
    port_dependencies,
    ports_of,
    side_key,
    side_of,
)
from iolab.lab.kernels import HERE
from iolab.lab.links.bridges import bridge_resource, bridge_up, expect_interface, show_interfaces
from iolab.lab.links.link_topology import Join, home_of, join_of, mac_of, uplinks
from iolab.lab.links.overlays import carriers, mtu_of
from iolab.lab.links.shared import STUB
from iolab.lab.ports.addresses import address_resource
from iolab.lab.ports.offloads import bridge_offload, offload_resources
from iolab.lab.readback.values import Interface
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology


def port_resources(lab: Lab, topology: Topology, name: str) -> Iterator[Resource]:
    """Return VLAN, MTU and offloads of one link's ports."""
    ports = ports_of(lab, topology, name)
    for port in ports:
        if port.interface != port.name:
            yield _vlan(lab, port)
    yield from _mtu(lab, topology, name)
    yield from offload_resources(lab, topology, name)


def bridge_resources(lab: Lab, topology: Topology, links: list[str]) -> Iterator[Resource]:
    """Return the bridges inside machines, and the addresses of every endpoint on `links`."""
    for machine in lab.machines:
        ports = [p for p in topology.ports() if p.machine == machine and p.bridge and p.link in links]
        for bridge in dict.fromkeys(port.bridge for port in ports):
            yield from _bridge(lab, machine, [port for port in ports if port.bridge == bridge])
    for segment in topology.segments:
        for point in segment.endpoints:
            own = (p for p in segment.ports if p.machine == point.machine and p.link in links)
            port = next((p for p in own if point.port in (p.name, p.bridge)), None)
            if port is not None:
                yield address_resource(lab, point, port)


def _vlan(lab: Lab, port: Port) -> Resource:
    vlan = lab.links[port.link].vlan
    add = ("ip", "link", "add", "link", port.name, "name", port.interface, "type", "vlan", "id", str(vlan))
    delete = ("ip", "link", "del", "dev", port.interface)
    return Resource(
        key=f"vlan:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
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


@frozen
class _Sized:
    """An interface that must have a link's MTU."""

    kernel: str
    netns: str | None
    interface: str
    what: str
    key: str
    """Key of the resource after which the MTU can be set."""
    settable: bool = True
    """False: the interface's MTU follows those of other interfaces."""


def _mtu(lab: Lab, topology: Topology, link: str) -> Iterator[Resource]:
    """Return the MTUs of all interfaces of a link, one resource per kernel.

    The undo restores the original MTU of a cable's ports.
    """
    mtu = str(mtu_of(lab, link))
    if lab.links[link].cable:
        yield from (_cable_mtu(lab, port, mtu) for port in ports_of(lab, topology, link))
        return
    machine = ports_of(lab, topology, link)[0].machine
    sized = list(_sized(lab, topology, link))
    for kernel in dict.fromkeys(one.kernel for one in sized):
        places = [one for one in sized if one.kernel == kernel]
        yield Resource(
            key=_mtu_key(link, kernel),
            machine=kernel or machine,
            kernel=kernel,
            needs=tuple(
                dict.fromkeys((*(one.key for one in places), *_mtu_below(lab, topology, link, kernel)))
            ),
            actions=tuple(
                Run(Command(("ip", "link", "set", "dev", one.interface, "mtu", mtu), one.netns))
                for one in places
                if one.settable
            ),
            expect=tuple(
                expect_interface(one.netns, Interface(one.interface, "mtu"), mtu, f"mtu of {one.what}")
                for one in places
            ),
            held=True,
        )


def _mtu_key(link: str, kernel: str) -> str:
    return f"mtu:{link}" if kernel == HERE else f"mtu:{link}:{kernel}"


def _mtu_below(lab: Lab, topology: Topology, link: str, kernel: str) -> Iterator[str]:
    """Yield the key of the resource that sets the MTU of the port below an interface, because this MTU limits that of
    the interface."""
    if join_of(lab, link) is Join.TUNNEL:
        for port in (port for port in ports_of(lab, topology, link) if port.kernel == kernel):
            yield _mtu_key_at(lab, topology, carriers(lab, link, port.machine)[0])
    if (
        join_of(lab, link) in (Join.ON_PORT, Join.SHARED)
        and uplinks(lab, link)
        and kernel == home_of(lab, link)
    ):
        yield _mtu_key_at(lab, topology, uplinks(lab, link)[0])


def _mtu_key_at(lab: Lab, topology: Topology, ref: PortRef) -> str:
    port = next(port for port in topology.ports() if port.ref == ref)
    return f"mtu:{port.link}:{ref}" if lab.links[port.link].cable else _mtu_key(port.link, port.kernel)


def _sized(lab: Lab, topology: Topology, link: str) -> Iterator[_Sized]:
    """Yield all interfaces of a link; the MTU of a bridge follows the minimum of its ports."""
    ports = ports_of(lab, topology, link)
    if join_of(lab, link) is Join.SHARED and not uplinks(lab, link):
        # the shared interface limits the ports' MTU
        place = place_of_link(lab, topology, link)
        yield from (_Sized(place.kernel, place.netns, name, f"what the ports of {link} share", place.key)
                    for name in (STUB, place.bridge))  # fmt: skip
    for port in ports:
        for name in _layers(port):
            yield _Sized(port.kernel, port.netns, name, port.ref, place_of(lab, port))
    for port in ports:
        side = side_of(lab, topology, port)
        if side is None:
            continue
        whole = side.lower or not side.macvtap
        what = f"the bridge's side of {port.ref}" if whole else f"the carrier of {port.ref}"
        for layer in (side.interface if side.own else None, side.lower, side.macvtap):
            if layer is not None:
                yield _Sized(side.kernel, side.netns, layer, what, side_key(lab, port))
    if join_of(lab, link) is Join.BRIDGE:
        place = place_of_link(lab, topology, link)
        what = f"the bridge of {link}"
        yield _Sized(place.kernel, place.netns, place.bridge, what, place.key, settable=False)


def _cable_mtu(lab: Lab, port: Port, mtu: str) -> Resource:
    """Return the MTU of an existing interface; the undo restores the original MTU."""
    how = Interface(port.name, "mtu")
    set_mtu = ("ip", "link", "set", "dev", port.name, "mtu")
    undo = Command((*set_mtu, ORIGINAL), port.netns)
    runs = [Run(Command((*set_mtu, mtu), port.netns), undo, Reading(show_interfaces(port.netns), how))]
    if port.interface != port.name:
        runs.append(Run(Command(("ip", "link", "set", "dev", port.interface, "mtu", mtu), port.netns)))
    return Resource(
        key=f"mtu:{port.link}:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(place_of(lab, port),),
        actions=tuple(runs),
        expect=tuple(
            expect_interface(port.netns, Interface(name, "mtu"), mtu, f"mtu of {port.ref}")
            for name in _layers(port)
        ),
        held=True,
    )


def _layers(port: Port) -> tuple[str, ...]:
    """Return the port and its VLAN interface, the port first, because its MTU limits that of the VLAN interface."""
    return tuple(dict.fromkeys((port.name, port.interface)))


def _bridge(lab: Lab, machine: str, ports: list[Port]) -> Iterator[Resource]:
    name, netns, kernel = ports[0].bridge or "", ports[0].netns, ports[0].kernel
    home = tuple(key for key in port_dependencies(lab, ports[0]) if not key.startswith("setting:"))
    place = Place(kernel, netns, home, name, f"bridge:{machine}.{name}")
    yield bridge_resource(machine, place, mac_of(lab, PortRef.of(machine, name)))
    for port in ports:
        join = ("ip", "link", "set", "dev", port.interface, "master", name)
        leave = ("ip", "link", "set", "dev", port.interface, "nomaster")
        what = f"bridge of {port.ref}"
        yield Resource(
            key=f"member:{port.ref}",
            machine=machine,
            kernel=kernel,
            needs=(place.key, place_of(lab, port)),
            actions=(Run(Command(join, netns), Command(leave, netns)),),
            expect=(expect_interface(netns, Interface(port.interface, "master"), name, what),),
        )
    joined = tuple(f"member:{port.ref}" for port in ports)
    members = tuple(port.interface for port in ports)
    yield bridge_up(f"up:{machine}.{name}", machine, place, joined, members)
    yield from bridge_offload(lab, ports, f"up:{machine}.{name}")
