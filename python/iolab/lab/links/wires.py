"""Emulated links (`wire:`) as resources: two ends with an agent thread between them, and the impairments.

The impairments are a separate held resource: a new level changes them while the link runs. Super-frames are carried
whole, but impaired as individual frames. The ends are taps, which support super-frames, or veth pairs, which have
rings.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Literal

from iolab.experiment.experiment import Lab
from iolab.experiment.model.impairments import QUEUE_FRAMES as LINE_QUEUE_FRAMES
from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.links import Link, Shape
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import (
    CarriedPort,
    Command,
    Expectation,
    ImpairWire,
    Reading,
    Run,
    StartWire,
    WireState,
    Write,
)
from iolab.lab.dependencies import Place, base_of, port_dependencies
from iolab.lab.kernels import HERE
from iolab.lab.links.bridges import expect_interface
from iolab.lab.links.link_topology import (
    Side,
    home_of,
    is_on_port,
    is_paced,
    joins_bridges,
    mac_of,
    short_name,
    way_ends,
)
from iolab.lab.links.overlays import mtu_of
from iolab.lab.links.pacer import QUEUE_FRAMES as PACER_QUEUE_FRAMES
from iolab.lab.links.pacer import PacedClass, PacedFlow, Pacing
from iolab.lab.links.shaping import selectors_of
from iolab.lab.ports.offloads import features_resource, offload_switches
from iolab.lab.readback.values import Interface, PacedWay, Running
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.units import NS_PER_S

Carrier = Literal["veth", "whole", "apart", "port-whole", "port-apart"]
"""Type of the ends: veth pairs; taps that carry super-frames whole; taps with segmented frames; the same on a host's
port."""
VETH_MOST_MTU = 3000
"""Maximum MTU of a veth pair: larger frames with the kernel's overhead do not fit in a page [bytes]."""
FRAME_OVERHEAD_BYTES = 18
"""Size of Ethernet header and checksum."""
End = tuple[str | None, str]
"""Network namespace and name of an interface."""
POLLING_PRIORITY = 9
"""SCHED_FIFO priority of a busy-polling thread; threads that feed it have a higher priority."""
QUEUE_FRAMES = "16384"
"""Queue in front of the thread at each end; the agent requests the same length if permitted [frames]."""
FASTEST_BPS = 10_000_000_000
"""Assumed maximum rate of an emulated link without a bit rate."""
MARGIN_BYTES = 64 << 20
"""Memory for frames that are read before due frames are sent, because the thread may wait for its CPU."""
LONGEST_FRAME_BYTES = 9018
"""Maximum number of bytes per frame in a queue whose limit is a number of frames."""


def wire_id(link: str) -> str:
    """Return the agent's ID of a link's emulated link."""
    return f"wire:{link}"


def longest_wait_ns(lab: Lab, links: Iterable[str]) -> int:
    """Return the maximum time that a frame spends on the emulated links of the given links [ns].

    The wait in the queues of pacers is included; the wait in the queues of lines is not, because frames leave a line at
    its rate, which the counters show.
    """
    found = 0
    for name in links:
        link = lab.links[name]
        if link.wire is not None:
            found += max(_held_ns(way) for way in link.wire.ways(link.ends).values())
        if is_paced(lab, name) and link.shape is not None:
            found += _paced_wait_ns(link.shape, mtu_of(lab, name))
    return found


def _paced_wait_ns(shape: Shape, mtu: int) -> int:
    """Return the time to drain a pacer's largest queue at the guaranteed rate of its class [ns]."""
    queue_bytes = shape.limit or PACER_QUEUE_FRAMES * (mtu + FRAME_OVERHEAD_BYTES)
    slowest_bps = min((one.rate for one in shape.classes.values()), default=shape.rate_bps)
    return queue_bytes * 8 * NS_PER_S // slowest_bps


def _held_ns(done: Impairments) -> int:
    held = done.reorder.by if done.reorder else 0
    stalled = done.stall.length if done.stall else 0
    return done.delay + max(4 * done.jitter, *(done.jitter_samples or (0,))) + held + stalled


def way_memory(done: Impairments) -> int:
    """Return the maximum memory for frames in one direction: rate times delay, the queue, and a margin [bytes]."""
    in_bits = done.most_bps()
    waiting_ns = _held_ns(done) + (done.queue_time or 0)
    frames = done.queue_frames or (
        LINE_QUEUE_FRAMES if in_bits and not (done.queue or done.queue_time) else 0
    )
    queue = done.queue or frames * LONGEST_FRAME_BYTES
    return (in_bits or FASTEST_BPS) * waiting_ns // (8 * NS_PER_S) + queue + MARGIN_BYTES


def wire_memory(link: Link) -> int:
    """Return the maximum memory for frames in both directions of an emulated link [bytes]."""
    assert link.wire is not None
    return sum(way_memory(way) for way in link.wire.ways(link.ends).values())


def link_memory(lab: Lab, topology: Topology, link: str) -> int:
    """Return the maximum memory for frames in both directions of a link, including paced frames [bytes]."""
    return sum(_memory(*_done(lab, topology, link, end)) for end in lab.links[link].ends)


def _done(lab: Lab, topology: Topology, link: str, end: PortRef) -> tuple[Impairments, Pacing | None]:
    """Return the impairments and the pacer of frames that an end sends."""
    wire = lab.links[link].wire
    return Impairments() if wire is None else wire.way(end), pacing_at(lab, topology, link, end)


def _memory(done: Impairments, pacing: Pacing | None) -> int:
    return way_memory(done) + (0 if pacing is None else pacing.memory_bytes())


def wire_resources(lab: Lab, topology: Topology, link: str, ports: Sequence[Port]) -> Iterator[Resource]:
    """Yield the emulated link between a link's ports, and its impairments."""
    here, there = ports
    wire = Resource(
        key=wire_id(link),
        machine=here.machine,
        kernel=home_of(lab, link),
        needs=port_dependencies(lab, here, there),
        actions=(
            *_tap_module(lab, link),
            _start(lab, link, ((here.netns, here.name), (there.netns, there.name))),
            *(action for port in ports for action in _open(lab, port)),
        ),
        expect=tuple(
            expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}")
            for port in ports
        ),
    )
    yield wire
    yield _impairments(lab, topology, link, ports, wire)


def wire_between_bridges(
    lab: Lab, topology: Topology, link: str, ports: Sequence[Port], places: Sequence[Place]
) -> Iterator[Resource]:
    """Yield the emulated link between the bridges of a link's ends, and its impairments."""
    first, second = ((place.netns, f"w{number}") for number, place in enumerate(places))
    plug = tuple(
        Run(Command(("ip", "link", "set", "dev", f"w{number}", "master", place.bridge, "up"), place.netns))
        for number, place in enumerate(places)
    )
    wire = Resource(
        key=wire_id(link),
        machine=ports[0].machine,
        kernel=home_of(lab, link),
        needs=tuple(place.key for place in places),
        actions=(*_tap_module(lab, link), _start(lab, link, (first, second)), *plug),
        expect=tuple(
            expect_interface(
                place.netns, Interface(f"w{number}", "master"), place.bridge, f"bridge of w{number}"
            )
            for number, place in enumerate(places)
        ),
    )
    yield wire
    yield _impairments(lab, topology, link, ports, wire)


def wire_on_port(lab: Lab, topology: Topology, link: str, ports: Sequence[Port]) -> Iterator[Resource]:
    """Yield the emulated link on the port of a host at one end of a cable, and its impairments.

    The link carries the frames between the lab's networks; other frames pass the port untouched.
    """
    sending, other = (next(port for port in ports if port.ref == end) for end in way_ends(lab, link))
    name = f"{lab.tag}{sending.ref}"
    ends = ((sending.netns, short_name(name, "o-")), (sending.netns, short_name(name, "i-")))
    on_port = CarriedPort(sending.name, lab_networks(topology), lab.links[link].vlan)
    start = _start(lab, link, ends)
    merging = _merging(lab, link, sending, single=not start.super_frames)
    wire = Resource(
        key=wire_id(link),
        machine=sending.machine,
        kernel=home_of(lab, link),
        needs=(base_of(lab, sending), merging.key),
        actions=(replace(start, on_port=on_port),),
    )
    yield from (merging, wire)
    yield _impairments(lab, topology, link, (sending, other), wire)


def _merging(lab: Lab, link: str, port: Port, *, single: bool) -> Resource:
    """Return the offloads of a port with carried frames: no LRO, because its frames cannot be forwarded, and no
    GRO if frames are carried one by one."""
    wanted = {"lro": "off"} | ({"gro": "off"} if single else {})
    switches = {
        name: switch
        for name, switch in wanted.items()
        if name not in offload_switches(lab.links[link].offload)
    }
    at = Side(port.kernel, port.netns, port.name)
    key = f"offload:{port.ref}:carried:{'+'.join(switches)}"
    return features_resource(key, port.machine, at, switches, base_of(lab, port), port.ref)


def lab_networks(topology: Topology) -> tuple[str, ...]:
    """Return all IP networks of a lab, with adjacent networks merged."""
    found = [
        ip_network(network)
        for segment in topology.segments
        for network in (segment.network, segment.second)
        if network is not None
    ]
    four = collapse_addresses(one for one in found if isinstance(one, IPv4Network))
    six = collapse_addresses(one for one in found if isinstance(one, IPv6Network))
    return tuple(str(one) for one in (*four, *six))


def _tap_module(lab: Lab, link: str) -> tuple[Run, ...]:
    """Yield the action that loads the module for taps in a guest; without the module the device does not exist."""
    kernel = home_of(lab, link)
    guest = kernel != HERE and lab.machines[kernel].kind == "vm"
    return (Run(Command(("modprobe", "-q", "tun"))),) if guest else ()


def _start(lab: Lab, link: str, ends: tuple[End, End]) -> StartWire:
    """Return the action that starts an emulated link. With a pacer, frames are segmented and the thread gets priority.

    Without a dedicated CPU, the segmentation in a sender's stack would use half of the CPU that the thread shares with
    the sender.
    """
    paced, frame_bytes = is_paced(lab, link), veth_frame_bytes(lab, link)
    priority = POLLING_PRIORITY if paced else None
    return StartWire(
        wire_id(link),
        ends,
        super_frames=carrier_of(lab, link) not in ("apart", "port-apart"),
        veth_frame_bytes=frame_bytes,
        priority=priority,
        apart=paced or frame_bytes is not None,
    )


def _impairments(lab: Lab, topology: Topology, link: str, ports: Sequence[Port], wire: Resource) -> Resource:
    (first, first_pacing), (second, second_pacing) = (_done(lab, topology, link, port.ref) for port in ports)
    running = Expectation(Reading(WireState(wire.key), Running()), "running", f"the wire of link {link}")
    pacing = (first_pacing, second_pacing)
    memory = (_memory(first, first_pacing), _memory(second, second_pacing))
    return Resource(
        key=f"impairments:{link}",
        machine=wire.machine,
        kernel=wire.kernel,
        needs=(wire.key,),
        actions=(ImpairWire(wire.key, (first, second), memory, pacing),),
        expect=(running, *_expect_pacing(wire.key, link, pacing)),
        held=True,
    )


def _expect_pacing(wire: str, link: str, pacing: Sequence[Pacing | None]) -> Iterator[Expectation]:
    """Yield the expectation that the agent reports the configured pacer."""
    for way, one in enumerate(pacing):
        if one is not None:
            shown = json.dumps(one.stage(), sort_keys=True)
            yield Expectation(Reading(WireState(wire), PacedWay(way)), shown, f"the pacer of link {link}")


def _open(lab: Lab, port: Port) -> Iterator[Run | Write]:
    if port.netns is None and lab.machines[port.machine].kind == "host":
        path = f"/proc/sys/net/ipv6/conf/{port.name}/disable_ipv6"
        yield Write(path, None, "1", absent_ok=True)
    mac = mac_of(lab, port.ref)
    address = ("address", mac) if mac else ()
    yield Run(
        Command(
            ("ip", "link", "set", "dev", port.name, *address, "txqueuelen", QUEUE_FRAMES, "up"), port.netns
        )
    )


def carrier_of(lab: Lab, link: str) -> Carrier:
    """Return the requested type of an emulated link's ends; if veth pairs are unavailable, the agent uses taps."""
    if is_on_port(lab, link):
        single = is_paced(lab, link) or lab.links[link].offload.tso == "off"
        return "port-apart" if single else "port-whole"
    if veth_frame_bytes(lab, link) is not None:
        return "veth"
    return "apart" if is_paced(lab, link) else "whole"


def veth_frame_bytes(lab: Lab, link: str) -> int | None:
    """Return the maximum frame size (without FCS) if the ends of an emulated link are to be veth pairs; None: taps.

    With segmented frames (TSO off), veth pairs carry more frames/s. Veth pairs forward frames unchanged, so checksums
    must be complete, and their receive path may merge frames (GRO); offloads that conflict with this require taps. A
    pacer sends frames one by one, and ends on bridges receive merged frames of guests, so both use taps.
    """
    offload, mtu = lab.links[link].offload, mtu_of(lab, link)
    wants_more = "on" in (offload.tx_checksum, offload.sg) or offload.gro == "off"
    if is_paced(lab, link) or is_on_port(lab, link):
        return None
    if joins_bridges(lab, link) or offload.tso != "off" or wants_more:
        return None
    # A VLAN tag would take the place of the checksum.
    return mtu + FRAME_OVERHEAD_BYTES if mtu <= VETH_MOST_MTU else None


def pacing_at(lab: Lab, topology: Topology, link: str, port: PortRef) -> Pacing | None:
    """Return the pacer of frames that an end of a link sends; None: the end has no pacer.

    Raises:
        InputError: a class is selected by an end without an address.
    """
    shape = lab.links[link].shape
    if shape is None or shape.at != port or not is_paced(lab, link):
        return None
    places = {name: place for place, name in enumerate(shape.classes)}
    flows = (
        PacedFlow(source, destination, places[name])
        for name, one in shape.classes.items()
        for source, destination in selectors_of(topology, link, one)
    )
    whole = (PacedClass(shape.rate_bps, shape.rate_bps),)
    return Pacing(
        rate_bps=shape.rate_bps,
        classes=tuple(PacedClass(one.rate, one.most_bps) for one in shape.classes.values()) or whole,
        flows=tuple(flows),
        default=places[shape.default] if shape.default else None if places else 0,
        limit_bytes=shape.limit,
        burst_bytes=shape.burst,
    )
