"""A link with `wire:` as resources: two ends with a thread of the agent between them, and what it does to frames.

What it does is a held resource of its own: another level changes it while the wire runs. Super-frames are carried whole
and impaired as the frames that they stand for. Its ends are taps, which have super-frames, or veth pairs, which have
rings.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from iolab.experiment.experiment import Lab
from iolab.experiment.model.impairments import QUEUE_FRAMES as LINE_QUEUE_FRAMES
from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.links import Link, Shape
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import Command, Expectation, ImpairWire, Reading, Run, StartWire, WireState, Write
from iolab.lab.dependencies import Place, port_dependencies
from iolab.lab.kernels import HERE
from iolab.lab.links.bridges import expect_interface
from iolab.lab.links.link_topology import home_of, is_paced, joins_bridges, mac_of
from iolab.lab.links.overlays import mtu_of
from iolab.lab.links.pacer import QUEUE_FRAMES as PACER_QUEUE_FRAMES
from iolab.lab.links.pacer import PacedClass, PacedFlow, Pacing
from iolab.lab.links.shaping import selectors_of
from iolab.lab.readback.values import Interface, PacedWay, Running
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.units import NS_PER_S

Carrier = Literal["veth", "whole", "apart"]
"""Veth pairs; taps that carry super-frames whole; taps with every frame apart."""
VETH_MOST_MTU = 3000
"""Longer frames do not fit a page with what the kernel keeps beside them [bytes]."""
FRAME_OVERHEAD_BYTES = 18
"""Ethernet's header and checksum."""
End = tuple[str | None, str]
"""Network namespace and name of an interface."""
POLLING_PRIORITY = 9
"""SCHED_FIFO priority of a thread that waits awake for frames, as an exact wire's does: what feeds it comes first."""
QUEUE_FRAMES = "16384"
"""What waits for the thread at each end: as many as the agent asks for, where it may [frames]."""
FASTEST_BPS = 10_000_000_000
"""What a wire without a rate in bits is taken to carry."""
MARGIN_BYTES = 64 << 20
"""For frames that are read before those due are given: a thread may wait for its CPU."""
LONGEST_FRAME_BYTES = 9018
"""What a queue in frames may hold of each."""


def wire_id(link: str) -> str:
    """Return what the agent calls the wire of a link."""
    return f"wire:{link}"


def longest_wait_ns(lab: Lab, links: Iterable[str]) -> int:
    """Return how long a frame may be on the emulated paths of these links before it arrives [ns].

    The queue of a pacer counts, that of a line does not: its frames leave at the line's rate, which the counters show.
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
    """Return how long the longest queue of a pacer takes at the rate that its class is sure of [ns]."""
    queue_bytes = shape.limit or PACER_QUEUE_FRAMES * (mtu + FRAME_OVERHEAD_BYTES)
    slowest_bps = min((one.rate for one in shape.classes.values()), default=shape.rate_bps)
    return queue_bytes * 8 * NS_PER_S // slowest_bps


def _held_ns(done: Impairments) -> int:
    held = done.reorder.by if done.reorder else 0
    stalled = done.stall.length if done.stall else 0
    return done.delay + max(4 * done.jitter, *(done.jitter_samples or (0,))) + held + stalled


def way_memory(done: Impairments) -> int:
    """Return what the frames of one direction may take: rate times delay, the queue, and a margin [bytes]."""
    in_bits = done.most_bps()
    waiting_ns = _held_ns(done) + (done.queue_time or 0)
    frames = done.queue_frames or (
        LINE_QUEUE_FRAMES if in_bits and not (done.queue or done.queue_time) else 0
    )
    queue = done.queue or frames * LONGEST_FRAME_BYTES
    return (in_bits or FASTEST_BPS) * waiting_ns // (8 * NS_PER_S) + queue + MARGIN_BYTES


def wire_memory(link: Link) -> int:
    """Return what the frames of both directions of a wire may take [bytes]."""
    assert link.wire is not None
    return sum(way_memory(way) for way in link.wire.ways(link.ends).values())


def link_memory(lab: Lab, topology: Topology, link: str) -> int:
    """Return what the frames of both directions of a link may take, those that are paced included [bytes]."""
    return sum(_memory(*_done(lab, topology, link, end)) for end in lab.links[link].ends)


def _done(lab: Lab, topology: Topology, link: str, end: PortRef) -> tuple[Impairments, Pacing | None]:
    """Return what happens to the frames that an end sends, and what spaces them before."""
    wire = lab.links[link].wire
    return Impairments() if wire is None else wire.way(end), pacing_at(lab, topology, link, end)


def _memory(done: Impairments, pacing: Pacing | None) -> int:
    return way_memory(done) + (0 if pacing is None else pacing.memory_bytes())


def wire_resources(lab: Lab, topology: Topology, link: str, ports: Sequence[Port]) -> Iterator[Resource]:
    """Return the wire of a link whose ends are the ports, and what it does to frames."""
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
    """Return the wire of a link between the bridges into which its ends are plugged, and what it does to frames."""
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


def _tap_module(lab: Lab, link: str) -> tuple[Run, ...]:
    """Have a guest's kernel make the device of taps: there is none until its module is loaded."""
    kernel = home_of(lab, link)
    guest = kernel != HERE and lab.machines[kernel].kind == "vm"
    return (Run(Command(("modprobe", "-q", "tun"))),) if guest else ()


def _start(lab: Lab, link: str, ends: tuple[End, End]) -> StartWire:
    """Have every frame come apart where it gets a time of its own, and its thread a CPU before others then.

    With every frame apart the stack of a sender would take half of the CPU of a thread that shares it with it.
    """
    paced, frame_bytes = is_paced(lab, link), veth_frame_bytes(lab, link)
    priority = POLLING_PRIORITY if paced else None
    return StartWire(
        wire_id(link),
        ends,
        super_frames=not paced,
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
    """Expect the agent to say that it spaces frames as asked."""
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
    """Return what is to carry the frames of a wire; where veth pairs cannot be had, the agent takes taps."""
    if veth_frame_bytes(lab, link) is not None:
        return "veth"
    return "apart" if is_paced(lab, link) else "whole"


def veth_frame_bytes(lab: Lab, link: str) -> int | None:
    """Return the longest frame (without FCS) where the ends of a wire are to be veth pairs; None: taps.

    They carry more frames a second, where every frame comes apart (TSO off), as far as nothing was asked for that they
    do not have: they hand frames on as they are, so checksums must be in them, and they take them in by the path that
    may join them (GRO). A wire that paces gives frames one by one, and ends on bridges get what guests join.
    """
    offload, mtu = lab.links[link].offload, mtu_of(lab, link)
    wants_more = "on" in (offload.tx_checksum, offload.sg) or offload.gro == "off"
    if is_paced(lab, link) or joins_bridges(lab, link) or offload.tso != "off" or wants_more:
        return None
    return mtu + FRAME_OVERHEAD_BYTES if mtu <= VETH_MOST_MTU else None  # a tag where the checksum would be


def pacing_at(lab: Lab, topology: Topology, link: str, port: PortRef) -> Pacing | None:
    """Return the pacer at an end of a link, for the frames that it sends; None: it has none.

    Raises:
        InputError: a class is selected by what has no address.
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
