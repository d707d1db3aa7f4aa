"""Links over other links: which port carries each end, and those with nothing between, whose ports are the ones below.

`tunnel: none` beside `vxlan` is the same lab without a tunnel: what names a port of that link means the port below.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from iolab.experiment.experiment import Lab
from iolab.experiment.lab_view import View
from iolab.experiment.links import Link
from iolab.experiment.port_ref import PortRef
from iolab.experiment.problems import listed
from iolab.experiment.sections import Section

PAIRS = ("gre", "gretap")
"""Tunnels that have two ends."""
KEEPS = ("vlan", "wire", "host_offload", "cable", "join", "mode")
"""Keys of a link that only one of interfaces or cables has."""
OF_ITS_OWN = (*KEEPS, "mtu", "offload", "shape", "addresses", "id", "hash")
"""Keys of a link that mean nothing where its ports are those below."""
POLICIES = ("balance-xor", "802.3ad", "balance-tlb")
"""Modes of a bond that choose a link by a packet's addresses."""


def is_plain(link: Link) -> bool:
    """Tell whether a link lies over others with nothing between."""
    return bool(link.over) and link.tunnel is None and link.bond is None


def ports_below(links: Mapping[str, Link], link: Link, machine: str) -> tuple[PortRef, ...]:
    """Return the ports of a machine that the links below a link have, in their order."""
    below = (links[name].ends for name in link.over if name in links)
    return tuple(end for ends in below for end in ends if end.machine == machine)


def without_plain(lab: Lab) -> Lab:
    """Return the lab without links that have nothing of their own; their names stand for what is below."""
    if not any(is_plain(link) for link in lab.links.values()):
        return lab
    names: dict[str, str] = {}
    for name, link in lab.links.items():
        if is_plain(link):
            names[name] = link.over[0]
            own = ((end, ports_below(lab.links, link, end.machine)) for end in link.ends)
            names |= {end: found[0] for end, found in own if found}
    aliases = {name: _followed(names, name) for name in names}
    links = {
        name: link.model_copy(update={"over": tuple(aliases.get(one, one) for one in link.over)})
        if link.over
        else link
        for name, link in lab.links.items()
        if name not in aliases
    }
    return replace(lab, links=links, aliases=aliases)


def _followed(names: Mapping[str, str], name: str) -> str:
    """Return what a name stands for in the end; links in a circle are an error where references are checked."""
    seen = {name}
    while (name := names[name]) in names and name not in seen:
        seen.add(name)
    return name


def check_over(view: View, section: Section, link: Link) -> None:
    """Note what a link over others lacks, or says in vain."""
    if not link.over:
        for key, value in (("tunnel", link.tunnel), ("bond", link.bond)):
            if value is not None:
                view.say(section, (key,), f"{key}: {value} without `over`", "over: the link, or links, below")
        return
    if link.tunnel is not None and link.bond is not None:
        view.say(section, ("bond",), f"bond: {link.bond} with tunnel: {link.tunnel}", "one of them")
    for number, name in enumerate(link.over):
        if name not in view.lab.links:
            view.add(section, ("over",), name, view.lab.links, "a link")
        elif name == section.name or section.name in _deep(view.lab.links, name):
            view.say(section, ("over",), f"{name}, which lies over {section.name} itself", "a link below")
        elif name in link.over[:number]:
            view.say(section, ("over",), f"{name} twice", "links that differ")
    for end in link.ends:
        _check_below(view, section, link, end)
    _check_keys(view, section, link)


def _deep(links: Mapping[str, Link], name: str) -> set[str]:
    """Return every link below a link."""
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
                Section("links", name), ("addresses",), f"an address of a part of {end}", f"one of {end}"
            )
        for name in wrong:
            view.say(
                section, ("over",), name, f"links with one end at {end.machine}: each is a part of {end}"
            )
    elif known and not any(ends.values()):
        view.say(section, ("over",), listed(known), f"a link with an end at {end.machine}, to carry {end}")


def _check_keys(view: View, section: Section, link: Link) -> None:
    for key in link.model_fields_set & set(OF_ITS_OWN if is_plain(link) else KEEPS):
        if getattr(link, key) not in (
            None,
            type(link).model_fields[key].get_default(call_default_factory=True),
        ):
            allowed = "ends and over alone: there is only the link below, set it there"
            if not is_plain(link):
                allowed = f"no {key} on a link over another"
            view.say(section, (key,), key, allowed)
    for key, seen, allowed in _senseless(link):
        view.say(section, (key,), seen, allowed)


def _senseless(link: Link) -> Iterator[tuple[str, str, str]]:
    """Give what does not go together, by its key: what was seen, and what is allowed."""
    if link.tunnel in PAIRS and len(link.ends) > 2:
        yield "tunnel", f"tunnel: {link.tunnel} with {len(link.ends)} ends", "vxlan, wireguard, or two ends"
    if link.bond is not None and len(link.ends) > 2:
        yield "ends", f"{len(link.ends)} ends of a bond", "two ends, which the links below join"
    if link.bond is not None and link.mtu is not None:
        yield "mtu", f"mtu: {link.mtu} on a bond", "the mtu of the links below, which a bond takes over"
    if link.id is not None and link.tunnel == "wireguard":
        yield "id", f"id: {link.id} with tunnel: wireguard", "no id: its keys tell its peers apart"
    if link.id is not None and link.bond is not None:
        yield "id", f"id: {link.id} with bond: {link.bond}", "an id on a tunnel"
    if link.id is not None and link.tunnel == "vxlan" and link.id >= 1 << 24:
        yield "id", f"id: {link.id}", "a VXLAN network identifier, 0 to 16777215 (RFC 7348)"
    if link.hash is not None and link.bond not in POLICIES:
        yield "hash", f"hash: {link.hash} with bond: {link.bond or 'none'}", f"bond: {listed(POLICIES)}"
    if link.shape is not None and link.shape.qdisc == "pacer":
        yield (
            "shape",
            "qdisc: pacer on a link over another",
            "a kernel's qdisc, or the pacer on the link below",
        )
