"""The frozen `Experiment` (the checked content of an experiment file), the lab of a cell, and the site."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import wraps
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.model.volumes import Consents, Volume
from iolab.frozen import frozen
from iolab.messages.unmet import UnmetRequirement


class Section(NamedTuple):
    """The identity of a section: its group and its name."""

    group: str
    """Name of the group: machines, links, volumes or measure."""
    name: str
    """The section name as written in the file."""

    def __str__(self) -> str:
        return self.name if self.group == "measure" else f"{self.group}.{self.name}"

    @property
    def place(self) -> str:
        """Path of the section in the document, such as lab.machines.NAME."""
        return f"measure.{self.name}" if self.group == "measure" else f"lab.{self.group}.{self.name}"


class Target(NamedTuple):
    """One place that a path refers to."""

    section: Section
    """The section that contains the place."""
    words: tuple[str, ...]
    """Keys from the top of the section to the place; `*` stands for every key at that position; empty: the whole
    section."""


@frozen
class Site:
    """Hosts, the machines that run on them, and the cables between them."""

    hosts: Mapping[str, str | None]
    """ssh destination of each host, by host name (None: the local host). A lab machine with the same name is this
    host."""
    on: Mapping[str, str]
    """Host on which each lab machine runs, by the machine's name."""
    cables: Mapping[str, tuple[str, ...]]
    """Cable that carries each lab link between hosts, by the link's name: the host.interface of each end."""
    source: str
    """The site's file name, for messages."""
    lines: Mapping[tuple[str, str], int]
    """Line in the site file of each entry, by key and entry name."""
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Existing device, folder or target that takes the place of a lab volume, by the volume's name, as written."""

    def line(self, key: str, name: str) -> int:
        """Return the line of an entry in the site file."""
        return self.lines.get((key, name), 0)

    def host_of_end(self, end: str) -> str:
        """Return the host name in a cable end."""
        return PortRef(end).machine


Question = TypeVar("Question", bound=Callable[..., Any])

Cell = Mapping[str, str]
"""Level label of each factor, by factor name; a sub-factor is absent if its parent level is not selected."""


class _Asked(Protocol):
    """Type of the object that a cached function takes as its first argument."""

    answers: dict[object, Any]


def answered_once(question: Question) -> Question:
    """Return a pure function whose results are cached in the object that is its first argument.

    Planning calls each of these functions up to a hundred times per lab. All other arguments of the function must be
    hashable, and its results immutable.
    """

    @wraps(question)
    def answer(subject: _Asked, *arguments: object) -> object:
        key = (question, *arguments)
        if key not in subject.answers:
            subject.answers[key] = question(subject, *arguments)
        return subject.answers[key]

    return cast(Question, answer)


TAG_LETTERS = 5


@frozen
class Lab:
    """Machines, links and volumes of one cell."""

    machines: Mapping[str, Machine]
    """Machines by name."""
    links: Mapping[str, Link]
    """Links by name."""
    volumes: Mapping[str, Volume]
    """Volumes by name."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names of the links and ports below plain links, by the name of the plain link (see `is_plain`) or of its port."""
    tag: str = ""
    """Five letters in the names of all objects of the lab, so that two labs do not collide; empty: the names have no
    such letters."""
    consents: Consents = Consents()
    """Existing devices that the user permits to write."""
    answers: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Cache of `answered_once`. `replace` creates an empty cache."""

    @property
    def prefix(self) -> str:
        """Prefix of the names of the lab's namespaces and interfaces on a host."""
        return f"{self.tag or 'iolab'}-"

    @property
    def file_prefix(self) -> str:
        """Prefix of the names of the lab's files on a host."""
        return f"iolab-{self.tag}-" if self.tag else "iolab-"


@frozen
class Setup:
    """One resolved cell: the lab to build, and the measures to run in it."""

    lab: Lab
    """The lab."""
    measures: Mapping[str, Measure]
    """Measures by name."""


@frozen
class Level:
    """One value of a factor."""

    label: str
    """The label in tables and messages."""
    sets: Mapping[str, object]
    """Value that the level sets at each dotted path."""
    factors: "tuple[Factor, ...]" = ()
    """Sub-factors, which exist only under this level."""


@frozen
class Factor:
    """A setting that is varied: a dotted path, or a name whose levels set several paths."""

    name: str
    """The factor's key in the file."""
    levels: tuple[Level, ...]
    """Levels, in file order."""


Selector = Mapping[str, tuple[str, ...]]
"""Accepted level labels of each factor, by factor name; a cell must match all entries."""


Statistic = Literal["mean", "min", "max", "median"]
"""The statistic that summarises several figures."""


@frozen
class LevelRatio:
    """A ratio between two levels of a factor."""

    factor: str
    """Name of the factor."""
    above: str
    """Label of the level in the numerator."""
    below: str
    """Label of the level in the denominator."""


@frozen
class Summary:
    """A summary over the levels of one factor, with all other levels equal."""

    over: str
    """Name of the factor."""
    show: tuple[Statistic, ...] = ("mean", "min", "max")
    """Statistics over the levels of the factor within one block."""
    ratios: tuple[LevelRatio, ...] = ()
    """Ratios of each statistic between two levels of a different factor."""


@frozen(kw_only=True)
class Expectation:
    """A result that the experiment must have; exactly one of bounds, `equivalent` and `verdicts` is given."""

    line: int
    """Line in the experiment file."""
    measure: str
    """Measure name."""
    metric: str | None = None
    """Metric name; None: the leading metric."""
    cells: tuple[Selector, ...] = ()
    """The expectation concerns cells that match one of these selectors; empty: all cells."""
    ratio: LevelRatio | None = None
    """Ratio to which the bounds apply; None: the bounds apply to the metric itself."""
    min: float | None = None
    """Minimum value [unit]."""
    max: float | None = None
    """Maximum value [unit]."""
    unit: str = ""
    """Unit of the bounds; empty: the unit of the metric."""
    equivalent: float | None = None
    """Maximum relative difference of the two levels of `ratio`, for them to count as equivalent [ratio]."""
    verdicts: tuple[str, ...] = ()
    """Codes of the limits that the verdict may have."""


@frozen(kw_only=True)
class Experiment:
    """A checked experiment file."""

    title: str
    """One-line title of the experiment."""
    tree: Mapping[str, Any]
    """The base document (lab and measures) as plain data, to which levels are applied."""
    factors: tuple[Factor, ...]
    """Factors, in file order."""
    only: tuple[Selector, ...] = ()
    """If given, only cells that match one of these selectors are measured."""
    excluded: tuple[Selector, ...] = ()
    """Cells that match one of these selectors are not measured."""
    quick: tuple[Selector, ...] = ()
    """A quick run measures only the cells that match one of these selectors."""
    baseline: Mapping[str, str]
    """The label with which the other labels of a factor are compared, by factor name."""
    summaries: tuple[Summary, ...] = ()
    """Summaries to show over factor levels; they do not change the measurements."""
    expectations: tuple[Expectation, ...] = ()
    """Results that the run must have; they do not change the measurements."""
    margin: float = 0.02
    """Maximum relative difference that counts as equivalent in a gate [ratio]."""
    blocks: int
    """Number of blocks: how often each cell is measured."""
    seed: int
    """Seed of the trial order."""
    text: str
    """The text of the experiment file."""
    source: str
    """The file name, for messages."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Content of the files that the experiment file names, by file name."""
    stored: bool = False
    """Whether the file comes from a run folder: syntax that was valid at the time of the run is still accepted."""
    site: Site | None = None
    """The site on which the experiment is placed, if any; the tree and the factors already have the site's names."""
    scopes: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    """Places that each path with a `*` matched before the site added sections."""
    absent: Mapping[str, Mapping[str, UnmetRequirement]] = field(default_factory=dict)
    """Reason why a level cannot be set on the site, by factor and label."""
    consents: Consents = Consents()
    """Existing devices that the user permits to write; not part of the file."""
    answers: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Cache of `answered_once`, which holds the resolver. `replace` creates an empty cache."""


def is_plain(link: Link) -> bool:
    """Whether a link is plain: over other links, without a tunnel or bond."""
    return bool(link.over) and link.tunnel is None and link.bond is None


def ports_below(links: Mapping[str, Link], link: Link, machine: str) -> tuple[PortRef, ...]:
    """Return the ports of a machine on the links below a link, in the order of these links."""
    below = (links[name].ends for name in link.over if name in links)
    return tuple(end for ends in below for end in ends if end.machine == machine)


def without_plain(lab: Lab) -> Lab:
    """Return the lab without plain links; their names become aliases of the links and ports below."""
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
    """Return the name at the end of a chain of aliases; circular links are reported by the reference check."""
    seen = {name}
    while (name := names[name]) in names and name not in seen:
        seen.add(name)
    return name
