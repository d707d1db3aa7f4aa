"""Rate control at one port's egress as a resource: htb with classes and filters, tbf, fq; and its read-back.

The qdisc sits on the interface that carries the packets (the VLAN's, where there is one): below it frames are
tagged, and filters for `protocol ip` would not see them. Packets that no filter selects pass unshaped, unless
`default` names a class; an htb without classes shapes everything.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.links import Shape, ShapeClass
from iolab.lab.dependencies import is_veth, place_of
from iolab.lab.readback.shaping import ClassField, Filters, Qdisc, QdiscField, QdiscRate, ShaperClass
from iolab.lab.resources import ORIGINAL, Command, Expectation, Reading, Resource, Run
from iolab.lab.topology import Port, Topology
from iolab.parts.qdiscs import QDISCS


def shape_resource(lab: Lab, topology: Topology, link: str) -> Resource:
    """Return the shaping of a link.

    Raises:
        InputError: it names a port or machine that is not there.
    """
    shape = lab.links[link].shape
    port = next((port for port in topology.ports() if shape and port.ref == shape.at), None)
    if shape is None or port is None:
        seen = shape.at if shape else "no shape"
        allowed = ", ".join(lab.links[link].ends)
        raise InputError(
            [Problem(f"lab.links.{link}.shape.at", "looking for the shaped port", seen, allowed)]
        )
    own = None if is_veth(lab, port) else _qdisc_reading(port, "kind")
    match shape.qdisc:
        case "htb":
            selectors = {name: _selectors(topology, link, one) for name, one in shape.classes.items()}
            actions, expect = _htb(shape, port, selectors, own)
        case "tbf":
            actions, expect = _tbf(shape, port, lab.links[link].mtu, own)
        case _:
            actions, expect = _rate_alone(shape, port, own)
    return Resource(
        key=f"qdisc:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(place_of(lab, port),),
        actions=actions,
        expect=expect,
    )


Selector = tuple[str | None, str | None]
"""Source and destination address of a filter; None: any."""


def _selectors(topology: Topology, link: str, shape_class: ShapeClass) -> tuple[Selector, ...]:
    """Return every pair of addresses that selects a class: all addresses of a machine, or that of a port."""
    if shape_class.src is None and shape_class.dst is None:
        return ()
    sides: list[list[str | None]] = []
    for ref in (shape_class.src, shape_class.dst):
        addresses: list[str | None] = [None]
        if ref is not None:
            addresses = [point.address for point in topology.endpoints(ref)]
        if not addresses:
            allowed = "a machine, or machine.port, that has an address"
            where = f"lab.links.{link}.shape.classes"
            raise InputError([Problem(where, "selecting packets by address", str(ref), allowed)])
        sides.append(addresses)
    return tuple(product(sides[0], sides[1]))


def _htb(
    shape: Shape, port: Port, selectors: Mapping[str, tuple[Selector, ...]], own: Reading | None
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    ids = {name: f"1:{FIRST_CLASS + index:x}" for index, name in enumerate(shape.classes)}
    default = ids[shape.default] if shape.default else ROOT_CLASS if not ids else "1:0"
    minor = default.removeprefix("1:")
    whole = ShapeClass(rate=shape.rate, burst=shape.burst)
    runs = [_root(port, own, "htb", "default", minor), *_class(port, "1:", ROOT_CLASS, whole)]
    expect = [_expect_kind(port, "htb"), _expect_qdisc(port, "default", int(minor, 16))]
    expect += _expect_class(port, ROOT_CLASS, whole)
    for name, one in shape.classes.items():
        runs += _class(port, ROOT_CLASS, ids[name], one)
        expect += _expect_class(port, ids[name], one)
    for classid in ids.values() or [ROOT_CLASS]:
        runs.append(_leaf(port, classid, shape.limit))
    rules = [(pair, ids[name]) for name, pairs in selectors.items() for pair in pairs]
    for preference, (pair, classid) in enumerate(rules, start=1):
        runs.append(_filter(port, preference, pair, classid))
    shown = ",".join(f"{source or '*'}>{target or '*'}={classid}" for (source, target), classid in rules)
    show = Command(("tc", "-j", "filter", "show", "dev", port.interface), port.netns)
    expect.append(Expectation(Reading(show, Filters()), shown, f"filters at {port.ref}"))
    return tuple(runs), tuple(expect)


def _class(port: Port, parent: str, classid: str, one: ShapeClass) -> Iterator[Run]:
    argv = ["tc", "class", "add", "dev", port.interface, "parent", parent, "classid", classid, "htb"]
    argv += ["rate", f"{one.rate}bit"]
    argv += ["ceil", f"{one.ceil}bit"] if one.ceil is not None else []
    argv += ["burst", f"{one.burst}b"] if one.burst is not None else []
    argv += ["cburst", f"{one.cburst}b"] if one.cburst is not None else []
    yield Run(Command(tuple(argv), port.netns))


def _leaf(port: Port, classid: str, limit_bytes: int | None) -> Run:
    queue = (
        ("pfifo", "limit", str(LEAF_PACKETS))
        if limit_bytes is None
        else ("bfifo", "limit", f"{limit_bytes}b")
    )
    argv = ("tc", "qdisc", "add", "dev", port.interface, "parent", classid, *queue)
    return Run(Command(argv, port.netns))


def _filter(port: Port, preference: int, pair: Selector, classid: str) -> Run:
    argv = ["tc", "filter", "add", "dev", port.interface, "parent", "1:", "protocol", "ip"]
    argv += ["pref", str(preference), "u32"]
    for side, address in zip(("src", "dst"), pair, strict=True):
        argv += ["match", "ip", side, f"{address}/32"] if address is not None else []
    return Run(Command((*argv, "flowid", classid), port.netns))


def _tbf(
    shape: Shape, port: Port, mtu: int, own: Reading | None
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    rate_bytes = shape.rate // 8
    burst = shape.burst or max(rate_bytes // TBF_BURSTS_PER_S, TBF_BURST_FRAMES * (mtu + ETHERNET_HEADER))
    if shape.limit is not None:
        queue = ("limit", f"{shape.limit}b")
        latency_us = (shape.limit - burst) * 1_000_000 // rate_bytes
    else:
        latency_us = (shape.latency or TBF_LATENCY_NS) // 1000
        queue = ("latency", f"{latency_us}us")
    run = _root(port, own, "tbf", "rate", f"{shape.rate}bit", "burst", f"{burst}b", *queue)
    waiting = _expect_qdisc(port, "latency_us", latency_us, 8 + latency_us // 1000)
    if latency_us < 0 and shape.limit is not None:  # tc then shows the limit itself
        waiting = _expect_qdisc(port, "limit_bytes", shape.limit)
    expect = (
        _expect_kind(port, "tbf"),
        _expect_rate(port, "rate", shape.rate),
        _expect_qdisc(port, "burst_bytes", burst, _burst_slack(burst, shape.rate)),
        waiting,
    )
    return (run,), expect


def _rate_alone(
    shape: Shape, port: Port, own: Reading | None
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    """Set a qdisc that takes a rate and nothing else, or not even that."""
    option = QDISCS[shape.qdisc].rate_option
    if option is None:
        return (_root(port, own, shape.qdisc),), (_expect_kind(port, shape.qdisc),)
    run = _root(port, own, shape.qdisc, option, f"{shape.rate}bit")
    return (run,), (_expect_kind(port, shape.qdisc), _expect_rate(port, option, shape.rate))


def _root(port: Port, own: Reading | None, kind: str, *options: str) -> Run:
    """Set the root qdisc; the undo gives the port its own again, harmless where it still has it.

    `own` reads the kind that it had; None: it is a veth, which has none.
    """
    base = ("tc", "qdisc", "replace", "dev", port.interface, "root")
    return Run(
        Command((*base, "handle", "1:", kind, *options), port.netns),
        Command((*base, ORIGINAL if own else "noqueue"), port.netns),
        own,
    )


def _expect_kind(port: Port, kind: str) -> Expectation:
    return Expectation(_qdisc_reading(port, "kind"), kind, f"shaping at {port.ref}")


def _expect_qdisc(port: Port, field: QdiscField, expected: int, slack: int = 0) -> Expectation:
    return Expectation(_qdisc_reading(port, field), str(expected), f"shaper's {field} at {port.ref}", slack)


def _expect_rate(port: Port, option: str, rate_bps: int) -> Expectation:
    reading = Reading(Command(QDISC_SHOW, port.netns), QdiscRate(port.interface, option))
    return Expectation(reading, str(rate_bps), f"shaper's {option} at {port.ref}", _rate_slack(rate_bps))


def _qdisc_reading(port: Port, field: QdiscField) -> Reading:
    return Reading(Command(QDISC_SHOW, port.netns), Qdisc(port.interface, field))


def _expect_class(port: Port, classid: str, one: ShapeClass) -> Iterator[Expectation]:
    source = Command(("tc", "class", "show", "dev", port.interface), port.netns)
    ceil = one.ceil if one.ceil is not None else one.rate
    wanted: list[tuple[ClassField, int | None, int]] = [
        ("rate_bps", one.rate, _rate_slack(one.rate)),
        ("ceil_bps", ceil, _rate_slack(ceil)),
        ("burst_bytes", one.burst, _burst_slack(one.burst or 0, one.rate)),
        ("cburst_bytes", one.cburst, _burst_slack(one.cburst or 0, ceil)),
    ]
    for field, value, slack in wanted:
        if value is not None:
            what = f"{field} of class {classid} at {port.ref}"
            yield Expectation(Reading(source, ShaperClass(classid, field)), str(value), what, slack)


def _rate_slack(rate_bps: int) -> int:
    """Return how far tc's print of a rate may lie off: whole bytes per second, four digits or more."""
    return 8 + rate_bps // 1000


def _burst_slack(burst_bytes: int, rate_bps: int) -> int:
    """Return how far tc's print of a burst may lie off: kept as time in whole us, shown rounded to K or M."""
    return 16 + burst_bytes // 1000 + 2 * (rate_bps // 8) // 1_000_000


QDISC_SHOW = ("tc", "-j", "qdisc", "show")
ROOT_CLASS = "1:1"
FIRST_CLASS = 0x10
"""Minor number of the first written class."""
LEAF_PACKETS = 1000
"""Queue of a class [packet]: the kernel's default transmit queue (tc-pfifo)."""
TBF_BURSTS_PER_S, TBF_BURST_FRAMES = 250, 10
"""Default bucket of tbf: what the rate brings in a tick of a 250 Hz kernel (tc-tbf), at least 10 frames."""
TBF_LATENCY_NS = 50_000_000
"""Default waiting time in tbf [ns], as in tc-tbf's example."""
ETHERNET_HEADER = 14
"""Destination, source and type [bytes] (IEEE 802.3)."""
