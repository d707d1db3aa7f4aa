"""Requirements of a link that its kernels must meet: for its link type, its emulated link, its cable. Pure."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Shape
from iolab.experiment.model.quantities import PortRef
from iolab.lab.kernels import HERE, kernel_of
from iolab.lab.links.link_topology import (
    Join,
    guest_at,
    home_of,
    is_card,
    is_macvtap,
    is_on_port,
    is_paced,
    join_of,
    joins_bridges,
    own_ends,
)
from iolab.lab.links.overlays import mtu_of
from iolab.lab.links.tunnels import outer_end
from iolab.lab.links.wires import link_memory
from iolab.lab.ports.offloads import offload_switches
from iolab.lab.requirements.need import Need, NeedKind, Wanted, where
from iolab.lab.topology import Port, Topology
from iolab.messages.conflicts import (
    CableEndNoHost,
    Ipv6MtuSmall,
)
from iolab.messages.places import (
    BridgeOf,
    ForLink,
    ForPort,
    KeyOf,
    Purpose,
    ValueOf,
)
from iolab.messages.unmet import PlainUnbuilt
from iolab.registry.qdiscs import QDISCS


def link_parts(lab: Lab, topology: Topology, name: str) -> Iterator[Wanted]:
    """Yield the requirements of a link that the kernels of its ends must meet."""
    link, purpose = lab.links[name], ForLink(link=name)
    if link.cable:
        yield from _cable(lab, topology, name)
        return
    if link.over:
        yield from _over(lab, topology, name)
        return
    there, join = where(lab, home_of(lab, name)), join_of(lab, name)
    machines = machines_of(lab, name)
    if offload_switches(link.host_offload):
        yield Need(NeedKind.PROGRAM, "ethtool", KeyOf(key="host_offload", part=purpose), there)
    cards = [end for end in own_ends(lab, name) if is_card(lab, end)]
    for program in ("ip", "tc"):
        yield Need(NeedKind.PROGRAM, program, purpose, there)
    yield from _joining(lab, name, join, cards)
    for end in cards:
        guest = guest_at(lab, end)
        if is_macvtap(guest):
            card = ValueOf(key="nic", value=guest.nic, part=ForPort(port=end))
            yield Need(NeedKind.FEATURE, "link:macvtap", card, there, machines)
    yield from _ends(lab, topology, name)
    if link.shape is not None:
        yield from _shape(lab, KeyOf(key="shape", part=purpose), link.shape)
    if join in (Join.PAIR, Join.WIRE) and all(lab.machines[machine].kind == "host" for machine in machines):
        yield PlainUnbuilt(code="loop-unbuilt", purpose=purpose)


def _over(lab: Lab, topology: Topology, name: str) -> Iterator[Wanted]:
    """Yield the requirements of a link over other links that the kernel of each end must meet."""
    link = lab.links[name]
    key, value = ("bond", link.bond) if link.bond is not None else ("tunnel", link.tunnel)
    purpose = ValueOf(key=key, value=str(value), part=ForLink(link=name))
    kind = "bond" if key == "bond" else str(value)
    for port in (port for port in topology.ports() if port.link == name):
        there = where(lab, port.kernel)
        wide = kind in GRES and ":" in outer_end(lab, topology, port).address
        yield Need(NeedKind.FEATURE, f"link:{'ip6' if wide else ''}{kind}", purpose, there, (port.machine,))
        for program in ("ip", "tc", *(("wg",) if kind == "wireguard" else ())):
            yield Need(NeedKind.PROGRAM, program, purpose, there)
    yield from _ends(lab, topology, name)
    if link.shape is not None:
        yield from _shape(lab, KeyOf(key="shape", part=ForLink(link=name)), link.shape)


def _joining(lab: Lab, name: str, join: Join, cards: list[PortRef]) -> Iterator[Wanted]:
    """Yield the interface types that join the ends of a link."""
    there, machines, purpose = where(lab, home_of(lab, name)), machines_of(lab, name), ForLink(link=name)
    plugged = join is Join.MACVTAP or len(cards) < len(own_ends(lab, name))
    if join is Join.SHARED:
        kind = ValueOf(key="join", value=str(lab.links[name].join), part=purpose)
        yield Need(NeedKind.FEATURE, f"link:{lab.links[name].join}", kind, there, machines)
    if plugged and join not in (Join.WIRE, Join.TAP, Join.FUNCTIONS):
        yield Need(NeedKind.FEATURE, "link:veth", purpose, there, machines)
    if join in (Join.BRIDGE, Join.CHILDREN):
        yield Need(NeedKind.FEATURE, "link:bridge", purpose, there, machines)


def wire_parts(lab: Lab, topology: Topology, name: str) -> Iterator[Wanted]:
    """Yield the requirements of an emulated link: taps, and memory for frames in transit in both directions."""
    link, key = lab.links[name], "shape" if is_paced(lab, name) else "wire"
    if link.wire is None and not is_paced(lab, name):
        return
    purpose = KeyOf(key=key, part=ForLink(link=name))
    if link.wire is not None and link.wire.emulator == "netem":
        for end in link.ends:
            there = where(lab, kernel_of(lab, end.machine))
            yield Need(NeedKind.FEATURE, "qdisc:netem", purpose, there, (end.machine,))
        return
    on_port = is_on_port(lab, name) and (link.wire is None or len(link.ends) == 2)
    if not on_port and join_of(lab, name) is not Join.WIRE and not joins_bridges(lab, name):
        yield PlainUnbuilt(code="wire-unbuilt", purpose=purpose)
        return
    there = where(lab, home_of(lab, name))
    yield Need(NeedKind.FEATURE, "link:tun", purpose, there, machines_of(lab, name))
    yield Need(NeedKind.MEMORY, str(link_memory(lab, topology, name)), purpose, there)


def _cable(lab: Lab, topology: Topology, name: str) -> Iterator[Wanted]:
    """Yield the requirements of a cable that its hosts must meet."""
    link, purpose = lab.links[name], ForLink(link=name)
    for kernel in dict.fromkeys(kernel_of(lab, machine) for machine in machines_of(lab, name)):
        yield Need(NeedKind.ROOT, "cable", KeyOf(key="cable", part=purpose), where(lab, kernel))
        for program in ("ip", "tc"):
            yield Need(NeedKind.PROGRAM, program, purpose, where(lab, kernel))
    yield from _ends(lab, topology, name)
    if link.shape is not None:
        yield from _shape(lab, KeyOf(key="shape", part=purpose), link.shape)


def _ends(lab: Lab, topology: Topology, name: str) -> Iterator[Wanted]:
    """Yield the requirements of a link's ends, each for its own kernel."""
    link, purpose = lab.links[name], ForLink(link=name)
    ports = [port for port in topology.ports() if port.link == name]
    if link.ip != 4 and mtu_of(lab, name) < LEAST_IPV6_MTU:
        yield Ipv6MtuSmall(purpose=KeyOf(key="mtu", part=purpose), least_bytes=LEAST_IPV6_MTU)
    for kernel in dict.fromkeys(port.kernel for port in ports):
        own = tuple(dict.fromkeys(port.machine for port in ports if port.kernel == kernel))
        if link.ip != 4:
            version = ValueOf(key="ip", value=str(link.ip), part=purpose)
            yield Need(NeedKind.FEATURE, "ip:6", version, where(lab, kernel), own)
        if link.vlan is not None:
            vlan = ValueOf(key="vlan", value=str(link.vlan), part=purpose)
            yield Need(NeedKind.FEATURE, "link:vlan", vlan, where(lab, kernel), own)
        if offload_switches(link.offload):
            yield Need(NeedKind.PROGRAM, "ethtool", KeyOf(key="offload", part=purpose), where(lab, kernel))


def _shape(lab: Lab, purpose: Purpose, shape: Shape) -> Iterator[Wanted]:
    machine = shape.at.machine
    there = where(lab, kernel_of(lab, machine))
    if QDISCS[shape.qdisc].module is None:
        return  # the emulated link implements the discipline
    yield Need(NeedKind.FEATURE, f"qdisc:{shape.qdisc}", purpose, there, (machine,))
    leaves = {one.leaf.qdisc for one in shape.classes.values() if one.leaf is not None}
    for leaf in sorted(leaves - {"pfifo"}):
        yield Need(NeedKind.FEATURE, f"qdisc:{leaf}", KeyOf(key="leaf", part=purpose), there, (machine,))
    if any(one.src or one.dst for one in shape.classes.values()):
        yield Need(NeedKind.FEATURE, "filter:u32", KeyOf(key="classes", part=purpose), there, (machine,))


def machines_of(lab: Lab, link: str) -> tuple[str, ...]:
    """Return the machines at the ends of a link, without duplicates."""
    return tuple(dict.fromkeys(end.machine for end in lab.links[link].ends))


def cables(lab: Lab) -> Iterator[Wanted]:
    """Yield conflicts of cables, which must end at hosts."""
    for name, link in lab.links.items():
        for machine in machines_of(lab, name):
            kind = lab.machines[machine].kind
            if link.cable and kind != "host":
                yield CableEndNoHost(
                    purpose=KeyOf(key="cable", part=ForLink(link=name)), machine=machine, kind=kind
                )


def names(lab: Lab, port: Port) -> Iterator[Wanted]:
    """Yield the interface names that must be free, or must exist, in the initial namespace of a host."""
    if port.netns is not None or (port.kernel != HERE and lab.machines[port.kernel].kind == "vm"):
        return
    there = where(lab, port.kernel)
    kind = NeedKind.INTERFACE if join_of(lab, port.link) is Join.CABLE else NeedKind.FREE_NAME
    yield Need(kind, port.name, ForPort(port=port.ref), there)
    if port.bridge:
        yield Need(NeedKind.FREE_NAME, port.bridge, BridgeOf(machine=port.machine), there)


LEAST_IPV6_MTU = 1280
"""Minimum MTU that every link must support (RFC 8200, section 5) [bytes]."""
GRES = ("gre", "gretap")
"""Tunnels that have an interface type per IP version below."""
