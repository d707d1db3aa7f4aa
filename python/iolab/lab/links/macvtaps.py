"""Macvtaps on a port of their guests' parent: how they share it, and what frames never reach. Pure."""

from collections.abc import Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.lab.links.link_topology import Join, guest_at, join_of, macvtaps_on, own_ends, uplinks
from iolab.messages.conflicts import MacvtapGetsOwnFrames
from iolab.messages.subjects import ForMachine, ValueOf
from iolab.messages.unmet import UnmetRequirement


def mode_of(lab: Lab, link: str) -> str:
    """Return how a link's macvtap shares its lower device: alone it gets every frame, else those to its address."""
    above = uplinks(lab, link)
    alone = not above or len(macvtaps_on(lab, above[0])) < 2
    return "passthru" if alone else "bridge"


def macvtap_needs(lab: Lab) -> Iterator[UnmetRequirement]:
    """Tell of guests that forward frames which their macvtaps never give them."""
    for link in _on_ports(lab):
        for end in own_ends(lab, link) if mode_of(lab, link) == "bridge" else ():
            name = end.machine
            if guest_at(lab, end).forward == "bridge":
                port = uplinks(lab, link)[0]
                purpose = ValueOf(key="forward", value="bridge", part=ForMachine(machine=name))
                yield MacvtapGetsOwnFrames(purpose=purpose, port=end, lower=port)


def check_reach(lab: Lab, source: str, target: str) -> None:
    """Check that no machine sends to its own child, or back, by a macvtap, macvlan or ipvlan on its port.

    Raises:
        InputError: one does: the kernel passes no frame between these and the stack of their lower device.
    """
    shared = (link for link in lab.links if join_of(lab, link) is Join.SHARED and uplinks(lab, link))
    for link in (*_on_ports(lab), *shared):
        port = uplinks(lab, link)[0]
        parent, guests = port.machine, {end.machine for end in own_ends(lab, link)}
        if (source == parent and target in guests) or (target == parent and source in guests):
            on = lab.links[link].join or "macvtap"
            inside = target if source == parent else source
            seen = f"{source} and {target}: {inside} has a{'n' if on == 'ipvlan' else ''} {on} on {port}"
            allowed = f"machines that are not parent and child, or a bridge: by {on} a child reaches all but its parent"
            raise InputError([Problem("measure", "finding the way of a flow", seen, allowed)])


def _on_ports(lab: Lab) -> tuple[str, ...]:
    return tuple(link for link in lab.links if join_of(lab, link) is Join.ON_PORT)
