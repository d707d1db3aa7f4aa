"""Place an experiment on a site: its machines become hosts or run on hosts, its links become cables.

The experiment keeps its factors and comparisons.

A link between two hosts becomes the cable between them. If an end is on a guest or namespace of a host, a second link
joins the end to the cable's interface, and the host bridges both (or uses a macvtap). The paths and values of levels
are adapted. A level that cannot be set on the site is recorded with the reason, and its cells are not measured.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from iolab.experiment.experiment import Experiment, Factor, Lab, Level, Section, Site, Target
from iolab.experiment.factors.paths import Misled, Places, level_paths, survey
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.reading.document import Items, Table
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.experiment.site import Split, split_links, values_of
from iolab.experiment.site_volumes import placed_volume
from iolab.locale import Phrase
from iolab.messages.places import PortOn, computer
from iolab.messages.unmet import (
    SiteHasEnds,
    SiteHasPlace,
    SiteHasVolume,
    SiteLacksCable,
    SiteSetsNothing,
    UnmetRequirement,
)

KEPT = ("forward", "settings", "disks")
"""Machine keys that have the same meaning when the machine becomes a host."""
OF_HOSTS = ("host", "processors")
"""Keys that only a machine of kind host keeps: for other kinds these keys describe the parent, or do not exist."""


def placed(experiment: Experiment, site: Site, problems: Problems) -> Experiment:
    """Return the experiment placed on a site; report conflicts with the line in the site file."""
    places = survey(experiment.tree, level_paths(experiment.factors))
    _check_names(experiment, places, site, problems)
    if problems:
        return experiment
    splits = split_links(experiment, places, site, problems)
    if problems:
        return experiment
    placing = _Placing(experiment, places, site, splits)
    return replace(
        experiment,
        tree=placing.tree(),
        factors=tuple(placing.factor(factor) for factor in experiment.factors),
        scopes=placing.scopes,
        absent=placing.absent,
        site=site,
    )


def uncabled(site: Site, lab: Lab) -> UnmetRequirement | None:
    """Return the reason why a lab cannot be built on a site: a link between two hosts without a cable.

    The result is None if every such link has a cable.
    """
    for name, link in lab.links.items():
        homes = {end: _home(lab, PortRef(end).machine) for end in link.ends}
        if link.cable or link.over or len(set(homes.values())) == 1 or _to_children(lab, link.ends):
            continue
        ends = tuple(PortOn(code="site-end", port=end, host=computer(home)) for end, home in homes.items())
        hosts = tuple(home or "HOST" for home in dict.fromkeys(homes.values()))
        return SiteLacksCable(site=site.source, link=name, ends=ends, hosts=hosts)
    return None


def _home(lab: Lab, machine: str) -> str | None:
    """Return the host, or the guest with nested guests, that a machine runs on; None: the local host."""
    found = lab.machines[machine]
    if found.kind == "host":
        return machine if found.ssh is not None else None
    return None if found.on is None else _home(lab, found.on)


def _to_children(lab: Lab, ends: Iterable[str]) -> bool:
    """Whether a link joins a port of a machine to machines that run on the same machine."""
    machines = {PortRef(end).machine for end in ends}
    return any(all(lab.machines[one].on == name for one in machines - {name}) for name in machines)


def _check_names(experiment: Experiment, places: Places, site: Site, problems: Problems) -> None:
    """Report names in a site that the lab does not have, and hosts without machines."""
    machines, links = places.names("machines"), places.names("links")
    for name in site.on:
        if name not in machines:
            near = did_you_mean(name, machines)
            problems.add(
                site.line("on", name),
                Phrase("check.placing-name", name=name),
                name,
                Phrase("check.a-machine-of", machines=listed(machines)),
                near,
            )
    for name in site.cables:
        if name not in links:
            near = did_you_mean(name, links)
            problems.add(
                site.line("cables", name),
                Phrase("check.placing-name", name=name),
                name,
                Phrase("check.a-link-of", links=listed(links)),
                near,
            )
    volumes = places.names("volumes")
    for name in site.volumes:
        if name not in volumes:
            problems.add(
                site.line("volumes", name),
                Phrase("check.placing-name", name=name),
                name,
                Phrase("check.a-volume-of", volumes=listed(volumes)),
                did_you_mean(name, volumes),
            )
    taken = {*links, *places.names("volumes"), *places.names("measure")}
    for name in site.hosts:
        line, doing = site.line("hosts", name), Phrase("check.placing-name", name=name)
        if name not in machines and name not in site.on.values():
            allowed = Phrase("check.machine-of-lab-or-host", machines=listed(machines))
            problems.add(
                line, doing, Phrase("check.nothing-is-on", name=name), allowed, did_you_mean(name, machines)
            )
        if name in taken:
            problems.add(line, doing, name, Phrase("check.name-of-machine-alone"))
    _check_kinds(experiment, site, problems)


def _check_kinds(experiment: Experiment, site: Site, problems: Problems) -> None:
    """Report machines whose kind does not allow their placement on the site."""
    for name, data in values_of(experiment, "machines"):
        if not isinstance(data, Mapping):
            continue
        if name in site.hosts and data.get("forward") == "xdp":
            advice = Phrase("check.make-it-run-on-host", name=name)
            problems.add(
                site.line("hosts", name),
                Phrase("check.placing-name", name=name),
                "forward: xdp",
                Phrase("check.kind-that-runs-on-host"),
                advice,
            )
        if name in site.on and data.get("kind") == "host":
            seen, allowed = Phrase("check.machine-of-kind-host"), Phrase("check.namespace-or-virtual-machine")
            problems.add(
                site.line("on", name),
                Phrase("check.placing-name", name=name),
                seen,
                allowed,
                Phrase("check.name-under-hosts"),
            )


class _Placing:
    """Places the parts of one experiment on a site."""

    def __init__(
        self, experiment: Experiment, places: Places, site: Site, splits: Mapping[str, Split]
    ) -> None:
        self._experiment = experiment
        self._places = places
        self._site = site
        self._splits = splits
        self._ports = {old: new for split in splits.values() for old, new in split.ports.items()}
        self.scopes: dict[str, tuple[Target, ...]] = {}
        self.absent: dict[str, dict[str, UnmetRequirement]] = {}

    def tree(self) -> dict[str, Any]:
        """Return the base document as placed on the site."""
        lab = self._experiment.tree["lab"]
        assert isinstance(lab, Table)
        whole = _like(lab, {})
        for group, content in lab.items():
            whole[group] = _like(content, dict(self._sections(group, content)))
        machines = whole["machines"]
        new = {
            name: self._host(name, {})
            for name in self._site.hosts
            if name not in self._places.names("machines")
        }
        whole["machines"] = _like(machines, {**new, **machines})
        return {"lab": whole, "measure": self._renamed(self._experiment.tree["measure"])}

    def factor(self, factor: Factor) -> Factor:
        """Return a factor as placed on the site; levels that cannot be set there are recorded."""
        return Factor(factor.name, tuple(self._level(factor.name, level) for level in factor.levels))

    def _level(self, factor: str, level: Level) -> Level:
        sets = Table()
        for path, value in level.sets.items():
            line = getattr(level.sets, "lines", {}).get(path, 0)
            reason, changes = self._change(path, value)
            if reason:
                self.absent.setdefault(factor, {}).setdefault(level.label, reason)
            for place, content in changes.items():
                sets[place] = content
                sets.lines[place] = line
        return replace(level, sets=sets, factors=tuple(self.factor(inner) for inner in level.factors))

    def _change(self, path: str, value: Any) -> tuple[UnmetRequirement | None, dict[str, Any]]:
        """Return a path and its value on the site; if nothing remains of the path, return the reason."""
        targets = self._places.targets(path)
        assert not isinstance(targets, Misled), "the experiment was checked"
        whole = [target for target in targets if not target.words]
        if whole and "*" not in path:
            return None, {
                f"{target.section.group}.{name}": data
                for target in whole
                for name, data in self._sections(target.section.group, {target.section.name: value})
            }
        moved = [one for target in targets for one in self._moved(target)]
        if not moved:
            return self._why_absent(path, targets[0]), {}
        if "*" in path.split("."):
            self.scopes[path] = tuple(moved)
            return None, {path: self._renamed(value)}
        return None, {_path(one): self._part(one, value) for one in moved}

    def _moved(self, target: Target) -> Iterator[Target]:
        """Yield the places on the site that correspond to a place in the lab."""
        section, words = target
        if not words:
            yield target
        elif section.group == "volumes" and section.name in self._site.volumes:
            return
        elif section.group == "machines":
            yield from self._moved_in_machine(section, words)
        elif section.group == "links" and section.name in self._splits:
            for name in self._splits[section.name].holders(words):
                yield Target(Section("links", name), self._words(words))
        else:
            yield Target(section, self._words(words))

    def _moved_in_machine(self, section: Section, words: tuple[str, ...]) -> Iterator[Target]:
        name, kinds = (
            section.name,
            {data.get("kind") for data in self._values(section) if isinstance(data, Mapping)},
        )
        if name in self._site.hosts:
            if words[0] in KEPT or (words[0] in OF_HOSTS and kinds == {"host"}):
                yield Target(section, self._words(words, name))
        elif not (name in self._site.on and words[0] == "on"):
            yield Target(section, self._words(words, name))

    def _values(self, section: Section) -> list[Any]:
        return [data for name, data in values_of(self._experiment, section.group) if name == section.name]

    def _why_absent(self, path: str, target: Target) -> UnmetRequirement:
        name, site = target.section.name, self._site
        if target.section.group == "volumes":
            return SiteHasVolume(path=path, site=site.source, volume=name)
        if target.section.group == "links":
            return SiteHasEnds(path=path, site=site.source, link=name)
        if name in site.on:
            return SiteHasPlace(path=path, site=site.source, machine=name, host=site.on[name])
        return SiteSetsNothing(path=path, machine=name, host=computer(site.hosts[name]), key=target.words[0])

    def _part(self, target: Target, value: Any) -> Any:
        """Return the part of a value for one part of a split link: only the addresses of its ends."""
        renamed = self._renamed(value)
        if (
            target.section.group == "links"
            and target.words == ("addresses",)
            and isinstance(renamed, Mapping)
        ):
            owner = next(split for split in self._splits.values() if target.section.name in split.names)
            ends = owner.ends_of(target.section.name)
            return _like(renamed, {port: address for port, address in renamed.items() if port in ends})
        return renamed

    def _sections(self, group: str, content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the sections of a group as they are on the site."""
        for name, data in content.items():
            if not isinstance(data, Mapping):  # no data: a level removes the section
                yield from ((each, data) for each in self._names(group, name))
            elif group == "machines" and name in self._site.hosts:
                yield name, self._host(name, data)
            elif group == "machines" and name in self._site.on:
                yield name, _like(data, {**self._settled(name, data), "on": self._site.on[name]})
            elif group == "volumes" and name in self._site.volumes:
                yield name, placed_volume(self._renamed(data), self._site.volumes[name])
            elif group == "links" and name in self._splits:
                yield from self._splits[name].sections(self._renamed(data))
            else:
                yield name, self._settled(name, data) if group == "machines" else self._renamed(data)

    def _names(self, group: str, name: str) -> tuple[str, ...]:
        return self._splits[name].names if group == "links" and name in self._splits else (name,)

    def _host(self, name: str, data: Mapping[str, Any]) -> Table:
        place = self._site.hosts[name]
        kept = (*KEPT, *OF_HOSTS) if data.get("kind") == "host" else KEPT
        settled = self._settled(name, data)
        found = {"kind": "host", **({"ssh": place} if place else {})}
        return _like(settled, found | {key: settled[key] for key in kept if key in settled})

    def _settled(self, name: str, data: Mapping[str, Any]) -> Table:
        """Return a machine whose sysctl settings use the site's interface names."""
        renamed = self._renamed(data)
        if isinstance(settings := renamed.get("settings"), Mapping):
            told = {self._setting(key, name): value for key, value in settings.items()}
            renamed = _like(renamed, {**renamed, "settings": _like(settings, told)})
        return renamed if isinstance(renamed, Table) else _like(renamed, renamed)

    def _words(self, words: tuple[str, ...], machine: str | None = None) -> tuple[str, ...]:
        if machine is not None and words[0] == "settings" and len(words) > 1:
            return ("settings", self._setting(words[1], machine))
        return tuple(self._ports.get(word, word) for word in words)

    def _setting(self, key: str, machine: str) -> str:
        """Return a sysctl name with the site's interface names; dots in these names become slashes (sysctl(8))."""
        names = {
            PortRef(old).port.replace(".", "/"): PortRef(new).port.replace(".", "/")
            for old, new in self._ports.items()
            if old.startswith(f"{machine}.")
        }
        return ".".join(names.get(part, part) for part in key.split("."))

    def _renamed(self, value: Any) -> Any:
        """Return a value in which the site's ports replace the lab's ports, in keys too."""
        if isinstance(value, Mapping):
            return _like(
                value,
                {self._ports.get(str(key), str(key)): self._renamed(part) for key, part in value.items()},
                self._ports,
            )
        if isinstance(value, list):
            items = Items([self._renamed(part) for part in value], line=getattr(value, "line", 0))
            items.lines |= getattr(value, "lines", {})
            items.texts |= getattr(value, "texts", {})
            return items
        return self._ports.get(value, value) if isinstance(value, str) else value


def _path(target: Target) -> str:
    section, words = target
    group = () if section.group == "measure" else (section.group,)
    return ".".join((*group, section.name, *words))


def _like(table: Any, content: Mapping[str, Any], renamed: Mapping[str, str] | None = None) -> Table:
    """Return content as a table with the line numbers of a given table."""
    made = Table(content, line=getattr(table, "line", 0))
    made.lines |= {(renamed or {}).get(key, key): line for key, line in getattr(table, "lines", {}).items()}
    made.texts |= getattr(table, "texts", {})
    return made
