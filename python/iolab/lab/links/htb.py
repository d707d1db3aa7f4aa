"""htb at a port: a tree of classes, a queue below each leaf, and filters by address."""

from collections.abc import Iterator, Mapping

from iolab.experiment.model.links import Leaf, Shape, ShapeClass
from iolab.lab.actions import Command, Expectation, Reading, Run
from iolab.lab.endpoints import version_of
from iolab.lab.links.tc import (
    QDISC_SHOW,
    burst_slack,
    expect_class,
    expect_kind,
    expect_qdisc,
    rate_slack,
    root,
)
from iolab.lab.readback.shaping import ClassField, Filters, LeafQdisc
from iolab.lab.topology import Port

Selector = tuple[str | None, str | None]
"""Source and destination address of a filter; None: any."""


def htb(
    shape: Shape, port: Port, selectors: Mapping[str, tuple[Selector, ...]], own: Reading | None
) -> tuple[tuple[Run, ...], tuple[Expectation, ...]]:
    """Return what makes an htb, and what must be read back of it."""
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
    """Give the classes, each after its parent."""
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


ROOT_CLASS = "1:1"
FIRST_CLASS = 0x10
"""Minor number of the first written class."""
LEAF_FRAMES = 1000
"""Queue of a class [frame]: the kernel's default transmit queue (tc-pfifo)."""
