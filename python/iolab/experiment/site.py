"""A site: the hosts of a lab's machines, and the cables of its links. A site changes only names.

A site is the key `site` of an experiment, or a separate small file that is named on the command line.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from iolab.experiment.experiment import Experiment, Level, Site
from iolab.experiment.factors.paths import Places
from iolab.experiment.factors.product import every_level
from iolab.experiment.model.machines import destination
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.reading.document import Items, Table, line_of
from iolab.experiment.reading.problems import Problems, compact, did_you_mean, is_port, listed, name_problem
from iolab.experiment.site_volumes import read_volumes, written_value
from iolab.frozen import frozen
from iolab.locale import Phrase
from iolab.units import UnitError

KEYS = ("hosts", "on", "cables", "volumes")

END_ALLOWED = Phrase("check.interface-of-listed-host")


def read_site(table: object, line: int, problems: Problems, within: str = "site") -> Site | None:
    """Return the site in a table, or report problems and return None. `placement` checks whether a site fits a lab."""
    before = len(problems)
    doing = Phrase("check.reading", place=within)
    if not isinstance(table, Table):
        problems.add(line, doing, table, Phrase("check.mapping-with-keys", keys=listed(KEYS)))
        return None
    for key in table:
        if key not in KEYS:
            near = did_you_mean(key, KEYS)
            problems.add(
                table.lines[key],
                doing,
                Phrase("check.the-key", key=key),
                Phrase("check.the-keys", keys=listed(KEYS)),
                near,
            )
    parts = {key: _mapping(table, key, within, problems) for key in KEYS}
    hosts = {name: _place(parts["hosts"], name, within, problems) for name in parts["hosts"]}
    if not hosts and len(problems) == before:
        problems.add(table.line or line, doing, Phrase("check.no-hosts"), Phrase("check.write-hosts"))
    on = {name: _host(parts["on"], name, hosts, within, problems) for name in parts["on"]}
    cables = {name: _ends(parts["cables"], name, hosts, within, problems) for name in parts["cables"]}
    _check_ends(cables, parts["cables"], within, problems)
    volumes = read_volumes(parts["volumes"], within, problems)
    if len(problems) > before:
        return None
    lines = {(key, name): parts[key].lines[name] for key in KEYS for name in parts[key]}
    return Site(hosts, on, cables, problems.source, lines, volumes)


def written_site(site: Site) -> str:
    """Return a site as the text of the key `site`, for the end of an experiment file."""
    hosts = {name: place or "none" for name, place in site.hosts.items()}
    cables = {name: list(ends) for name, ends in site.cables.items()}
    parts: dict[str, Mapping[str, object]] = {"hosts": hosts, "on": dict(site.on), "cables": cables}
    lines = [f"  {key}: {_quoted(part)}" for key, part in parts.items() if part]
    if site.volumes:
        lines.append(f"  volumes: {written_value(site.volumes)}")
    return "\n".join([str(Phrase("check.where-it-ran", source=site.source)), "site:", *lines]) + "\n"


def _quoted(part: Mapping[str, object]) -> str:
    """Return a mapping in YAML's flow style, on one line; ssh destinations are quoted."""
    items = (
        f"{name}: {compact(value, 10_000) if isinstance(value, list) else _text(str(value))}"
        for name, value in part.items()
    )
    return "{" + ", ".join(items) + "}"


def _text(value: str) -> str:
    return value if value.replace("-", "").isalnum() and value.isascii() else f'"{value}"'


def _mapping(table: Table, key: str, within: str, problems: Problems) -> Table:
    value = table.get(key)
    if isinstance(value, Table):
        return value
    if value is not None:
        problems.add(
            line_of(table, key),
            Phrase("check.reading-part", place=within, part=key),
            value,
            Phrase("check.mapping-of-names"),
        )
    return Table()


def _place(hosts: Table, name: str, within: str, problems: Problems) -> str | None:
    """Return the ssh destination of a host; None: the local host."""
    doing, line, value = Phrase("check.reading-host", place=within, host=name), hosts.lines[name], hosts[name]
    if wrong := name_problem(name, short=True):
        problems.add(line, doing, name, wrong)
    if value is None or value == "none":
        return None
    try:
        return destination(value) if isinstance(value, str) else _no_place(value)
    except UnitError as error:
        problems.add(line, doing, value, Phrase("check.allowed-or-none", allowed=error.allowed), error.advice)
        return None


def _no_place(value: object) -> str:
    raise UnitError(str(value), Phrase("check.ssh-destination"))


def _host(on: Table, name: str, hosts: Mapping[str, object], within: str, problems: Problems) -> str:
    """Return the host on which a machine runs."""
    value = on[name]
    if value not in hosts:
        doing = Phrase("check.reading-on-machine", place=within, machine=name)
        problems.add(
            on.lines[name],
            doing,
            value,
            Phrase("check.one-of-hosts", hosts=listed(hosts)),
            did_you_mean(value, hosts),
        )
    if name in hosts:
        seen = Phrase("check.host-of-site-itself", name=name)
        problems.add(
            on.lines[name],
            Phrase("check.reading-on", place=within),
            seen,
            Phrase("check.machine-runs-on-host"),
        )
    return str(value)


def _ends(
    cables: Table, name: str, hosts: Mapping[str, object], within: str, problems: Problems
) -> tuple[str, ...]:
    """Return the ends of a cable."""
    doing, value = Phrase("check.reading-cable", place=within, link=name), cables[name]
    line = cables.lines[name]
    if not isinstance(value, Items) or len(value) < 2:
        problems.add(line, doing, value, Phrase("check.list-of-two-or-more", item=END_ALLOWED))
        return ()
    for end in value:
        ref = PortRef(end if isinstance(end, str) else "")
        if ref.machine not in hosts or not is_port(ref.port):
            near = did_you_mean(ref.machine, hosts) if ref.port else ""
            problems.add(line, doing, end, END_ALLOWED, near)
    return tuple(map(str, value))


def _check_ends(cables: Mapping[str, tuple[str, ...]], table: Table, within: str, problems: Problems) -> None:
    """Report an interface at which two cables end, and a cable with two ends on one host."""
    taken: dict[str, str] = {}
    for name, ends in cables.items():
        doing = Phrase("check.reading-cable", place=within, link=name)
        names = [PortRef(end).machine for end in ends]
        if len(set(names)) < len(names):
            problems.add(table.lines[name], doing, list(ends), Phrase("check.ends-at-different-hosts"))
        for end in ends:
            if taken.setdefault(end, name) != name:
                problems.add(
                    table.lines[name],
                    doing,
                    end,
                    Phrase("check.interface-of-own-ends-there", taken=taken[end]),
                )


SHARED = ("mtu", "offload")
"""Link keys that apply both to the cable and to the links within hosts; other keys apply to one of them."""

LONGEST_NAME = 15
"""Maximum length of a link name, which becomes part of interface names [characters]."""


@frozen
class Split:
    """The parts of one lab link on the site."""

    name: str
    """Name of the lab link, which the cable keeps."""
    cable: tuple[str, ...]
    """Ends of the cable, as host.interface."""
    inner: Mapping[str, tuple[str, ...]]
    """Ends of each link within a host, by the link's name, the host's interface first."""
    ports: Mapping[str, str]
    """Interface on the site, by end of the lab link, for the ends that are ports of a host."""
    shaped: str | None
    """The link with the shaped port; None: no port is shaped."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parts."""
        return (self.name, *self.inner)

    def ends_of(self, name: str) -> tuple[str, ...]:
        """Return the ends of the lab link whose addresses belong to a part."""
        return self.cable if name == self.name else self.inner[name][1:]

    def holders(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the parts to which a key of the lab link belongs; empty if the site determines the key."""
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
        """Yield the parts with their data, in which ports have their names on the site."""
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
    """Return the parts of all links with a cable; report conflicts."""
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
    """Yield every complete value of a section of the lab: in the base document, and in levels."""
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
    """Return the parts of one link."""
    cable = site.cables[name]
    interfaces = {site.host_of_end(end): end for end in cable}
    homes = host_of_machines(experiment, site)
    ports: dict[str, str] = {}
    within: dict[str, dict[str, None]] = {}
    for end in dict.fromkeys(end for data in values for end in data.get("ends", ())):
        machine = PortRef(end).machine
        home = homes.get(machine)
        if home not in interfaces:
            seen = Phrase("check.end-is-on", end=end, host=home or Phrase("check.this-computer"))
            allowed = Phrase("check.ends-on-cabled-hosts", interfaces=listed(interfaces))
            advice = Phrase("check.say-where-machine-is", machine=machine)
            problems.add(
                site.line("cables", name), Phrase("check.placing-link", name=name), seen, allowed, advice
            )
        elif machine == home:
            ports[end] = interfaces[home]
        else:
            within.setdefault(home, {})[end] = None
    ends = {_inner_name(name, host, taken): (interfaces[host], *own) for host, own in within.items()}
    shaped = _shaped(experiment, site, name, values, ends, problems)
    if unused := [
        host for host in interfaces if host not in within and interfaces[host] not in ports.values()
    ]:
        allowed = Phrase(
            "check.hosts-with-an-end", values=listed(end for data in values for end in data.get("ends", ()))
        )
        problems.add(
            site.line("cables", name), Phrase("check.placing-link", name=name), listed(unused), allowed
        )
    return Split(name, cable, ends, ports, shaped)


def host_of_machines(experiment: Experiment, site: Site) -> dict[str, str]:
    """Return, for each machine, the host that it is, or on which it runs directly; nested guests are omitted."""
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
    """Return the link with the shaped port, which must be the same for all levels."""
    shapes = [data.get("shape") for data in values]
    for level in every_level(experiment.factors):
        for path, value in level.sets.items():
            words = path.split(".")
            if words[0] == "links" and words[1:2] in ([name], ["*"]) and words[2:3] == ["shape"]:
                shapes.append(value if len(words) == 3 else {"at": value} if words[3:] == ["at"] else None)
    at = {shape["at"] for shape in shapes if isinstance(shape, Mapping) and isinstance(shape.get("at"), str)}
    holders = {next((link for link, ends in inner.items() if port in ends), name) for port in at}
    if len(holders) > 1:
        seen = Phrase("check.shapes-at", ports=listed(sorted(at)))
        allowed = Phrase("check.ports-of-one-kind")
        problems.add(site.line("cables", name), Phrase("check.placing-link", name=name), seen, allowed)
    return next(iter(holders), None)


def _inner_name(link: str, host: str, taken: set[str]) -> str:
    """Return an unused name for a link within a host."""
    name = f"{link}-{host}"[:LONGEST_NAME]
    number = 1
    while name in taken:
        number += 1
        name = f"{link}-{host}"[: LONGEST_NAME - len(str(number)) - 1] + f"-{number}"
    taken.add(name)
    return name
