"""Dependencies of a lab's resources: their keys, their prerequisites, and the location of a link's bridge.

Other modules create the resources.
"""

from dataclasses import replace

from iolab.experiment.experiment import Lab
from iolab.frozen import frozen
from iolab.lab.kernels import HERE
from iolab.lab.links.link_topology import (
    Join,
    Side,
    guest_at,
    home_of,
    is_card,
    is_macvtap,
    join_of,
    joins_bridges,
    own_ends,
    short_name,
    uplinks,
)
from iolab.lab.topology import Port, Topology

BRIDGE = "br0"
"""Name of a link's bridge in its namespace."""
SHARED = "shared0"
"""Name of the interface that the ports of a link share, in the link's namespace."""


@frozen
class Place:
    """The location of a link's bridge, or of the interface below macvtaps or shared ports."""

    kernel: str
    """The kernel."""
    netns: str | None
    """Network namespace; None: the kernel's initial namespace."""
    home: tuple[str, ...]
    """Keys of the resources that must exist before any resource at this place."""
    bridge: str
    """Name of the bridge."""
    key: str
    """Key of the bridge."""


def ports_of(lab: Lab, topology: Topology, link: str) -> list[Port]:
    """Return the ports that a link creates, in file order."""
    found = {port.ref: port for port in topology.ports() if port.link == link}
    return [found[end] for end in own_ends(lab, link)]


def link_netns(link: str, prefix: str) -> str:
    """Return the namespace with the interfaces between a link's ends."""
    return f"{prefix}link-{link}"


def place_of_link(lab: Lab, topology: Topology, link: str) -> Place:
    """Return the location of a link's bridge: the parent that the link joins to its children, the kernel's initial
    namespace for Xen domains, otherwise a dedicated namespace.

    If guests' macvtaps are on a port of their parent, the place is this port.
    """
    kernel = home_of(lab, link)
    if parents := uplinks(lab, link):
        port = next(port for port in topology.ports() if port.ref == parents[0])
        if join_of(lab, link) in (Join.ON_PORT, Join.SHARED):
            below = place_of(lab, port)
            return Place(kernel, port.netns, (below,), port.interface, below)
        key = f"bridge:{port.machine}.{port.bridge}"
        return Place(kernel, port.netns, port_dependencies(lab, port), port.bridge or BRIDGE, key)
    if any(is_card(lab, end) and guest_at(lab, end).engine == "xen" for end in lab.links[link].ends):
        return Place(
            kernel,
            None,
            kernel_dependencies(lab, kernel),
            short_name(link, topology.prefix),
            f"bridge:{link}",
        )
    name, key = (
        (SHARED, f"shared:{link}") if join_of(lab, link) is Join.SHARED else (BRIDGE, f"bridge:{link}")
    )
    return Place(kernel, link_netns(link, topology.prefix), (f"netns:link-{link}",), name, key)


def halves_of(lab: Lab, link: str, place: Place) -> tuple[Place, ...]:
    """Return the bridge of each end of a link: one for all ends, or one per end with an emulated link between them."""
    if not joins_bridges(lab, link):
        return (place,) * len(lab.links[link].ends)
    second = replace(place, bridge=f"{place.bridge[:-1]}1", key=f"{place.key}:1")
    return (place, second)


def side_of(lab: Lab, topology: Topology, port: Port) -> Side | None:
    """Return the parent's interface of a port; None: the port has no such interface."""
    join = join_of(lab, port.link)
    card = is_card(lab, port.ref)
    carried = card and is_macvtap(guest_at(lab, port.ref))
    if join in (
        Join.PAIR,
        Join.WIRE,
        Join.TAP,
        Join.CABLE,
        Join.FUNCTIONS,
        Join.SHARED,
        Join.TUNNEL,
        Join.BOND,
    ) or (join is Join.MACVTAP and not card):
        return None
    place = place_of_link(lab, topology, port.link)
    index = lab.links[port.link].ends.index(port.ref)
    own = place.netns == link_netns(port.link, topology.prefix)
    # The kernel's own namespace has the interfaces of other labs too.
    ref = port.ref if place.netns else f"{lab.tag}{port.ref}"
    names = [f"{role}{index}" if own else short_name(ref, other) for role, other in
             (("p", ""), ("l", "l-"), ("m", "m-"))]  # fmt: skip
    if join is Join.MACVTAP:
        return Side(place.kernel, place.netns, names[0], None, names[2])
    if join is Join.ON_PORT:
        return Side(place.kernel, place.netns, place.bridge, None, short_name(ref, "m-"), own=False)
    if carried:
        return Side(place.kernel, place.netns, names[0], names[1], names[2])
    return Side(place.kernel, place.netns, names[0])


def side_key(lab: Lab, port: Port) -> str:
    """Return the key of the resource after which the parent's interface of a port can be changed."""
    if not is_card(lab, port.ref):
        return base_of(lab, port)
    return f"macvtap:{port.ref}" if is_macvtap(guest_at(lab, port.ref)) else f"side:{port.ref}"


def kernel_dependencies(lab: Lab, kernel: str) -> tuple[str, ...]:
    """Return the prerequisites of resources on a kernel: the guest that runs the kernel, with IPv6 disabled."""
    return (f"ipv6:{kernel}",) if kernel != HERE and lab.machines[kernel].kind == "vm" else ()


def base_of(lab: Lab, port: Port) -> str:
    """Return the key of the resource that creates a port."""
    if is_card(lab, port.ref):
        return f"card:{port.ref}"
    match join_of(lab, port.link):
        case Join.CABLE:
            return f"cable:{port.ref}"
        case Join.TAP:
            return f"tap:{port.ref}"
        case Join.FUNCTIONS:
            return f"function:{port.ref}"
        case Join.WIRE:
            return f"wire:{port.link}"
        case Join.TUNNEL | Join.BOND as join:
            return f"{join}:{port.ref}"
        case Join.PAIR | Join.MACVTAP:
            return f"veth:{port.link}"
        case Join.SHARED:
            return f"{lab.links[port.link].join}:{port.ref}"
        case Join.BRIDGE | Join.CHILDREN | Join.ON_PORT:
            return f"veth:{port.ref}"


def is_veth(lab: Lab, port: Port) -> bool:
    """Whether a port is an end of a veth pair."""
    return base_of(lab, port).startswith("veth:")


def place_of(lab: Lab, port: Port) -> str:
    """Return the key of the resource that creates the interface that carries a port's packets."""
    return f"vlan:{port.ref}" if port.interface != port.name else base_of(lab, port)


def for_new_interfaces(setting: str) -> bool:
    """Whether a setting is the default of new interfaces, so it must be set before the interfaces are created."""
    return "default" in setting.split(".")


def port_dependencies(lab: Lab, *ports: Port) -> tuple[str, ...]:
    """Return the prerequisites of ports: their namespaces, and the default settings of new interfaces."""
    found: list[str] = []
    for port in ports:
        found += kernel_dependencies(lab, port.kernel) if port.netns is None else [f"netns:{port.machine}"]
        settings = lab.machines[port.machine].settings
        found += [f"setting:{port.machine}:{name}" for name in settings if for_new_interfaces(name)]
    return tuple(dict.fromkeys(found))
