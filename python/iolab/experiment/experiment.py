"""The frozen Experiment: what the file means, before anything is decided."""

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import wraps
from typing import Any, Literal, Protocol, TypeVar, cast

from iolab.experiment.links import Link, Volume
from iolab.experiment.machines import Machine
from iolab.experiment.measures import Measure
from iolab.experiment.paths import Target
from iolab.experiment.site import Site
from iolab.frozen import frozen
from iolab.messages.unmet import UnmetRequirement

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
