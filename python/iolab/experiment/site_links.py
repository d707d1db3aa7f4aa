"""Links of a lab on a site: the cable between hosts, and at each host a link from its interface to what runs there."""

from collections.abc import Iterator, Mapping
from typing import Any

from iolab.experiment.document import Items, Table
from iolab.experiment.experiment import Experiment, Level
from iolab.experiment.paths import Places
from iolab.experiment.port_ref import PortRef
from iolab.experiment.problems import Problems, listed
from iolab.experiment.product import every_level
from iolab.experiment.site import Site
from iolab.frozen import frozen

SHARED = ("mtu", "offload")
"""Keys of a link that hold for the cable and for what joins it to a machine on a host; the others are the cable's."""
LONGEST_NAME = 15
"""Of a link: it becomes part of interface names [characters]."""


@frozen
class Split:
    """One link of the lab on the site."""

    name: str
    """Of the link, which stays that of the cable."""
    cable: tuple[str, ...]
    """Ends of the cable, as host.interface."""
    inner: Mapping[str, tuple[str, ...]]
    """Name of a link within a host to its ends, the host's interface first."""
    ports: Mapping[str, str]
    """Ends of the lab's link that are a host's own, to the interface that they are there."""
    shaped: str | None
    """The link that has the shaped port; None: no port is shaped."""

    @property
    def names(self) -> tuple[str, ...]:
        """All links that it becomes."""
        return (self.name, *self.inner)

    def ends_of(self, name: str) -> tuple[str, ...]:
        """Return the ends whose addresses one of its links gives."""
        return self.cable if name == self.name else self.inner[name][1:]

    def holders(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the links that a key of the lab's link belongs to; none where the site decides it."""
        key = words[0]
        if key in ("ends", "cable"):
            return ()
        if key in SHARED:
            return self.names
        if key == "shape":
            return (self.shaped or self.name,)
        if key == "addresses":
            port = self.ports.get(words[1], words[1]) if len(words) > 1 else None
            return tuple(name for name in self.names if port is None or port in self.ends_of(name))
        return (self.name,)

    def sections(self, data: Mapping[str, Any]) -> Iterator[tuple[str, Table]]:
        """Give the links that the lab's link becomes; in the data its ports are named as on the site."""
        for name in self.names:
            own = {key: value for key, value in data.items() if name in self.holders((key,))}
            if isinstance(addresses := own.get("addresses"), Mapping):
                own["addresses"] = Table(
                    {port: value for port, value in addresses.items() if port in self.ends_of(name)}
                )
            ends = self.cable if name == self.name else self.inner[name]
            section = Table({"ends": Items(ends), **own}, line=getattr(data, "line", 0))
            if name == self.name:
                section["cable"] = True
            section.lines |= getattr(data, "lines", {})
            section.texts |= getattr(data, "texts", {})
            yield name, section


def split_links(experiment: Experiment, places: Places, site: Site, problems: Problems) -> dict[str, Split]:
    """Return what the links with a cable become; what does not fit is noted."""
    found: dict[str, Split] = {}
    taken = set(places.names("links"))
    for name in site.cables:
        values = [
            data
            for link, data in values_of(experiment, "links")
            if link == name and isinstance(data, Mapping)
        ]
        split = _split(experiment, site, name, values, taken, problems)
        if split is not None:
            found[name] = split
            taken |= set(split.names)
    return found


def values_of(experiment: Experiment, group: str) -> Iterator[tuple[str, Any]]:
    """Give every value that a section of the lab has as a whole: in the base document, and by levels."""
    lab = experiment.tree["lab"]
    assert isinstance(lab, Mapping)
    yield from (lab.get(group) or {}).items()
    for level in every_level(experiment.factors):
        yield from _set_whole(level, group)


def _set_whole(level: Level, group: str) -> Iterator[tuple[str, Any]]:
    for path, value in level.sets.items():
        head, _, name = path.partition(".")
        if head == group and "." not in name:
            yield name, value


def _split(
    experiment: Experiment, site: Site, name: str, values: list[Any], taken: set[str], problems: Problems
) -> Split | None:
    """Return what one link becomes."""
    cable = site.cables[name]
    interfaces = {site.host_of_end(end): end for end in cable}
    homes = host_of_machines(experiment, site)
    ports: dict[str, str] = {}
    within: dict[str, dict[str, None]] = {}
    for end in dict.fromkeys(end for data in values for end in data.get("ends", ())):
        machine = PortRef(end).machine
        home = homes.get(machine)
        if home not in interfaces:
            seen = f"{end}, which is on {home or 'this computer'}"
            allowed = f"ends on the hosts that the cable joins: {listed(interfaces)}"
            advice = f"say where {machine} is under `hosts` or `on`, or let the cable end there"
            problems.add(site.line("cables", name), f"placing link {name}", seen, allowed, advice)
        elif machine == home:
            ports[end] = interfaces[home]
        else:
            within.setdefault(home, {})[end] = None
    ends = {_inner_name(name, host, taken): (interfaces[host], *own) for host, own in within.items()}
    shaped = _shaped(experiment, site, name, values, ends, problems)
    if unused := [
        host for host in interfaces if host not in within and interfaces[host] not in ports.values()
    ]:
        allowed = (
            f"hosts that have an end of it ({listed(end for data in values for end in data.get('ends', ()))})"
        )
        problems.add(site.line("cables", name), f"placing link {name}", listed(unused), allowed)
    return Split(name, cable, ends, ports, shaped)


def host_of_machines(experiment: Experiment, site: Site) -> dict[str, str]:
    """Return the host that each machine is, or runs on directly; a machine on a guest is on none."""
    found = {name: name for name in site.hosts} | dict(site.on)
    for name, data in values_of(experiment, "machines"):
        parent = data.get("on") if isinstance(data, Mapping) else None
        if name not in found and parent in site.hosts:
            found[name] = str(parent)
    return found


def _shaped(
    experiment: Experiment,
    site: Site,
    name: str,
    values: list[Any],
    inner: Mapping[str, tuple[str, ...]],
    problems: Problems,
) -> str | None:
    """Return the link that the shaped port is on, which must be one for all levels."""
    shapes = [data.get("shape") for data in values]
    for level in every_level(experiment.factors):
        for path, value in level.sets.items():
            words = path.split(".")
            if words[0] == "links" and words[1:2] in ([name], ["*"]) and words[2:3] == ["shape"]:
                shapes.append(value if len(words) == 3 else {"at": value} if words[3:] == ["at"] else None)
    at = {shape["at"] for shape in shapes if isinstance(shape, Mapping) and isinstance(shape.get("at"), str)}
    holders = {next((link for link, ends in inner.items() if port in ends), name) for port in at}
    if len(holders) > 1:
        seen = f"shapes at {listed(sorted(at))}"
        allowed = "shapes at ports of one kind: a host's own, or those of one host's machines"
        problems.add(site.line("cables", name), f"placing link {name}", seen, allowed)
    return next(iter(holders), None)


def _inner_name(link: str, host: str, taken: set[str]) -> str:
    """Return a name for the link within a host, which no other has."""
    name = f"{link}-{host}"[:LONGEST_NAME]
    number = 1
    while name in taken:
        number += 1
        name = f"{link}-{host}"[: LONGEST_NAME - len(str(number)) - 1] + f"-{number}"
    taken.add(name)
    return name
