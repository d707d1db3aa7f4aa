"""Links as resources: the interfaces between their ends, on the kernel where the ends are joined.

The bridge ends of veth pairs keep the kernel's default offloads: they pass large segments and merge none, so the
machines' ports receive exactly what other machines' ports send.
"""

from collections.abc import Iterator
from dataclasses import replace

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.lab.actions import Command, Expectation, Reading, Run, Write
from iolab.lab.dependencies import (
    Place,
    halves_of,
    kernel_dependencies,
    place_of_link,
    port_dependencies,
    ports_of,
    side_key,
    side_of,
)
from iolab.lab.links.bridges import bridge_resource, bridge_up, expect_interface, netns_resource
from iolab.lab.links.link_topology import (
    NAME_LIMIT,
    Join,
    Side,
    guest_at,
    home_of,
    is_card,
    is_macvtap,
    is_on_port,
    join_of,
    mac_of,
)
from iolab.lab.links.shared import mode_of, shared_resources
from iolab.lab.links.sriov import function_resources
from iolab.lab.links.tc import netem_resources
from iolab.lab.links.tunnels import overlay_resources
from iolab.lab.links.wires import wire_between_bridges, wire_id, wire_on_port, wire_resources
from iolab.lab.readback.shaping import Qdisc
from iolab.lab.readback.values import Interface
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.locale import Phrase


def link_resources(lab: Lab, topology: Topology, name: str) -> Iterator[Resource]:
    """Return the resources that join a link's ports.

    Raises:
        InputError: the kernels of the ends cannot be joined, or a name is not a valid interface name.
    """
    ports = ports_of(lab, topology, name)
    _check(lab, name, ports)
    yield from netem_resources(lab, name, ports)
    match join_of(lab, name):
        case Join.TUNNEL | Join.BOND:
            yield from overlay_resources(lab, topology, name, ports)
        case Join.PAIR:
            yield _pair(lab, name, ports)
        case Join.WIRE:
            yield from wire_resources(lab, topology, name, ports)
        case Join.TAP | Join.CABLE:
            yield from _existing(lab, topology, name, ports)
        case Join.MACVTAP:
            yield from _carried(lab, topology, name)
        case Join.FUNCTIONS:
            yield from function_resources(lab, topology, name)
        case Join.SHARED:
            yield from shared_resources(lab, topology, name)
        case Join.ON_PORT:
            below = place_of_link(lab, topology, name).key
            yield from (_macvtap(lab, topology, port, below) for port in ports)
        case Join.BRIDGE | Join.CHILDREN as join:
            yield from _bridged(lab, topology, name, join)


def _where(lab: Lab, kernel: str) -> tuple[str, tuple[str, ...]]:
    return kernel, kernel_dependencies(lab, kernel)


NEGOTIATION_NS = 30_000_000_000
"""Maximum time until NICs have a carrier again after a change that takes the link down (MTU, queues, pause frames):
2 to 5 s for 1000BASE-T, more than 10 s with forward error correction or through a switch with spanning tree [ns]."""


def _check(lab: Lab, link: str, ports: list[Port]) -> None:
    if not lab.links[link].cable and not lab.links[link].over:
        home_of(lab, link)
    for port in ports:
        if len(port.interface) > NAME_LIMIT or set(port.interface) & set("/ \t\n"):
            allowed = Phrase("lab.name-of-interface", most=NAME_LIMIT)
            path = f"lab.links.{port.link}"
            raise InputError([Problem(path, Phrase("lab.naming-an-interface"), port.interface, allowed)])


def _cable(lab: Lab, port: Port) -> Resource:
    """Return the resource of a cable end, which expects that the interface exists and is up."""
    return Resource(
        key=f"cable:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=port_dependencies(lab, port),
        expect=(replace(_expect_up(port), patience_ns=NEGOTIATION_NS),),
    )


def _pair(lab: Lab, link: str, ports: list[Port]) -> Resource:
    """Return a veth pair, with each end created in its namespace.

    The end in a namespace of the lab is the peer: its deletion is harmless if the pair was never created.
    """
    here, there = sorted(ports, key=lambda port: port.netns is not None)
    return Resource(
        key=f"veth:{link}",
        machine=here.machine,
        kernel=here.kernel,
        needs=port_dependencies(lab, here, there),
        actions=(
            _add(lab, here, there.name, there.netns, mac_of(lab, there.ref)),
            *_quiet(lab, here),
            _up(here),
            _up(there),
        ),
        expect=(*_expect_port(lab, here), *_expect_port(lab, there)),
    )


def _existing(lab: Lab, topology: Topology, link: str, ports: list[Port]) -> Iterator[Resource]:
    """Yield the resources of ports that exist already, and of the emulated link on one of them."""
    yield from (_there(lab, link, port) for port in ports if not is_card(lab, port.ref))
    if is_on_port(lab, link):
        yield from wire_on_port(lab, topology, link, ports)


def _there(lab: Lab, link: str, port: Port) -> Resource:
    """Return the resource of an existing port, or of a port that is created with a guest."""
    return _cable(lab, port) if lab.links[link].cable else _tap(lab, link, port)


def _tap(lab: Lab, link: str, port: Port) -> Resource:
    """Return the port that is a guest's tap, which is created and removed with the guest."""
    (guest,) = (end.machine for end in lab.links[link].ends if is_card(lab, end))
    up = ("ip", "link", "set", "dev", port.name, "address", mac_of(lab, port.ref) or "", "up")
    return Resource(
        key=f"tap:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(*port_dependencies(lab, port), f"vm:{guest}"),
        actions=(*_quiet(lab, port), Run(Command(up, port.netns))),
        expect=(_expect_up(port),),
    )


def _to_side(lab: Lab, key: str, port: Port, side: Side, place: Place) -> Resource:
    """Return a veth pair from a port to the device below a guest's macvtap."""
    up = Run(Command(("ip", "link", "set", "dev", side.interface, "up"), side.netns))
    return Resource(
        key=key,
        machine=port.machine,
        kernel=place.kernel,
        needs=(*port_dependencies(lab, port), *place.home),
        actions=(_add(lab, port, side.interface, side.netns), *_quiet(lab, port), up, _up(port)),
        expect=tuple(_expect_port(lab, port)),
    )


def _carried(lab: Lab, topology: Topology, link: str) -> Iterator[Resource]:
    """Return a guest's macvtap in a dedicated namespace, with the connection to the port at the other end."""
    ports = ports_of(lab, topology, link)
    place = place_of_link(lab, topology, link)
    yield netns_resource(
        f"netns:link-{link}", ports[0].machine, place.netns or "", *_where(lab, place.kernel)
    )
    for port in ports:
        if is_card(lab, port.ref):
            yield _macvtap(lab, topology, port, f"veth:{link}")
        else:
            (side,) = (found for one in ports if (found := side_of(lab, topology, one)))
            yield _to_side(lab, f"veth:{link}", port, side, place)


def _macvtap(lab: Lab, topology: Topology, port: Port, *needs: str) -> Resource:
    """Return the macvtap of a guest's NIC; if its lower device must be a bridge member, add a veth pair."""
    side = side_of(lab, topology, port)
    place = place_of_link(lab, topology, port.link)
    assert side is not None
    assert side.macvtap is not None
    lower = side.lower or side.interface
    runs: list[Run] = []
    expect: list[Expectation] = []
    if side.lower is not None:
        pair = ("ip", "link", "add", "dev", lower, "type", "veth", "peer", "name", side.interface)
        runs.append(Run(Command(pair, side.netns), Command(("ip", "link", "del", "dev", lower), side.netns)))
        runs += [_enslave(side, place), Run(Command(("ip", "link", "set", "dev", lower, "up"), side.netns))]
        expect += _expect_member(side, place, port)
    add = ("ip", "link", "add", "link", lower, "name", side.macvtap, "address", mac_of(lab, port.ref) or "")
    delete = Command(("ip", "link", "del", "dev", side.macvtap), side.netns)
    mode = mode_of(lab, port.link)
    runs.append(Run(Command((*add, "type", "macvtap", "mode", mode), side.netns), delete))
    runs.append(Run(Command(("ip", "link", "set", "dev", side.macvtap, "up"), side.netns)))
    what = f"the carrier of {port.ref}"
    expect += [
        expect_interface(side.netns, Interface(side.macvtap, "kind"), "macvtap", f"kind of {what}"),
        expect_interface(side.netns, Interface(side.macvtap, "lower"), lower, f"lower device of {what}"),
        expect_interface(side.netns, Interface(side.macvtap, "mode"), mode, f"mode of {what}"),
    ]
    return Resource(
        key=f"macvtap:{port.ref}",
        machine=port.machine,
        kernel=side.kernel,
        needs=needs,
        actions=tuple(runs),
        expect=tuple(expect),
    )


def _bridged(lab: Lab, topology: Topology, link: str, join: Join) -> Iterator[Resource]:
    ports = ports_of(lab, topology, link)
    whole = place_of_link(lab, topology, link)
    machine, places = ports[0].machine, halves_of(lab, link, whole)
    if join is Join.BRIDGE:
        if whole.netns is not None:
            yield netns_resource(f"netns:link-{link}", machine, whole.netns, *_where(lab, whole.kernel))
        yield from (bridge_resource(machine, place) for place in dict.fromkeys(places))
    members: dict[Place, list[str]] = {place: [] for place in places}
    for port, place in zip(ports, places, strict=False):
        side = side_of(lab, topology, port)
        assert side is not None
        members[place].append(side.interface)
        if is_card(lab, port.ref) and is_macvtap(guest_at(lab, port.ref)):
            yield _macvtap(lab, topology, port, place.key)
        elif is_card(lab, port.ref):
            yield _guest_member(port, side, place)
        else:
            yield _member(lab, port, side, place)
    between: tuple[str, ...] = ()
    if len(members) > 1:
        yield from wire_between_bridges(lab, topology, link, ports, places)
        between = (wire_id(link),)
    if join is Join.BRIDGE:
        sides = tuple(side_key(lab, port) for port in ports) + between
        for number, (place, own) in enumerate(members.items()):
            key = f"up:{link}:{number}" if between else f"up:{link}"
            yield bridge_up(key, machine, place, sides, tuple(own))


def _guest_member(port: Port, side: Side, place: Place) -> Resource:
    """Return a guest's tap as a bridge member."""
    return Resource(
        key=f"side:{port.ref}",
        machine=port.machine,
        kernel=place.kernel,
        needs=(place.key, f"vm:{port.machine}"),
        actions=(_enslave(side, place),),
        expect=tuple(_expect_member(side, place, port)),
    )


def _member(lab: Lab, port: Port, side: Side, place: Place) -> Resource:
    """Return one end of a link's bridge: a veth pair from the machine's port to the bridge.

    The bridge's end is brought up first. The kernel reports the carrier of a waiting end to the bridge at once, but it
    reports the carrier of an end that comes up later with a delay of up to a second (linkwatch).
    """
    return Resource(
        key=f"veth:{port.ref}",
        machine=port.machine,
        kernel=place.kernel,
        needs=(*port_dependencies(lab, port), place.key),
        actions=(
            _add(lab, port, side.interface, side.netns),
            *_quiet(lab, port),
            _enslave(side, place),
            _up(port),
        ),
        expect=(*_expect_port(lab, port), *_expect_member(side, place, port)),
    )


def _enslave(side: Side, place: Place) -> Run:
    return Run(
        Command(("ip", "link", "set", "dev", side.interface, "master", place.bridge, "up"), side.netns)
    )


def _expect_member(side: Side, place: Place, port: Port) -> Iterator[Expectation]:
    what = f"the bridge's side of {port.ref}"
    yield expect_interface(side.netns, Interface(side.interface, "master"), place.bridge, f"bridge of {what}")
    yield expect_interface(side.netns, Interface(side.interface, "carrier"), "up", f"carrier of {what}")


def _add(lab: Lab, port: Port, peer: str, netns: str | None, peer_mac: str | None = None) -> Run:
    """Return the command that creates a veth pair.

    An end in a kernel's initial namespace is created there, and only the peer is moved.

    The undo deletes the peer, which is harmless if the pair was never created.
    """
    mac = mac_of(lab, port.ref)
    here, there = (port.name, mac, port.netns), (peer, peer_mac, netns)
    if netns is None and port.netns is not None:
        here, there = there, here
    argv = ["ip", "link", "add", "dev", here[0], *(("address", here[1]) if here[1] else ())]
    argv += ["type", "veth", "peer", "name", there[0], *(("address", there[1]) if there[1] else ())]
    argv += ["netns", there[2]] if there[2] is not None else []
    return Run(Command(tuple(argv), here[2]), Command(("ip", "link", "del", "dev", there[0]), there[2]))


def _up(port: Port) -> Run:
    return Run(Command(("ip", "link", "set", "dev", port.name, "up"), port.netns))


def _quiet(lab: Lab, port: Port) -> tuple[Write, ...]:
    """Return the action that disables IPv6 on a port in a host's initial namespace.

    In the lab's namespaces and in guests, IPv6 is disabled on all interfaces.
    """
    path = f"/proc/sys/net/ipv6/conf/{port.name}/disable_ipv6"
    host = port.netns is None and lab.machines[port.machine].kind == "host" and lab.links[port.link].ip == 4
    return (Write(path, None, "1", absent_ok=True),) if host else ()


def _expect_up(port: Port) -> Expectation:
    return expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}")


def _expect_port(lab: Lab, port: Port) -> Iterator[Expectation]:
    yield _expect_up(port)
    shape, wire = lab.links[port.link].shape, lab.links[port.link].wire
    if (shape is None or shape.at != port.ref) and (wire is None or wire.emulator != "netem"):
        reading = Reading(Command(("tc", "-j", "qdisc", "show"), port.netns), Qdisc(port.interface, "kind"))
        yield Expectation(reading, "noqueue", f"shaping at {port.ref}")
