"""Check links over other links: the port below each end, and plain links, whose ports are the ports below.

A factor may vary `tunnel` over `none` and `vxlan`. With `none`, the link is plain, and its ports stand for the ports
below.
"""

from collections.abc import Iterator, Mapping

from iolab.experiment.experiment import Section, is_plain
from iolab.experiment.model.links import Link, Shape, ShapeClass
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.reading.problems import listed
from iolab.experiment.references.view import Place, View, check_place
from iolab.locale import Phrase, Text
from iolab.registry.qdiscs import QDISCS
from iolab.units import ETHERNET_HEADER_BYTES

PAIRS = ("gre", "gretap")
"""Tunnel types with exactly two ends."""

KEEPS = ("vlan", "wire", "host_offload", "cable", "join", "mode")
"""Link keys that are valid only for interfaces without a link below, or for cables."""

OF_ITS_OWN = (*KEEPS, "mtu", "offload", "shape", "addresses", "id", "hash")
"""Link keys that are not valid for a plain link, whose ports are those below."""

POLICIES = ("balance-xor", "802.3ad", "balance-tlb")
"""Bonding modes that use the transmit hash policy."""


def check_over(view: View, section: Section, link: Link) -> None:
    """Report missing, conflicting and unused keys of a link over other links."""
    if not link.over:
        for key, value in (("tunnel", link.tunnel), ("bond", link.bond)):
            if value is not None:
                view.say(
                    section,
                    (key,),
                    Phrase("check.value-without-over", key=key, value=value),
                    Phrase("check.over-link-or-links-below"),
                )
        return
    if link.tunnel is not None and link.bond is not None:
        view.say(
            section,
            ("bond",),
            Phrase("check.bond-with-tunnel", bond=link.bond, tunnel=link.tunnel),
            Phrase("check.one-of-them"),
        )
    for number, name in enumerate(link.over):
        if name not in view.lab.links:
            view.add(section, ("over",), name, view.lab.links, Phrase("check.a-link"))
        elif name == section.name or section.name in _deep(view.lab.links, name):
            view.say(
                section,
                ("over",),
                Phrase("check.lies-over-itself", name=name, name_2=section.name),
                Phrase("check.link-below"),
            )
        elif name in link.over[:number]:
            view.say(section, ("over",), Phrase("check.twice", name=name), Phrase("check.links-differ"))
    for end in link.ends:
        _check_below(view, section, link, end)
    _check_keys(view, section, link)


def _deep(links: Mapping[str, Link], name: str) -> set[str]:
    """Return all links below a link."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        link = links.get(waiting.pop())
        new = set(link.over) - found if link is not None else set()
        found |= new
        waiting += new
    return found


def _check_below(view: View, section: Section, link: Link, end: PortRef) -> None:
    known = [name for name in link.over if name in view.lab.links]
    ends = {name: [one for one in view.lab.links[name].ends if one.machine == end.machine] for name in known}
    if link.bond is not None:
        wrong = [name for name in known if len(ends[name]) != 1]
        for name in (
            name for name in known if any(one in view.lab.links[name].addresses for one in ends[name])
        ):
            view.say(
                Section("links", name),
                ("addresses",),
                Phrase("check.address-of-part", end=end),
                Phrase("check.one-of-ports", ports=end),
            )
        for name in wrong:
            view.say(
                section, ("over",), name, Phrase("check.links-with-one-end", machine=end.machine, end=end)
            )
    elif known and not any(ends.values()):
        view.say(
            section,
            ("over",),
            listed(known),
            Phrase("check.link-to-carry-end", machine=end.machine, end=end),
        )


def _check_keys(view: View, section: Section, link: Link) -> None:
    for key in link.model_fields_set & set(OF_ITS_OWN if is_plain(link) else KEEPS):
        if getattr(link, key) not in (
            None,
            type(link).model_fields[key].get_default(call_default_factory=True),
        ):
            allowed: Text = Phrase("check.set-on-link-below")
            if not is_plain(link):
                allowed = Phrase("check.key-not-over-a-link", key=key)
            view.say(section, (key,), key, allowed)
    for key, seen, allowed in _senseless(link):
        view.say(section, (key,), seen, allowed)


def _senseless(link: Link) -> Iterator[tuple[str, Text, Text]]:
    """Yield conflicting settings, each with its key, its value, and the allowed values."""
    if link.tunnel in PAIRS and len(link.ends) > 2:
        yield (
            "tunnel",
            Phrase("check.tunnel-with-ends", tunnel=link.tunnel, ends_count=len(link.ends)),
            Phrase("check.vxlan-wireguard-or-two-ends"),
        )
    if link.bond is not None and len(link.ends) > 2:
        yield (
            "ends",
            Phrase("check.ends-of-bond", ends_count=len(link.ends)),
            Phrase("check.two-ends-links-below-join"),
        )
    if link.bond is not None and link.mtu is not None:
        yield "mtu", Phrase("check.mtu-on-bond", mtu=link.mtu), Phrase("check.mtu-of-links-below")
    if link.id is not None and link.tunnel == "wireguard":
        yield (
            "id",
            Phrase("check.id-with-tunnel-wireguard", id=link.id),
            Phrase("check.keys-identify-peers"),
        )
    if link.id is not None and link.bond is not None:
        yield "id", Phrase("check.id-with-bond", id=link.id, bond=link.bond), Phrase("check.id-on-tunnel")
    if link.id is not None and link.tunnel == "vxlan" and link.id >= 1 << 24:
        yield "id", Phrase("check.id", id=link.id), Phrase("check.vxlan-network-identifier")
    if link.hash is not None and link.bond not in POLICIES:
        yield (
            "hash",
            Phrase("check.hash-with-bond", hash=link.hash, bond=link.bond or "none"),
            Phrase("check.bond", policies=listed(POLICIES)),
        )
    if link.shape is not None and link.shape.qdisc == "pacer":
        yield (
            "shape",
            Phrase("check.pacer-over-a-link"),
            Phrase("check.kernel-qdisc-or-pacer-below"),
        )


QDISC_KEYS = ("burst", "limit", "latency", "gso_max_segs", "classes", "default")
"""Shape keys that not every queueing discipline supports."""

CLASS_KEYS = ("parent", "burst", "cburst", "quantum", "leaf")
"""Class keys that not every classful queueing discipline supports."""

SHORTEST_FRAME = 60
"""Minimum frame size without its checksum, for a link whose MTU is determined later [bytes]."""

WHOLE_BUCKETS = ("tbf", "pacer")
"""Disciplines whose `burst` must hold a whole frame: tbf drops larger frames."""

LEAST_BPS = 8
"""Minimum rate: tc stores rates in whole bytes per second."""

DEEPEST = 7
"""Maximum depth of classes below the port's root class (TC_HTB_MAXDEPTH is 8)."""


def check_shape(view: View, section: Section, link: Link, shape: Shape) -> None:
    """Report problems in the shape of a link."""
    if shape.at not in link.ends:
        view.add(section, ("shape", "at"), shape.at, link.ends, Phrase("check.end-of-link"))
    _check_discipline(view, section, link, shape)
    _check_frames_fit(view, section, link, shape)
    if shape.limit is not None and shape.latency is not None:
        allowed = Phrase("check.one-limit-of-queue")
        view.say(section, ("shape", "latency"), Phrase("check.limit-and-latency"), allowed)
    if shape.default is not None and shape.default not in shape.classes:
        view.add(section, ("shape", "default"), shape.default, shape.classes, Phrase("check.a-class"))
    elif shape.default is not None and shape.below(shape.default):
        allowed = Phrase("check.leaf-class")
        view.say(section, ("shape", "default"), shape.default, allowed)
    if _check_tree(view, section, shape) and shape.rate is not None:
        _check_sums(view, section, shape)
    for name, one in shape.classes.items():
        _check_class(view, section, shape, name, one)


def _check_discipline(view: View, section: Section, link: Link, shape: Shape) -> None:
    """Report a missing rate, and keys that the queueing discipline does not support."""
    row = QDISCS[shape.qdisc]
    if shape.rate is None and row.takes_rate:
        view.say(
            section,
            ("shape",),
            Phrase("check.without-a-rate", what=shape.qdisc),
            Phrase("check.a-rate"),
            Phrase("check.add-rate"),
        )
    if shape.rate is not None and not row.takes_rate:
        takers = [name for name, each in QDISCS.items() if each.takes_rate]
        view.say(
            section,
            ("shape", "rate"),
            Phrase("check.rate-with-qdisc", qdisc=shape.qdisc),
            Phrase("check.rate-with-qdisc", qdisc=takers),
        )
    if shape.qdisc == "pacer" and shape.burst is not None and link.wire is not None:
        allowed = Phrase("check.emulated-path-has-own-times")
        view.say(section, ("shape", "burst"), Phrase("check.burst-on-link-with-wire"), allowed)
    for key in QDISC_KEYS:
        if getattr(shape, key) and key not in row.keys:
            takers = [name for name, each in QDISCS.items() if key in each.keys]
            view.say(
                section,
                ("shape", key),
                Phrase("check.key-with-qdisc", key=key, qdisc=shape.qdisc),
                Phrase("check.key-with-qdisc", key=key, qdisc=takers),
            )


def _check_frames_fit(view: View, section: Section, link: Link, shape: Shape) -> None:
    """Report queues and buckets that are too small for a full frame of the link, and rates below the minimum of tc."""
    frame_bytes = SHORTEST_FRAME if link.mtu is None else link.mtu + ETHERNET_HEADER_BYTES
    allowed = Phrase("check.at-least-one-frame", frame_bytes=frame_bytes)
    if shape.limit is not None and shape.limit < frame_bytes:
        view.say(section, ("shape", "limit"), Phrase("check.queue-of-bytes", size=shape.limit), allowed)
    if shape.qdisc in WHOLE_BUCKETS and shape.burst is not None and shape.burst < frame_bytes:
        view.say(section, ("shape", "burst"), Phrase("check.bucket-of-bytes", size=shape.burst), allowed)
    if shape.qdisc in WHOLE_BUCKETS and shape.limit is not None and shape.limit < (shape.burst or 0):
        view.say(
            section,
            ("shape", "limit"),
            Phrase("check.bytes", count=shape.limit),
            Phrase("check.at-least-burst-bytes", burst=shape.burst),
        )
    rates = {("shape", "rate"): shape.rate} | {
        ("shape", "classes", name, "rate"): one.rate for name, one in shape.classes.items()
    }
    for place, rate in rates.items():
        if rate is not None and rate < LEAST_BPS:
            view.say(
                section, place, f"{rate} bit/s", Phrase("check.at-least-bit-per-second", least=LEAST_BPS)
            )


def _check_class(view: View, section: Section, shape: Shape, name: str, one: ShapeClass) -> None:
    place: Place = ("shape", "classes", name)
    for key in CLASS_KEYS:
        if getattr(one, key) is not None and key not in QDISCS[shape.qdisc].class_keys:
            takers = [kind for kind, row in QDISCS.items() if key in row.class_keys]
            if "classes" in QDISCS[shape.qdisc].keys:
                view.say(
                    section,
                    (*place, key),
                    Phrase("check.key-with-qdisc", key=key, qdisc=shape.qdisc),
                    Phrase("check.key-with-qdisc", key=key, qdisc=takers),
                )
    for key, end in (("from", one.src), ("to", one.dst)):
        if end is not None and check_place(view, section, (*place, key), end) and shape.below(name):
            allowed = Phrase("check.filters-of-leaf-classes")
            view.say(
                section,
                (*place, key),
                Phrase("check.class-has-classes-below", name=name, below=[*shape.below(name)]),
                allowed,
            )
    if one.leaf is not None and shape.below(name):
        view.say(
            section,
            (*place, "leaf"),
            Phrase("check.has-classes-below", name=name),
            Phrase("check.queues-of-leaf-classes"),
        )
    if one.leaf is not None and shape.limit is not None:
        view.say(
            section, (*place, "leaf"), Phrase("check.leaf-and-limit-of-shape"), Phrase("check.one-of-the-two")
        )
    if one.ceil is not None and one.ceil < one.rate:
        view.say(
            section,
            (*place, "ceil"),
            Phrase("check.a-ceil-of", ceil=one.ceil),
            Phrase("check.at-least-the-rate", rate=one.rate),
        )


def _check_tree(view: View, section: Section, shape: Shape) -> bool:
    """Report unknown parents, and classes that are circular or too deep; return whether the classes form a tree."""
    good, told = True, set[str]()
    for name, one in shape.classes.items():
        place: Place = ("shape", "classes", name, "parent")
        if one.parent is not None and one.parent not in shape.classes:
            view.add(
                section,
                place,
                one.parent,
                (each for each in shape.classes if each != name),
                Phrase("check.a-class"),
            )
            good = False
            continue
        above, seen = one.parent, [name]
        while above is not None and above in shape.classes and above not in seen:
            seen.append(above)
            above = shape.classes[above].parent
        if above in seen and told.isdisjoint(seen):
            told.update(seen)
            chain: Text = str(above)
            for below in reversed(seen):
                chain = Phrase("check.class-below", name=below, above=chain)
            view.say(section, place, chain, Phrase("check.classes-form-tree"))
        good = good and above not in seen
        if len(seen) > DEEPEST:
            view.say(
                section,
                place,
                Phrase("check.classes-below-each-other", seen_count=len(seen)),
                Phrase("check.at-most", most=DEEPEST),
            )
            good = False
    return good


def _check_sums(view: View, section: Section, shape: Shape) -> None:
    """Report children whose total rate exceeds the parent's rate, or whose ceil exceeds the parent's ceil."""
    for above in (None, *shape.classes):
        children = {name: shape.classes[name] for name in shape.below(above)}
        sure = shape.rate_bps if above is None else shape.classes[above].rate
        most = shape.rate_bps if above is None else shape.classes[above].most_bps
        parent = Phrase("check.the-port") if above is None else above
        for name, one in children.items():
            if one.most_bps > most:
                key = "rate" if one.ceil is None else "ceil"
                allowed = Phrase("check.at-most-the-parent-ceil", parent=parent, rate=most)
                view.say(section, ("shape", "classes", name, key), f"{one.most_bps} bit/s", allowed)
        together = sum(one.rate for one in children.values())
        if together > sure and all(one.rate <= sure for one in children.values()):
            seen = Phrase("check.rate-together", rate=together, classes=[*children])
            view.say(
                section,
                ("shape", "classes"),
                seen,
                Phrase("check.at-most-the-parent-rate", parent=parent, rate=sure),
            )
