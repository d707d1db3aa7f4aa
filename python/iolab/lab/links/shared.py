"""Ports that share one interface: macvlans, ipvlans, and macvtaps of guests. Pure.

The shared interface is the parent's port, or an interface dedicated to the link. A macvlan has its own MAC address; an
ipvlan has the MAC address of the interface below and is addressed by IP. The kernel forwards frames between these ports
itself, without a bridge and without the interface below.
"""

from collections.abc import Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.lab.actions import Command, Run
from iolab.lab.dependencies import (
    Place,
    base_of,
    kernel_dependencies,
    place_of_link,
    port_dependencies,
    ports_of,
)
from iolab.lab.links.bridges import expect_interface, netns_resource
from iolab.lab.links.link_topology import (
    Join,
    guest_at,
    is_ours,
    join_of,
    mac_of,
    macvtaps_on,
    own_ends,
    uplinks,
)
from iolab.lab.readback.values import Interface
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.locale import Phrase
from iolab.messages.conflicts import (
    ClashAtPort,
    ClashAtPorts,
    ForwardConflict,
    MacvtapGetsOwnFrames,
    PlainClash,
)
from iolab.messages.places import ForLink, ForMachine, ValueOf
from iolab.messages.unmet import UnmetRequirement

STUB = "stub"
"""Other end of a link's dedicated interface; frames that the interface sends to it are discarded."""
DEFAULT_MODES = {"macvlan": "bridge", "ipvlan": "l2"}
"""Default modes of macvlan and ipvlan."""


def shared_mode(lab: Lab, link: str) -> str:
    """Return the mode of a link's macvlans or ipvlans."""
    found = lab.links[link]
    return found.mode or DEFAULT_MODES[str(found.join)]


def shared_resources(lab: Lab, topology: Topology, link: str) -> Iterator[Resource]:
    """Yield a link's macvlans or ipvlans, and the shared interface if it is dedicated to the link."""
    ports, place = ports_of(lab, topology, link), place_of_link(lab, topology, link)
    if not uplinks(lab, link):
        needs = kernel_dependencies(lab, place.kernel)
        yield netns_resource(f"netns:link-{link}", ports[0].machine, place.netns or "", place.kernel, needs)
        yield _lower(ports[0].machine, place)
    yield from (_upper(lab, port, place) for port in ports)


def _lower(machine: str, place: Place) -> Resource:
    """Return the interface that a link's ports share."""
    pair = ("ip", "link", "add", "dev", place.bridge, "type", "veth", "peer", "name", STUB)
    ups = (("ip", "link", "set", "dev", name, "up") for name in (STUB, place.bridge))
    what = f"carrier of {place.bridge}"
    return Resource(
        key=place.key,
        machine=machine,
        kernel=place.kernel,
        needs=place.home,
        actions=(
            Run(Command(pair, place.netns), Command(("ip", "link", "del", "dev", place.bridge), place.netns)),
            *(Run(Command(up, place.netns)) for up in ups),
        ),
        expect=(expect_interface(place.netns, Interface(place.bridge, "carrier"), "up", what),),
    )


def _upper(lab: Lab, port: Port, place: Place) -> Resource:
    """Return a port on a shared interface: created next to that interface and moved to its namespace."""
    kind, mode = str(lab.links[port.link].join), shared_mode(lab, port.link)
    mac = mac_of(lab, port.ref) if kind == "macvlan" else None
    add = ("ip", "link", "add", "link", place.bridge, "name", port.name, *(("address", mac) if mac else ()))
    add += ("netns", port.netns or "", "type", kind, "mode", mode)
    return Resource(
        key=base_of(lab, port),
        machine=port.machine,
        kernel=port.kernel,
        needs=(*port_dependencies(lab, port), place.key),
        actions=(
            Run(Command(add, place.netns), Command(("ip", "link", "del", "dev", port.name), port.netns)),
            Run(Command(("ip", "link", "set", "dev", port.name, "up"), port.netns)),
        ),
        expect=(
            expect_interface(port.netns, Interface(port.name, "kind"), kind, f"kind of {port.ref}"),
            expect_interface(port.netns, Interface(port.name, "mode"), mode, f"mode of {port.ref}"),
            expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}"),
        ),
    )


def join_needs(lab: Lab) -> Iterator[UnmetRequirement]:
    """Yield conflicts of ends that cannot be joined with the requested link type."""
    for name, link in lab.links.items():
        if link.join is None:
            continue
        purpose = ValueOf(key="join", value=link.join, part=ForLink(link=name))
        if is_ours(lab, name):
            yield PlainClash(code="join-without-wire", purpose=purpose)
        elif link.join == "veth" and join_of(lab, name) is not Join.PAIR:
            yield PlainClash(code="pair-of-two", purpose=purpose)
        elif link.join == "bridge" and join_of(lab, name) not in (Join.BRIDGE, Join.CHILDREN):
            yield ClashAtPort(code="cards-on-port", purpose=purpose, port=uplinks(lab, name)[0])
        elif join_of(lab, name) is Join.SHARED:
            yield from _shared_needs(lab, name, purpose)


def _shared_needs(lab: Lab, name: str, purpose: ValueOf) -> Iterator[UnmetRequirement]:
    link, above = lab.links[name], uplinks(lab, name)
    kinds = {end: lab.machines[end.machine] for end in own_ends(lab, name)}
    if strange := tuple(end for end, one in kinds.items() if one.kind != "netns" or one.ports != "veth"):
        yield ClashAtPorts(code="shared-by-namespaces", purpose=purpose, ports=strange)
    for end, machine in kinds.items():
        if machine.forward in ("bridge", "xdp"):
            yield ForwardConflict(
                code="join-gives-own-frames", purpose=purpose, port=end, forward=machine.forward
            )
    if link.join == "ipvlan" and link.vlan is not None:
        yield PlainClash(code="vlan-on-ipvlan", purpose=purpose)
    if not above:
        return
    others = {one.join for other, one in lab.links.items() if above[0] in uplinks(lab, other)}
    if len(above) > 1 or others != {link.join} or lab.machines[above[0].machine].forward == "bridge":
        yield ClashAtPort(code="join-on-bridged-port", purpose=purpose, port=above[0])
    if shared_mode(lab, name).startswith("l3"):
        yield ClashAtPort(code="l3-on-port", purpose=purpose, port=above[0])


def mode_of(lab: Lab, link: str) -> str:
    """Return the mode of a link's macvtap: a single macvtap gets all frames; of several, each gets the frames to its
    address."""
    above = uplinks(lab, link)
    alone = not above or len(macvtaps_on(lab, above[0])) < 2
    return "passthru" if alone else "bridge"


def macvtap_needs(lab: Lab) -> Iterator[UnmetRequirement]:
    """Yield conflicts of guests that forward frames which their macvtaps do not receive."""
    for link in _on_ports(lab):
        for end in own_ends(lab, link) if mode_of(lab, link) == "bridge" else ():
            name = end.machine
            if guest_at(lab, end).forward == "bridge":
                port = uplinks(lab, link)[0]
                purpose = ValueOf(key="forward", value="bridge", part=ForMachine(machine=name))
                yield MacvtapGetsOwnFrames(purpose=purpose, port=end, lower=port)


def check_reach(lab: Lab, source: str, target: str) -> None:
    """Check that no machine sends to its own child, or to its parent, through a macvtap, macvlan or ipvlan on its port.

    Raises:
        InputError: a machine sends in this way; the kernel forwards no frames between these interfaces and the stack of
            their lower device.
    """
    shared = (link for link in lab.links if join_of(lab, link) is Join.SHARED and uplinks(lab, link))
    for link in (*_on_ports(lab), *shared):
        port = uplinks(lab, link)[0]
        parent, guests = port.machine, {end.machine for end in own_ends(lab, link)}
        if (source == parent and target in guests) or (target == parent and source in guests):
            on = lab.links[link].join or "macvtap"
            inside = target if source == parent else source
            device = Phrase("lab.an-ipvlan") if on == "ipvlan" else Phrase("lab.a-device", kind=on)
            seen = Phrase(
                "lab.child-of-sender", source=source, target=target, child=inside, device=device, port=port
            )
            allowed = Phrase("lab.no-parent-and-child", kind=on)
            raise InputError([Problem("measure", Phrase("lab.finding-path-of-flow"), seen, allowed)])


def _on_ports(lab: Lab) -> tuple[str, ...]:
    return tuple(link for link in lab.links if join_of(lab, link) is Join.ON_PORT)
