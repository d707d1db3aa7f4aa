"""Egress rate control of a port as a resource: htb with classes and filters, tbf, fq, with their read-back.

The qdisc is on the interface that carries the packets (for a VLAN, the VLAN interface): on the interface below, frames
are tagged, and filters for `protocol ip` would not match them. Packets without a matching filter are not shaped unless
`default` names a class; an htb without classes shapes everything. iolab's pacer is a part of an emulated link
(`wires`).

An htb is a tree of classes, with a queue below each leaf, and filters by address.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Leaf, Shape, ShapeClass
from iolab.lab.actions import ORIGINAL, Command, Expectation, Reading, Run
from iolab.lab.dependencies import place_of
from iolab.lab.endpoints import version_of
from iolab.lab.links.overlays import mtu_of
from iolab.lab.links.tc import (
    QDISC_SHOW,
    burst_slack,
    expect_class,
    expect_kind,
    expect_qdisc,
    expect_rate,
    own_qdisc,
    rate_slack,
    root,
)
from iolab.lab.readback.shaping import ClassField, Filters, LeafQdisc
from iolab.lab.readback.values import Interface
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.locale import Phrase
from iolab.registry.qdiscs import QDISCS
from iolab.units import ETHERNET_HEADER_BYTES

Selector = tuple[str | None, str | None]
"""Source and destination address of a filter; None: any."""
ROOT_CLASS = "1:1"
FIRST_CLASS = 0x10
"""Minor number of the first configured class."""
LEAF_FRAMES = 1000
"""Queue length of a class [frame]: the kernel's default transmit queue (tc-pfifo)."""


def shape_resources(lab: Lab, topology: Topology, link: str) -> Iterator[Resource]:
    """Yield the resources of a link's shape in the kernel.

    Raises:
        InputError: the shape names an unknown port or machine.
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
    """Return the shaped port of a link.

    Raises:
        InputError: the port does not exist.
    """
    shape = lab.links[link].shape
    port = next((port for port in topology.ports() if shape and port.ref == shape.at), None)
    if port is None:
        seen = shape.at if shape else Phrase("lab.no-shape")
        allowed = Phrase("errors.listed", items=lab.links[link].ends)
        raise InputError(
            [Problem(f"lab.links.{link}.shape.at", Phrase("lab.looking-for-shaped-port"), seen, allowed)]
        )
    return port


def selectors_of(topology: Topology, link: str, shape_class: ShapeClass) -> tuple[Selector, ...]:
    """Return all address pairs that select a class: those of all addresses of a machine, or of one port.

    Raises:
        InputError: a machine or port has no address.
    """
    if shape_class.src is None and shape_class.dst is None:
        return ()
    sides: list[list[str | None]] = []
    for ref in (shape_class.src, shape_class.dst):
        addresses: list[str | None] = [None]
        if ref is not None:
            addresses = [one.address for point in topology.endpoints(ref) for one in point.each()]
        if not addresses:
            allowed = Phrase("lab.port-with-address")
            where = f"lab.links.{link}.shape.classes"
            raise InputError([Problem(where, Phrase("lab.selecting-packets-by-address"), str(ref), allowed)])
        sides.append(addresses)
    pairs = product(sides[0], sides[1])
    return tuple(pair for pair in pairs if len({version_of(one) for one in pair if one is not None}) == 1)


def _super_frames(lab: Lab, port: Port, segments: int) -> Resource:
    """Return the limit on GSO super-frames of the port's kernel; a shaper sends each super-frame at once."""
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
    if latency_us < 0 and shape.limit is not None:  # tc then shows the limit, not a latency
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
    """Return the actions that set a qdisc with only a rate, or without parameters."""
    option = QDISCS[shape.qdisc].rate_option
    if option is None:
        return (root(port, own, shape.qdisc),), (expect_kind(port, shape.qdisc),)
    run = root(port, own, shape.qdisc, option, f"{shape.rate_bps}bit")
    return (run,), (expect_kind(port, shape.qdisc), expect_rate(port, option, shape.rate_bps))


def htb(
    shape: Shape, port: Port, selectors: Mapping[str, tuple[Selector, ...]], own: Reading | None
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    """Return the actions that set up an htb, and the expectations of its read-back."""
    ids = {name: f"1:{FIRST_CLASS + index:x}" for index, name in enumerate(shape.classes)}
    default = ids[shape.default] if shape.default else ROOT_CLASS if not ids else "1:0"
    minor = default.removeprefix("1:")
    whole = ShapeClass(rate=shape.rate_bps, burst=shape.burst)
    runs = [root(port, own, "htb", "default", minor), *_class(port, "1:", ROOT_CLASS, whole)]
    expect = [expect_kind(port, "htb"), expect_qdisc(port, "default", int(minor, 16))]
    expect += expect_class(port, ROOT_CLASS, _wanted(whole))
    for name in _downwards(shape):
        one = shape.classes[name]
        runs += _class(port, ROOT_CLASS if one.parent is None else ids[one.parent], ids[name], one)
        expect += expect_class(port, ids[name], _wanted(one))
    leaves = {ids[name]: one.leaf for name, one in shape.classes.items() if not shape.below(name)}
    for classid, leaf in (leaves or {ROOT_CLASS: None}).items():
        runs.append(_leaf(port, classid, leaf, shape.limit))
        expect.append(_expect_leaf(port, classid, leaf, shape.limit))
    rules = [(pair, ids[name]) for name, pairs in selectors.items() for pair in pairs]
    for preference, (pair, classid) in enumerate(rules, start=1):
        runs.append(_filter(port, preference, pair, classid))
    shown = ",".join(f"{source or '*'}>{target or '*'}={classid}" for (source, target), classid in rules)
    show = Command(("tc", "-j", "filter", "show", "dev", port.interface), port.netns)
    expect.append(Expectation(Reading(show, Filters()), shown, f"filters at {port.ref}"))
    return tuple(runs), tuple(expect)


def _downwards(shape: Shape, above: str | None = None) -> Iterator[str]:
    """Yield the classes, each after its parent."""
    for name in shape.below(above):
        yield name
        yield from _downwards(shape, name)


def _class(port: Port, parent: str, classid: str, one: ShapeClass) -> Iterator[Run]:
    argv = ["tc", "class", "add", "dev", port.interface, "parent", parent, "classid", classid, "htb"]
    argv += ["rate", f"{one.rate}bit"]
    argv += ["ceil", f"{one.ceil}bit"] if one.ceil is not None else []
    argv += ["burst", f"{one.burst}b"] if one.burst is not None else []
    argv += ["cburst", f"{one.cburst}b"] if one.cburst is not None else []
    argv += ["quantum", str(one.quantum)] if one.quantum is not None else []
    yield Run(Command(tuple(argv), port.netns))


def _wanted(one: ShapeClass) -> Iterator[tuple[ClassField, int | None, int]]:
    yield "rate_bps", one.rate, rate_slack(one.rate)
    yield "ceil_bps", one.most_bps, rate_slack(one.most_bps)
    yield "burst_bytes", one.burst, burst_slack(one.burst or 0, one.rate)
    yield "cburst_bytes", one.cburst, burst_slack(one.cburst or 0, one.most_bps)
    yield "quantum_bytes", one.quantum, 0


def _leaf(port: Port, classid: str, leaf: Leaf | None, limit_bytes: int | None) -> Run:
    queue = (_leaf_kind(leaf, limit_bytes), "limit")
    limit = f"{limit_bytes}b" if limit_bytes is not None else str((leaf and leaf.frames) or LEAF_FRAMES)
    argv = ("tc", "qdisc", "add", "dev", port.interface, "parent", classid, *queue, limit)
    return Run(Command(argv, port.netns))


def _leaf_kind(leaf: Leaf | None, limit_bytes: int | None) -> str:
    return "bfifo" if limit_bytes is not None else leaf.qdisc if leaf is not None else "pfifo"


def _expect_leaf(port: Port, classid: str, leaf: Leaf | None, limit_bytes: int | None) -> Expectation:
    reading = Reading(Command(QDISC_SHOW, port.netns), LeafQdisc(port.interface, classid))
    return Expectation(reading, _leaf_kind(leaf, limit_bytes), f"queue of class {classid} at {port.ref}")


def _filter(port: Port, preference: int, pair: Selector, classid: str) -> Run:
    wide = any(address is not None and version_of(address) == 6 for address in pair)
    protocol, header, length = ("ipv6", "ip6", 128) if wide else ("ip", "ip", 32)
    argv = ["tc", "filter", "add", "dev", port.interface, "parent", "1:", "protocol", protocol]
    argv += ["pref", str(preference), "u32"]
    for side, address in zip(("src", "dst"), pair, strict=True):
        argv += ["match", header, side, f"{address}/{length}"] if address is not None else []
    return Run(Command((*argv, "flowid", classid), port.netns))


TBF_BURSTS_PER_S, TBF_BURST_FRAMES = 250, 10
"""Default bucket of tbf: the bytes at the rate per tick of a 250 Hz kernel (tc-tbf), but at least 10 frames."""
TBF_LATENCY_NS = 50_000_000
"""Default queueing time of tbf [ns], as in tc-tbf's example."""
