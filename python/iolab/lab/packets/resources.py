"""Prerequisites of packet trials as resources: reference devices, router settings, and counted interfaces. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, ports_below
from iolab.experiment.model.impairments import Impairments, Stage
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import (
    ORIGINAL,
    Action,
    Command,
    DeviceState,
    Expectation,
    PinNapi,
    Reading,
    Run,
    StartDevice,
    StartWire,
)
from iolab.lab.dependencies import base_of, is_veth, ports_of, side_key, side_of
from iolab.lab.kernels import HERE
from iolab.lab.links.link_topology import Side, home_of
from iolab.lab.links.wires import POLLING_PRIORITY
from iolab.lab.packets.placement import Placement, Way, hops_between
from iolab.lab.ports.offloads import features_resource
from iolab.lab.readback.values import HardwareSettings, Running
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.locale import Phrase, Text

NAPI = {"tso": "off", "gso": "off", "gro": "on"}
"""Offloads that enable NAPI on a veth, by their short `ethtool -K` names."""


def with_exact_wires(resources: Iterable[Resource], placement: Placement | None) -> list[Resource]:
    """Return resources in which emulated links have real-time priority, for trials that measure frame timing.

    In trials with streams, only links that pace frames get the priority: a busy-polling thread uses CPU time that the
    streams need (TCP with super-frames and a delay of 10 ms reached 14 instead of 20 Gbit/s on two CPUs).
    """
    if placement is None or not placement.realtime:
        return list(resources)
    return [replace(one, actions=tuple(map(_exact, one.actions))) for one in resources]


def _exact(action: Action) -> Action:
    """Return a copy of the action that sets a real-time priority.

    The placement has a CPU for each busy-polling thread, so the link is not pinned.
    """
    return (
        replace(action, priority=POLLING_PRIORITY, apart=False) if isinstance(action, StartWire) else action
    )


def packet_resources(
    lab: Lab, topology: Topology, links: list[str], placement: Placement
) -> Iterator[Resource]:
    """Return the resources that frames need on every link."""
    for name in links:
        ports = ports_of(lab, topology, name)
        for port in ports:
            side = side_of(lab, topology, port)
            if is_veth(lab, port):
                yield _napi(lab, port, port.netns, port.name, port.ref)
            if side is not None and side.own and (is_veth(lab, port) or side.macvtap):
                what = f"the bridge's side of {port.ref}"
                yield _napi(lab, port, side.netns, side.interface, what, side_key(lab, port))
            sending = placement.further.get(_peer(lab, port), ()) if is_veth(lab, port) else ()
            if port.ref in placement.napi and is_veth(lab, port) and port.kernel == HERE:
                yield _napi_threads(lab, port, placement, 1 + len(sending))
        yield from _send_queues(lab, ports, placement)


def device_resources(
    lab: Lab, topology: Topology, links: list[str], placement: Placement | None
) -> Iterator[Resource]:
    """Return the XDP programs or threads of machines with `forward: xdp`, one per direction.

    Raises:
        InputError: such a machine does not have exactly two ports.
    """
    for name, machine in lab.machines.items():
        if not isinstance(machine, Netns) or machine.forward != "xdp":
            continue
        ports = [port for port in topology.ports() if port.machine == name]
        if len(ports) != 2:
            names: list[Text] = [port.name for port in ports] or [Phrase("lab.none")]
            seen = Phrase("lab.number-of-ports", count=len(ports), ports=names)
            doing, allowed = Phrase("lab.forwarding-by-xdp"), Phrase("lab.two-ports")
            raise InputError([Problem(f"lab.machines.{name}", doing, seen, allowed)])
        if all(port.link in links for port in ports):
            here, there = ports
            yield _device(lab, here, there, machine.device, placement)
            yield _device(lab, there, here, machine.device, placement)


def is_program(stages: Sequence[Stage]) -> bool:
    """Whether one XDP program can perform the impairments; otherwise a thread of the agent does."""
    match stages:
        case ():
            return True
        case ({"kind": "loss" | "loss_every"},):
            return True
        case (
            {"kind": "line", "rate": {"kind": "frames"}, "queue": {"kind": "frames", "frames": 0}} as line,
        ):
            return "codel" not in line
    return False


def device_id(port: str) -> str:
    """Return the ID of the device that receives frames on a port."""
    return f"device:{port}"


def _napi(
    lab: Lab, port: Port, netns: str | None, interface: str, what: str, side: str | None = None
) -> Resource:
    """Return the offloads that enable NAPI on one end; an offload in the experiment file takes precedence."""
    asked = lab.links[port.link].offload
    switches = {name: switch for name, switch in NAPI.items() if getattr(asked, name) is None}
    found = lab.links[port.link]
    kernel = port.kernel if found.cable or found.over else home_of(lab, port.link)
    key = f"napi:{port.ref}:bridge" if side else f"napi:{port.ref}"
    at = Side(kernel, netns, interface)
    return features_resource(key, port.machine, at, switches, side or base_of(lab, port), what)


def _peer(lab: Lab, port: Port) -> str:
    """Return the other end of a port's link; empty for a link with several other ends."""
    others = [end for end in lab.links[port.link].ends if end != port.ref]
    return others[0] if len(others) == 1 else ""


def _send_queues(lab: Lab, ports: Sequence[Port], placement: Placement) -> Iterator[Resource]:
    """Return the queues of veth pairs with several senders.

    Frames sent through a queue arrive in the queue with the same number.
    """
    for near in ports:
        far = next((port for port in ports if port.ref == _peer(lab, near)), None)
        if near.ref not in placement.further or far is None or not (is_veth(lab, near) and is_veth(lab, far)):
            continue
        queues = len(placement.sending(near.ref))
        ends = [_queues(far, "rx", queues), _queues(near, "tx", queues)]
        yield Resource(
            key=f"senders:{near.ref}",
            machine=near.machine,
            kernel=near.kernel,
            needs=(base_of(lab, near),),
            actions=tuple(run for run, _ in ends),
            expect=tuple(expected for _, expected in ends),
            held=True,
        )


def _queues(port: Port, way: Literal["rx", "tx"], queues: int) -> tuple[Run, Expectation]:
    show = Reading(Command(("ethtool", "-l", port.name), port.netns), HardwareSettings((way,)))
    change = Command(("ethtool", "-L", port.name, way, str(queues)), port.netns)
    undo = Command(("ethtool", "-L", port.name, ORIGINAL), port.netns)
    return Run(change, undo, show), Expectation(show, f"{way} {queues}", f"{way} queues of {port.ref}")


def _napi_threads(lab: Lab, port: Port, placement: Placement, queues: int) -> Resource:
    queued = (f"senders:{_peer(lab, port)}",) if queues > 1 else ()
    cpu, priority = placement.napi[port.ref], placement.priority(port.ref)
    return Resource(
        key=f"napi_cpu:{port.ref}",
        machine=port.machine,
        needs=(base_of(lab, port), f"napi:{port.ref}", *queued),
        actions=(PinNapi(port.name, port.netns, cpu, priority, queues),),
        held=True,
    )


def _device(
    lab: Lab, here: Port, there: Port, device: Impairments | None, placement: Placement | None
) -> Resource:
    name, impairments = device_id(here.ref), device or Impairments()
    cpu = priority = None
    if placement is not None and not is_program(impairments.stages()):
        cpu = placement.napi.get(here.ref)
        priority = POLLING_PRIORITY if placement.realtime and cpu is not None else None
    return Resource(
        key=name,
        machine=here.machine,
        kernel=here.kernel,
        needs=(base_of(lab, here), base_of(lab, there)),
        actions=(StartDevice(name, here.netns, here.name, there.name, impairments, cpu, priority),),
        expect=(Expectation(Reading(DeviceState(name), Running()), "running", f"the device at {here.ref}"),),
    )


def interfaces_passed(lab: Lab, topology: Topology, way: Way) -> tuple[Way, dict[str, Side]]:
    """Return the path with a hop per pair of interfaces, and the locations of interfaces that are not lab ports."""
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
    """Return the name of a port's bridge member in frame accounting."""
    return f"bridge port of {ref}"


def _sides(lab: Lab, topology: Topology, out: Port, into: Port) -> Iterator[tuple[str, Side]]:
    """Yield the ports of one hop that are joined to a bridge on it; a macvtap has no separate bridge member."""
    joined = {name for name, link in lab.links.items() if out.ref in link.ends and into.ref in link.ends}
    for port in (out, into):
        side = side_of(lab, topology, port) if port.link in joined else None
        if side is not None and side.macvtap is None:
            yield port.ref, side


def ways_below(lab: Lab, way: Way) -> Iterator[Way]:
    """Yield the paths below a path: those of a tunnel's packets, or of each link of a bond, recursively."""
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
