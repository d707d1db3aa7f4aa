"""Rate control at one port's egress as a resource: htb with classes and filters, tbf, fq; and its read-back.

The qdisc sits on the interface that carries the packets (the VLAN's, where there is one): below it frames are
tagged, and filters for `protocol ip` would not see them. Packets that no filter selects pass unshaped, unless
`default` names a class; an htb without classes shapes everything. iolab's own pacer is a part of a wire (`wires`).
"""

from collections.abc import Iterator
from itertools import product

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Shape, ShapeClass
from iolab.lab.actions import ORIGINAL, Command, Expectation, Reading, Run
from iolab.lab.dependencies import place_of
from iolab.lab.endpoints import version_of
from iolab.lab.links.htb import Selector, htb
from iolab.lab.links.overlays import mtu_of
from iolab.lab.links.tc import (
    burst_slack,
    expect_kind,
    expect_qdisc,
    expect_rate,
    own_qdisc,
    root,
)
from iolab.lab.readback.values import Interface
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.registry.qdiscs import QDISCS
from iolab.units import ETHERNET_HEADER_BYTES


def shape_resources(lab: Lab, topology: Topology, link: str) -> Iterator[Resource]:
    """Give the shaping of a link that the kernel does.

    Raises:
        InputError: it names a port or machine that is not there.
    """
    shape = lab.links[link].shape
    if shape is None or QDISCS[shape.qdisc].module is None:
        return
    port = shaped_port(topology, link, lab)
    own = own_qdisc(lab, port)
    match shape.qdisc:
        case "htb":
            selectors = {name: selectors_of(topology, link, one) for name, one in shape.classes.items()}
            actions, expect = htb(shape, port, selectors, own)
        case "tbf":
            actions, expect = _tbf(shape, port, mtu_of(lab, link), own)
        case _:
            actions, expect = _rate_alone(shape, port, own)
    yield Resource(
        key=f"qdisc:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(place_of(lab, port),),
        actions=actions,
        expect=expect,
    )
    if shape.gso_max_segs is not None:
        yield _super_frames(lab, port, shape.gso_max_segs)


def shaped_port(topology: Topology, link: str, lab: Lab) -> Port:
    """Return the port at which a link is shaped.

    Raises:
        InputError: it is not there.
    """
    shape = lab.links[link].shape
    port = next((port for port in topology.ports() if shape and port.ref == shape.at), None)
    if port is None:
        seen = shape.at if shape else "no shape"
        allowed = ", ".join(lab.links[link].ends)
        raise InputError(
            [Problem(f"lab.links.{link}.shape.at", "looking for the shaped port", seen, allowed)]
        )
    return port


def selectors_of(topology: Topology, link: str, shape_class: ShapeClass) -> tuple[Selector, ...]:
    """Return every pair of addresses that selects a class: all addresses of a machine, or that of a port.

    Raises:
        InputError: one of them has no address.
    """
    if shape_class.src is None and shape_class.dst is None:
        return ()
    sides: list[list[str | None]] = []
    for ref in (shape_class.src, shape_class.dst):
        addresses: list[str | None] = [None]
        if ref is not None:
            addresses = [one.address for point in topology.endpoints(ref) for one in point.each()]
        if not addresses:
            allowed = "a machine, or machine.port, that has an address"
            where = f"lab.links.{link}.shape.classes"
            raise InputError([Problem(where, "selecting packets by address", str(ref), allowed)])
        sides.append(addresses)
    pairs = product(sides[0], sides[1])
    return tuple(pair for pair in pairs if len({version_of(one) for one in pair if one is not None}) == 1)


def _super_frames(lab: Lab, port: Port, segments: int) -> Resource:
    """Bound how many frames the port's own kernel sends as one: a shaper passes them at once."""
    base = ("ip", "link", "set", "dev", port.interface, "gso_max_segs")
    show = Command(("ip", "-j", "-d", "addr", "show"), port.netns)
    reading = Reading(show, Interface(port.interface, "gso_max_segs"))
    run = Run(Command((*base, str(segments)), port.netns), Command((*base, ORIGINAL), port.netns), reading)
    return Resource(
        key=f"gso:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(place_of(lab, port),),
        actions=(run,),
        expect=(Expectation(reading, str(segments), f"gso_max_segs of {port.ref}"),),
    )


def _tbf(
    shape: Shape, port: Port, mtu: int, own: Reading | None
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    rate_bps = shape.rate_bps
    rate_bytes = rate_bps // 8
    burst = shape.burst or max(
        rate_bytes // TBF_BURSTS_PER_S, TBF_BURST_FRAMES * (mtu + ETHERNET_HEADER_BYTES)
    )
    if shape.limit is not None:
        queue = ("limit", f"{shape.limit}b")
        latency_us = (shape.limit - burst) * 1_000_000 // rate_bytes
    else:
        latency_us = (shape.latency or TBF_LATENCY_NS) // 1000
        queue = ("latency", f"{latency_us}us")
    run = root(port, own, "tbf", "rate", f"{rate_bps}bit", "burst", f"{burst}b", *queue)
    waiting = expect_qdisc(port, "latency_us", latency_us, 8 + latency_us // 1000)
    if latency_us < 0 and shape.limit is not None:  # tc then shows the limit itself
        waiting = expect_qdisc(port, "limit_bytes", shape.limit)
    expect = (
        expect_kind(port, "tbf"),
        expect_rate(port, "rate", rate_bps),
        expect_qdisc(port, "burst_bytes", burst, burst_slack(burst, rate_bps)),
        waiting,
    )
    return (run,), expect


def _rate_alone(
    shape: Shape, port: Port, own: Reading | None
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    """Set a qdisc that takes a rate and nothing else, or not even that."""
    option = QDISCS[shape.qdisc].rate_option
    if option is None:
        return (root(port, own, shape.qdisc),), (expect_kind(port, shape.qdisc),)
    run = root(port, own, shape.qdisc, option, f"{shape.rate_bps}bit")
    return (run,), (expect_kind(port, shape.qdisc), expect_rate(port, option, shape.rate_bps))


TBF_BURSTS_PER_S, TBF_BURST_FRAMES = 250, 10
"""Default bucket of tbf: what the rate brings in a tick of a 250 Hz kernel (tc-tbf), at least 10 frames."""
TBF_LATENCY_NS = 50_000_000
"""Default waiting time in tbf [ns], as in tc-tbf's example."""
