"""Which interfaces frames pass between the ports of a way: those of the bridges that lie between are counted too. Pure.

A way goes from port to port. Where a bridge joins two of them, as that of a host which gives its own card to a guest,
frames also pass the bridge's member for each port plugged into it: a guest's tap, or the far end of a veth pair.
"""

from collections.abc import Iterator
from dataclasses import replace

from iolab.experiment.experiment import Lab, ports_below
from iolab.experiment.model.quantities import PortRef
from iolab.lab.dependencies import side_of
from iolab.lab.links.link_topology import Side
from iolab.lab.packets.placement import Way, hops_between
from iolab.lab.topology import NAME_PREFIX, Port, Topology


def interfaces_passed(lab: Lab, topology: Topology, way: Way) -> tuple[Way, dict[str, Side]]:
    """Return the way with a hop for each pair of interfaces, and where those are that are no ports of the lab."""
    ports: dict[str, Port] = {port.ref: port for port in topology.ports()}
    members: dict[str, Side] = {}
    hops: list[tuple[str, str]] = []
    for out, into in way.hops:
        found = {name_of(ref): side for ref, side in _sides(lab, topology, ports[out], ports[into])}
        members |= found
        if name_of(out) in found:
            hops.append((out, name_of(out)))
        if name_of(into) in found:
            hops.append((name_of(into), into))
        if not found:
            hops.append((out, into))
    return replace(way, hops=tuple(hops)), members


def name_of(ref: str) -> str:
    """Return what the bridge's member for a port is called in balance sheets."""
    return f"bridge port of {ref}"


def _sides(lab: Lab, topology: Topology, out: Port, into: Port) -> Iterator[tuple[str, Side]]:
    """Yield the ports of one hop that are plugged into a bridge on it; a macvtap has no member of its own."""
    joined = {name for name, link in lab.links.items() if out.ref in link.ends and into.ref in link.ends}
    for port in (out, into):
        side = side_of(lab, topology, port, NAME_PREFIX) if port.link in joined else None
        if side is not None and side.macvtap is None:
            yield port.ref, side


def ways_below(lab: Lab, way: Way) -> Iterator[Way]:
    """Yield the ways of what carries a way: of a tunnel's packets, or of each link of a bond; those below them too."""
    for out, into in way.hops:
        link = next((one for one in lab.links.values() if {out, into} <= set(one.ends)), None)
        if link is None or not link.over:
            continue
        names = [(name,) for name in link.over] if link.bond is not None else [link.over]
        for carrying in names:
            part = link.model_copy(update={"over": carrying})
            starts, goals = (ports_below(lab.links, part, PortRef(ref).machine) for ref in (out, into))
            hops = hops_between(lab, starts[0], set(goals)) if starts and goals else None
            if hops:
                below = replace(way, hops=hops)
                yield below
                yield from ways_below(lab, below)
