"""Links as resources: a veth pair between two ports; a bridge in a namespace of its own between more.

Bridge-side ports keep the offloads that the kernel gives them: they pass large segments on and join none, so
what the machines' ports send is what the machines' ports receive.
"""

from collections.abc import Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.lab.resources import Command, CreateNetns, Expectation, Reading, Resource, Run, Write
from iolab.lab.shown import Interface, Qdisc
from iolab.lab.topology import Port, Topology

BRIDGE = "br0"
"""Name of a link's bridge in its namespace."""
NAME_LIMIT = 15
"""Longest interface name: IFNAMSIZ less the final NUL (linux/if.h)."""


def link_resources(lab: Lab, topology: Topology, name: str, prefix: str) -> Iterator[Resource]:
    """Return what joins a link's ports."""
    ports = ports_of(lab, topology, name)
    for port in ports:
        _check_name(port)
    if len(ports) == 2:
        yield _pair(lab, name, ports)
    else:
        yield from _bridged(lab, name, ports, link_netns(name, prefix))


def ports_of(lab: Lab, topology: Topology, link: str) -> list[Port]:
    """Return a link's ports in the order written."""
    found = {port.ref: port for port in topology.ports() if port.link == link}
    return [found[end] for end in lab.links[link].ends]


def link_netns(link: str, prefix: str) -> str:
    """Return the namespace that holds the bridge of a link with more than two ends."""
    return f"{prefix}link-{link}"


def peer_name(index: int) -> str:
    """Return the bridge's side of the port at `index` among a link's ends."""
    return f"p{index}"


def netns_resource(key: str, machine: str, name: str) -> Resource:
    """Return a namespace without IPv6: link-local noise would spoil the counters."""
    quiet = tuple(
        Write(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", name, "1", absent_ok=True)
        for scope in ("default", "all")
    )
    return Resource(key=key, machine=machine, actions=(CreateNetns(name), *quiet))


def base_of(lab: Lab, port: Port) -> str:
    """Return the key of the resource that makes a port."""
    return f"veth:{port.link}" if len(lab.links[port.link].ends) == 2 else f"veth:{port.ref}"


def place_of(lab: Lab, port: Port) -> str:
    """Return the key of the resource that makes the interface that carries a port's packets."""
    return f"vlan:{port.ref}" if port.interface != port.name else base_of(lab, port)


def show_interfaces(netns: str | None) -> Command:
    """Return the command that shows every interface of a namespace."""
    return Command(("ip", "-j", "-d", "addr", "show"), netns)


def expect_interface(netns: str | None, how: Interface, expected: str, what: str) -> Expectation:
    """Expect an attribute of an interface."""
    return Expectation(Reading(show_interfaces(netns), how), expected, what)


def _check_name(port: Port) -> None:
    if len(port.interface) > NAME_LIMIT or set(port.interface) & set("/ \t\n"):
        allowed = f"at most {NAME_LIMIT} characters without space or slash, VLAN suffix included"
        raise InputError([Problem(f"lab.links.{port.link}", "naming an interface", port.interface, allowed)])


def _pair(lab: Lab, link: str, ports: list[Port]) -> Resource:
    """Return a veth pair, made with each end in its namespace.

    The end in a namespace of the lab is the peer: deleting it is harmless where the pair was never made.
    """
    here, there = sorted(ports, key=lambda port: port.netns is not None)
    return Resource(
        key=f"veth:{link}",
        machine=here.machine,
        needs=_homes(lab, here, there),
        actions=(_add(here, there.name, there.netns), *_quiet(here), _up(here), _up(there)),
        expect=(*_expect_port(lab, here), *_expect_port(lab, there)),
    )


def _bridged(lab: Lab, link: str, ports: list[Port], netns: str) -> Iterator[Resource]:
    machine = ports[0].machine
    yield netns_resource(f"netns:link-{link}", machine, netns)
    yield bridge_resource(f"bridge:{link}", machine, f"netns:link-{link}", BRIDGE, netns)
    for index, port in enumerate(ports):
        yield _member(lab, link, port, peer_name(index), netns)
    needs = (f"bridge:{link}", *(f"veth:{port.ref}" for port in ports))
    members = tuple(peer_name(index) for index in range(len(ports)))
    yield bridge_up(f"up:{link}", machine, needs, BRIDGE, netns, members)


def bridge_resource(key: str, machine: str, home: str | None, name: str, netns: str | None) -> Resource:
    """Return a bridge that sends nothing by itself: no spanning tree, no multicast queries."""
    add = ("ip", "link", "add", "dev", name, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
    return Resource(
        key=key,
        machine=machine,
        needs=(home,) if home else (),
        actions=(Run(Command(add, netns), Command(("ip", "link", "del", "dev", name), netns)),),
        expect=(expect_interface(netns, Interface(name, "kind"), "bridge", f"kind of {name}"),),
    )


def bridge_up(
    key: str, machine: str, needs: tuple[str, ...], name: str, netns: str | None, members: tuple[str, ...]
) -> Resource:
    """Bring a bridge up after its ports, and expect that it forwards at each of `members`."""
    forwards = (
        expect_interface(
            netns, Interface(member, "bridging"), "forwarding", f"bridging at {member} of {name}"
        )
        for member in members
    )
    return Resource(
        key=key,
        machine=machine,
        needs=needs,
        actions=(Run(Command(("ip", "link", "set", "dev", name, "up"), netns)),),
        expect=(expect_interface(netns, Interface(name, "carrier"), "up", f"carrier of {name}"), *forwards),
    )


def _member(lab: Lab, link: str, port: Port, peer: str, netns: str) -> Resource:
    """Return one end of a link's bridge: a veth pair from the machine's port to the bridge.

    The bridge's side is opened first. The kernel tells a bridge at once of the carrier of an end that had waited for
    it, of one that finds it only within the second to which it limits such news (linkwatch).
    """
    enslave = Command(("ip", "link", "set", "dev", peer, "master", BRIDGE, "up"), netns)
    place = f"the bridge's side of {port.ref}"
    return Resource(
        key=f"veth:{port.ref}",
        machine=port.machine,
        needs=(*_homes(lab, port), f"bridge:{link}"),
        actions=(_add(port, peer, netns), *_quiet(port), Run(enslave), _up(port)),
        expect=(
            *_expect_port(lab, port),
            expect_interface(netns, Interface(peer, "master"), BRIDGE, f"bridge of {place}"),
            expect_interface(netns, Interface(peer, "carrier"), "up", f"carrier of {place}"),
        ),
    )


def for_new_interfaces(setting: str) -> bool:
    """Tell whether a setting is what interfaces begin with: it must stand before they are made."""
    return "default" in setting.split(".")


def _homes(lab: Lab, *ports: Port) -> tuple[str, ...]:
    """Return what must exist before ports: their namespaces, and the settings that they begin with."""
    found: list[str] = []
    for port in ports:
        if port.netns is not None:
            found.append(f"netns:{port.machine}")
        settings = lab.machines[port.machine].settings
        found += [f"setting:{port.machine}:{name}" for name in settings if for_new_interfaces(name)]
    return tuple(dict.fromkeys(found))


def _add(port: Port, peer: str, netns: str | None) -> Run:
    argv = ["ip", "link", "add", "dev", port.name, "type", "veth", "peer", "name", peer]
    argv += ["netns", netns] if netns is not None else []
    return Run(Command(tuple(argv), port.netns), Command(("ip", "link", "del", "dev", peer), netns))


def _up(port: Port) -> Run:
    return Run(Command(("ip", "link", "set", "dev", port.name, "up"), port.netns))


def _quiet(port: Port) -> tuple[Write, ...]:
    """Keep IPv6 off a port that lies in this computer's own namespace; in the lab's it is off everywhere."""
    path = f"/proc/sys/net/ipv6/conf/{port.name}/disable_ipv6"
    return () if port.netns is not None else (Write(path, None, "1", absent_ok=True),)


def _expect_port(lab: Lab, port: Port) -> Iterator[Expectation]:
    yield expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}")
    shape = lab.links[port.link].shape
    if shape is None or shape.at != port.ref:
        reading = Reading(Command(("tc", "-j", "qdisc", "show"), port.netns), Qdisc(port.interface, "kind"))
        yield Expectation(reading, "noqueue", f"shaping at {port.ref}")
