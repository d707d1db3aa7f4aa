"""The frozen Experiment: what the file means, before anything is decided; the lab of a cell; its site."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import wraps
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

from iolab.experiment.model.links import Link, Volume
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.quantities import PortRef
from iolab.frozen import frozen
from iolab.messages.unmet import UnmetRequirement


class Section(NamedTuple):
    """Names a section."""

    group: str
    """machines, links, volumes or measure."""
    name: str
    """As written."""

    def __str__(self) -> str:
        return self.name if self.group == "measure" else f"{self.group}.{self.name}"

    @property
    def place(self) -> str:
        """Where it stands in the document."""
        return f"measure.{self.name}" if self.group == "measure" else f"lab.{self.group}.{self.name}"


class Target(NamedTuple):
    """One place that a path names."""

    section: Section
    """In this section."""
    words: tuple[str, ...]
    """Keys from its top; `*` stands for every key there; empty: the whole section."""


@frozen
class Site:
    """Hosts, what runs on them, and the cables between them."""

    hosts: Mapping[str, str | None]
    """Name to where it is reached by ssh (None: this computer). A machine of the lab that has the name is this host."""
    on: Mapping[str, str]
    """Machine of the lab to the host that it runs on."""
    cables: Mapping[str, tuple[str, ...]]
    """Link of the lab to the cable that carries it between hosts, as host.interface of each end."""
    source: str
    """The file's name, for messages."""
    lines: Mapping[tuple[str, str], int]
    """Key and name to the line in that file."""

    def line(self, key: str, name: str) -> int:
        """Return the line of an entry."""
        return self.lines.get((key, name), 0)

    def host_of_end(self, end: str) -> str:
        """Return the host of a cable's end."""
        return PortRef(end).machine


Question = TypeVar("Question", bound=Callable[..., Any])

Cell = Mapping[str, str]
"""Factor name to level label; a sub-factor is absent where its level is not chosen."""


class _Asked(Protocol):
    """What questions are asked about."""

    answers: dict[object, Any]


def answered_once(question: Question) -> Question:
    """Return a pure function that computes each answer once per subject, its first argument.

    Planning asks each question about a lab up to a hundred times. Arguments must be hashable, answers immutable.
    """

    @wraps(question)
    def answer(subject: _Asked, *arguments: object) -> object:
        key = (question, *arguments)
        if key not in subject.answers:
            subject.answers[key] = question(subject, *arguments)
        return subject.answers[key]

    return cast(Question, answer)


@frozen
class Lab:
    """Machines, links and volumes of one cell."""

    machines: Mapping[str, Machine]
    """By name."""
    links: Mapping[str, Link]
    """By name."""
    volumes: Mapping[str, Volume]
    """By name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names of links and ports with nothing of their own, to what they stand for."""
    answers: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Kept by `answered_once`. `replace` begins with none."""


@frozen
class Setup:
    """One cell, resolved: the lab that must stand and what is measured in it."""

    lab: Lab
    """The lab."""
    measures: Mapping[str, Measure]
    """By name."""


@frozen
class Level:
    """One value of a factor."""

    label: str
    """As shown to people."""
    sets: Mapping[str, object]
    """Dotted path to the tree that replaces the value there."""
    factors: "tuple[Factor, ...]" = ()
    """Sub-factors, which exist only under this level."""


@frozen
class Factor:
    """Something that is varied: a dotted path, or a name whose levels set several paths."""

    name: str
    """The key in the file."""
    levels: tuple[Level, ...]
    """In the order written."""


Selector = Mapping[str, tuple[str, ...]]
"""Factor name to the level labels it accepts; all entries must hold."""


Statistic = Literal["mean", "min", "max", "median"]
"""What several figures are summed up by."""


@frozen
class LevelRatio:
    """A ratio between two levels of a factor."""

    factor: str
    """Its name."""
    above: str
    """Label of the level whose figure is divided."""
    below: str
    """Label of the level whose figure it is divided by."""


@frozen
class Summary:
    """What is shown over the levels of a factor, all other levels being the same."""

    over: str
    """Name of the factor."""
    show: tuple[Statistic, ...] = ("mean", "min", "max")
    """Of its levels in one block."""
    ratios: tuple[LevelRatio, ...] = ()
    """Of each of these figures, between two levels of another factor."""


@frozen(kw_only=True)
class Experiment:
    """An experiment file that passed every check."""

    title: str
    """One line for people."""
    tree: Mapping[str, Any]
    """The base document (lab, measure), as plain data: levels are applied to it."""
    factors: tuple[Factor, ...]
    """In the order written."""
    only: tuple[Selector, ...] = ()
    """Where given, a cell must match one of these."""
    excluded: tuple[Selector, ...] = ()
    """A cell that matches one of these is left out."""
    quick: tuple[Selector, ...] = ()
    """What a quick run measures: a cell that matches one of these."""
    baseline: Mapping[str, str]
    """Factor name to the label that others are compared with."""
    summaries: tuple[Summary, ...] = ()
    """What is shown over the levels of a factor; nothing that is measured depends on it."""
    blocks: int
    """How often every cell is measured."""
    seed: int
    """Of the order of trials."""
    text: str
    """The file as it was read."""
    source: str
    """The file's name, for messages."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What the files hold that it names, by name."""
    stored: bool = False
    """Whether it is that of a run: what was read when it was measured still is."""
    site: Site | None = None
    """Where its machines are, where that is said apart from the lab; the tree and the factors are as they are there."""
    scopes: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    """Path with a `*` to the places that it names, where a site has added others."""
    absent: Mapping[str, Mapping[str, UnmetRequirement]] = field(default_factory=dict)
    """Factor and label to why the site has no such level."""
    answers: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Kept by `answered_once`: its resolver. `replace` begins with none."""


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
