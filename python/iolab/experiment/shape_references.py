"""What a shape says that leads nowhere, or that no queueing discipline can do."""

from iolab.experiment.lab_view import Place, View, check_place
from iolab.experiment.links import Link
from iolab.experiment.sections import Section
from iolab.experiment.shapes import Shape, ShapeClass
from iolab.registry.qdiscs import QDISCS
from iolab.units import ETHERNET_HEADER_BYTES

QDISC_KEYS = ("burst", "limit", "latency", "gso_max_segs", "classes", "default")
"""Keys of a shape that not every queueing discipline takes."""
CLASS_KEYS = ("parent", "burst", "cburst", "quantum", "leaf")
"""Keys of a class that not every queueing discipline with classes takes."""
SHORTEST_FRAME = 60
"""Without its checksum, of a link whose MTU is found later [bytes]."""
WHOLE_BUCKETS = ("tbf", "pacer")
"""Disciplines whose `burst` holds a whole frame: tbf drops what is longer."""
LEAST_BPS = 8
"""tc keeps rates in whole bytes per second."""
DEEPEST = 7
"""Classes below each other, under the port's own (TC_HTB_MAXDEPTH is 8)."""


def check_shape(view: View, section: Section, link: Link, shape: Shape) -> None:
    """Note what is wrong with the shape of a link."""
    if shape.at not in link.ends:
        view.add(section, ("shape", "at"), shape.at, link.ends, "an end of this link")
    _check_discipline(view, section, link, shape)
    _check_frames_fit(view, section, link, shape)
    if shape.limit is not None and shape.latency is not None:
        allowed = "one of the two: both say how long the queue is"
        view.say(section, ("shape", "latency"), "limit and latency", allowed)
    if shape.default is not None and shape.default not in shape.classes:
        view.add(section, ("shape", "default"), shape.default, shape.classes, "a class")
    elif shape.default is not None and shape.below(shape.default):
        allowed = "a class without classes below it"
        view.say(section, ("shape", "default"), shape.default, allowed)
    if _check_tree(view, section, shape) and shape.rate is not None:
        _check_sums(view, section, shape)
    for name, one in shape.classes.items():
        _check_class(view, section, shape, name, one)


def _check_discipline(view: View, section: Section, link: Link, shape: Shape) -> None:
    """Note a rate that is missing, and keys that the queueing discipline does not take."""
    row = QDISCS[shape.qdisc]
    if shape.rate is None and row.takes_rate:
        view.say(section, ("shape",), f"{shape.qdisc} without a rate", "a rate", "add rate: ...")
    if shape.rate is not None and not row.takes_rate:
        takers = " or ".join(name for name, each in QDISCS.items() if each.takes_rate)
        view.say(section, ("shape", "rate"), f"rate with {shape.qdisc}", f"rate with {takers}")
    if shape.qdisc == "pacer" and shape.burst is not None and link.wire is not None:
        allowed = "no burst: an emulated path has times of its own, which a pacer that loses rate would shift"
        view.say(section, ("shape", "burst"), "burst on a link with a wire", allowed)
    for key in QDISC_KEYS:
        if getattr(shape, key) and key not in row.keys:
            takers = " or ".join(name for name, each in QDISCS.items() if key in each.keys)
            view.say(section, ("shape", key), f"{key} with {shape.qdisc}", f"{key} with {takers}")


def _check_frames_fit(view: View, section: Section, link: Link, shape: Shape) -> None:
    """Note a queue or a bucket too small for a full frame of the link, and a rate too low for tc."""
    frame_bytes = SHORTEST_FRAME if link.mtu is None else link.mtu + ETHERNET_HEADER_BYTES
    allowed = f"at least a frame of this link, {frame_bytes} bytes"
    if shape.limit is not None and shape.limit < frame_bytes:
        view.say(section, ("shape", "limit"), f"a queue of {shape.limit} bytes", allowed)
    if shape.qdisc in WHOLE_BUCKETS and shape.burst is not None and shape.burst < frame_bytes:
        view.say(section, ("shape", "burst"), f"a bucket of {shape.burst} bytes", allowed)
    if shape.qdisc in WHOLE_BUCKETS and shape.limit is not None and shape.limit < (shape.burst or 0):
        view.say(
            section, ("shape", "limit"), f"{shape.limit} bytes", f"at least the burst, {shape.burst} bytes"
        )
    rates = {("shape", "rate"): shape.rate} | {
        ("shape", "classes", name, "rate"): one.rate for name, one in shape.classes.items()
    }
    for place, rate in rates.items():
        if rate is not None and rate < LEAST_BPS:
            view.say(section, place, f"{rate} bit/s", f"at least {LEAST_BPS} bit/s")


def _check_class(view: View, section: Section, shape: Shape, name: str, one: ShapeClass) -> None:
    place: Place = ("shape", "classes", name)
    for key in CLASS_KEYS:
        if getattr(one, key) is not None and key not in QDISCS[shape.qdisc].class_keys:
            takers = " or ".join(kind for kind, row in QDISCS.items() if key in row.class_keys)
            if "classes" in QDISCS[shape.qdisc].keys:
                view.say(section, (*place, key), f"{key} with {shape.qdisc}", f"{key} with {takers}")
    for key, end in (("from", one.src), ("to", one.dst)):
        if end is not None and check_place(view, section, (*place, key), end) and shape.below(name):
            allowed = "filters of classes without classes below them"
            view.say(section, (*place, key), f"{name} has {', '.join(shape.below(name))} below it", allowed)
    if one.leaf is not None and shape.below(name):
        view.say(section, (*place, "leaf"), f"{name} has classes below it", "queues of classes without any")
    if one.leaf is not None and shape.limit is not None:
        view.say(section, (*place, "leaf"), "leaf, and a limit of the shape", "one of the two")
    if one.ceil is not None and one.ceil < one.rate:
        view.say(
            section, (*place, "ceil"), f"a ceil of {one.ceil} bit/s", f"at least the rate, {one.rate} bit/s"
        )


def _check_tree(view: View, section: Section, shape: Shape) -> bool:
    """Note parents that are not there, and classes in a circle or too deep; tell whether the classes are a tree."""
    good, told = True, set[str]()
    for name, one in shape.classes.items():
        place: Place = ("shape", "classes", name, "parent")
        if one.parent is not None and one.parent not in shape.classes:
            view.add(section, place, one.parent, (each for each in shape.classes if each != name), "a class")
            good = False
            continue
        above, seen = one.parent, [name]
        while above is not None and above in shape.classes and above not in seen:
            seen.append(above)
            above = shape.classes[above].parent
        if above in seen and told.isdisjoint(seen):
            told.update(seen)
            view.say(section, place, " below ".join([*seen, str(above)]), "classes that form a tree")
        good = good and above not in seen
        if len(seen) > DEEPEST:
            view.say(section, place, f"{len(seen)} classes below each other", f"at most {DEEPEST}")
            good = False
    return good


def _check_sums(view: View, section: Section, shape: Shape) -> None:
    """Note children above their parent: more than it is sure of together, or one that may have more than it."""
    for above in (None, *shape.classes):
        children = {name: shape.classes[name] for name in shape.below(above)}
        sure = shape.rate_bps if above is None else shape.classes[above].rate
        most = shape.rate_bps if above is None else shape.classes[above].most_bps
        parent = "the port" if above is None else above
        for name, one in children.items():
            if one.most_bps > most:
                key = "rate" if one.ceil is None else "ceil"
                allowed = f"at most what {parent} may have, {most} bit/s"
                view.say(section, ("shape", "classes", name, key), f"{one.most_bps} bit/s", allowed)
        together = sum(one.rate for one in children.values())
        if together > sure and all(one.rate <= sure for one in children.values()):
            seen = f"{together} bit/s for {', '.join(children)} together"
            view.say(section, ("shape", "classes"), seen, f"at most the rate of {parent}, {sure} bit/s")
