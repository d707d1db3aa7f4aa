"""Offloads as resources: on every port of a link, and between a machine and its own children. Pure.

A machine reaches its guests through a bridge and the parent's interface of the guest's NIC (a tap, a vif, an end of a
veth pair). The offloads of these interfaces affect the cost of a frame as much as those of the guest's own NIC.
"""

from collections.abc import Iterator, Mapping

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Offload, SendOffload
from iolab.lab.actions import ORIGINAL, Command, Expectation, Reading, Run
from iolab.lab.dependencies import base_of, ports_of, side_key, side_of
from iolab.lab.links.link_topology import Join, Side, guest_at, is_card, is_macvtap, join_of, own_ends
from iolab.lab.readback.values import Features
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.locale import Phrase
from iolab.messages.conflicts import (
    ClashAtPorts,
    PlainClash,
)
from iolab.messages.places import ForLink, KeyOf
from iolab.messages.unmet import UnmetRequirement

Switches = Mapping[str, str]
"""State of each offload, on or off, by its short name in `ethtool -K`."""


def offload_switches(offload: Offload | SendOffload) -> dict[str, str]:
    """Return the configured offloads, by their short `ethtool -K` names."""
    wanted = ((short, getattr(offload, key, None)) for key, short in SHORT_NAMES.items())
    return {short: switch for short, switch in wanted if switch is not None}


def offload_resources(lab: Lab, topology: Topology, link: str) -> Iterator[Resource]:
    """Return the offloads of a link's ports, and of the parent's interfaces of the ports of its children."""
    switches = offload_switches(lab.links[link].offload)
    above = offload_switches(lab.links[link].host_offload)
    for port in ports_of(lab, topology, link):
        if switches:
            key, at = f"offload:{port.ref}:{'+'.join(switches)}", Side(port.kernel, port.netns, port.name)
            yield features_resource(key, port.machine, at, switches, base_of(lab, port), port.ref)
        side = side_of(lab, topology, port)
        if above and side is not None:
            key, what = f"offload:{port.ref}:side:{'+'.join(above)}", f"the parent's side of {port.ref}"
            yield features_resource(key, port.machine, side, above, side_key(lab, port), what)


def offload_needs(lab: Lab) -> Iterator[UnmetRequirement]:
    """Yield conflicts of offloads that cannot be set."""
    for name, link in lab.links.items():
        above = offload_switches(link.host_offload)
        ends, purpose = own_ends(lab, name), ForLink(link=name)
        if above and join_of(lab, name) is not Join.CHILDREN:
            yield PlainClash(code="leads-elsewhere", purpose=KeyOf(key="host_offload", part=purpose))
        elif above and (
            taken := tuple(end for end in ends if is_card(lab, end) and is_macvtap(guest_at(lab, end)))
        ):
            yield ClashAtPorts(
                code="macvtap-finishes-nothing", purpose=KeyOf(key="host_offload", part=purpose), ports=taken
            )
        fixed = tuple(end for end in ends if is_card(lab, end) and guest_at(lab, end).engine == "xen")
        if fixed and link.offload.tx_checksum == "off":
            yield ClashAtPorts(
                code="xen-checksum-fixed", purpose=KeyOf(key="offload.tx_checksum", part=purpose), ports=fixed
            )


def bridge_offload(lab: Lab, ports: list[Port], need: str) -> Iterator[Resource]:
    """Return the offloads of the bridge of `ports`, from the links between the bridge and the machine's children.

    Raises:
        InputError: two of these links have different settings.
    """
    asked: dict[str, tuple[str, str]] = {}
    port = ports[0]
    for link in dict.fromkeys(link for one in ports for link in one.children):
        for name, switch in offload_switches(lab.links[link].host_offload).items():
            other, said = asked.setdefault(name, (link, switch))
            if said != switch:
                seen = Phrase(
                    "lab.offload-differs-on-bridge", name=name, switch=switch, other_switch=said, link=other
                )
                allowed = Phrase("lab.same-on-all-links")
                raise InputError(
                    [Problem(f"lab.links.{link}.host_offload", Phrase("lab.setting-a-bridge"), seen, allowed)]
                )
    if asked and port.bridge:
        switches = {name: switch for name, (_, switch) in asked.items()}
        key = f"offload:{port.machine}.{port.bridge}:{'+'.join(switches)}"
        at = Side(port.kernel, port.netns, port.bridge)
        yield features_resource(key, port.machine, at, switches, need, f"the bridge of {port.machine}")


def features_resource(key: str, machine: str, at: Side, switches: Switches, need: str, what: str) -> Resource:
    """Return the resource that sets offloads of one interface; its undo restores the original settings."""
    show = Command(("ethtool", "--json", "-k", at.interface), at.netns)
    words = tuple(word for pair in switches.items() for word in pair)
    change = Run(
        Command(("ethtool", "-K", at.interface, *words), at.netns),
        Command(("ethtool", "-K", at.interface, ORIGINAL), at.netns),
        Reading(show, Features(at.interface, tuple(switches))),
    )
    return Resource(
        key=key,
        machine=machine,
        kernel=at.kernel,
        needs=(need,),
        actions=(change,) if switches else (),
        expect=tuple(
            Expectation(
                Reading(show, Features(at.interface, (name,))), f"{name} {switch}", f"{name} of {what}"
            )
            for name, switch in switches.items()
        ),
        held=True,
    )


SHORT_NAMES = {
    "rx_checksum": "rx", "tx_checksum": "tx", "sg": "sg", "tso": "tso", "gso": "gso", "gro": "gro", "lro": "lro",
}  # fmt: skip
"""Name in `ethtool -K` of each key in an experiment."""
