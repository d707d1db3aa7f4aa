"""Offloads as resources: of every port of a link, and of a machine's way to its own children. Pure.

A machine reaches its own guests by a bridge and the parent's side of the guest's card (a tap, a vif, an end of a veth
pair). What these finish for the stack decides what a frame to the guest costs, as much as the guest's own card does.
"""

from collections.abc import Iterator, Mapping

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.links import Offload
from iolab.lab.ground import base_of, ports_of, side_key, side_of
from iolab.lab.meeting import Join, Side, join_of
from iolab.lab.resources import ORIGINAL, Command, Expectation, Reading, Resource, Run
from iolab.lab.shown import Features
from iolab.lab.topology import Port, Topology

Switches = Mapping[str, str]
"""Short name of an offload, as `ethtool -K` takes it, to on or off."""
SENDING = ("tx", "sg", "tso", "gso")
"""What an interface does for what is sent by it: all that the parent's side of a guest's card can be asked for."""


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


def offload_resources(lab: Lab, topology: Topology, link: str, prefix: str) -> Iterator[Resource]:
    """Return the offloads of a link's ports, and of the parent's side of those that are its children's."""
    switches = offload_switches(lab.links[link].offload)
    sending = _sending(switches)
    for port in ports_of(lab, topology, link):
        key = f"offload:{port.ref}"
        if switches:
            at = Side(port.kernel, port.netns, port.name)
            named = f"{key}:{'+'.join(switches)}"
            yield features_resource(named, port.machine, at, switches, base_of(lab, port), port.ref)
        side = side_of(lab, topology, port, prefix) if join_of(lab, link) is Join.CHILDREN else None
        if sending and side is not None and side.macvtap is None:
            need, what = side_key(lab, port), f"the parent's side of {port.ref}"
            named = f"{key}:side:{'+'.join(sending)}"
            yield features_resource(named, port.machine, side, sending, need, what)


def bridge_offload(lab: Lab, ports: list[Port], need: str) -> Iterator[Resource]:
    """Return the offloads of the bridge of `ports`, as the links say that lead from there to the machine's children.

    Raises:
        InputError: two of these links say different things.
    """
    asked: dict[str, tuple[str, str]] = {}
    port = ports[0]
    for link in dict.fromkeys(link for one in ports for link in one.children):
        for name, switch in _sending(offload_switches(lab.links[link].offload)).items():
            other, said = asked.setdefault(name, (link, switch))
            if said != switch:
                seen = (
                    f"{name} {switch}, and {name} {said} on link {other}, whose ports are on the same bridge"
                )
                allowed = "the same on all links of a bridge"
                raise InputError([Problem(f"lab.links.{link}.offload", "setting a bridge", seen, allowed)])
    if asked and port.bridge:
        switches = {name: switch for name, (_, switch) in asked.items()}
        key = f"offload:{port.machine}.{port.bridge}:{'+'.join(switches)}"
        at = Side(port.kernel, port.netns, port.bridge)
        yield features_resource(key, port.machine, at, switches, need, f"the bridge of {port.machine}")


def features_resource(key: str, machine: str, at: Side, switches: Switches, need: str, what: str) -> Resource:
    """Return offloads of one interface, put back as they were."""
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


def _sending(switches: Switches) -> Switches:
    return {name: switch for name, switch in switches.items() if name in SENDING}
