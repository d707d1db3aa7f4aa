"""The lab of one combination of levels with its line numbers, and functions that report problems in it by place."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from iolab.errors import InputError
from iolab.experiment.experiment import Cell, Lab, Section
from iolab.experiment.factors.resolve import Resolver
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.reading.document import line_of
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.frozen import frozen
from iolab.locale import Phrase, Text
from iolab.registry.registry import instrument_kinds, measure_kinds

Place = tuple[str | int, ...]
"""Keys and indices that lead to a value in a section."""


@frozen
class View:
    """The lab of one combination of levels, with the line numbers of its sections."""

    lab: Lab
    """The lab."""
    ports: Mapping[PortRef, str]
    """Name of the link of each port, by machine.port."""
    data: Mapping[Section, tuple[Any, int]]
    """Plain data and first line of each section."""
    problems: Problems
    """Collection to which problems are added."""

    def add(
        self,
        section: Section,
        place: Place,
        seen: object,
        known: Iterable[str],
        what: Text,
    ) -> None:
        """Report an unresolved name."""
        words = list(known)
        doing = Phrase("check.resolving", place=".".join(map(str, (section.place, *place))))
        self.problems.add(
            self.line(section, place),
            doing,
            seen,
            Phrase("check.one-of-names", what=what, names=listed(words)),
            did_you_mean(seen, words),
        )

    def say(self, section: Section, place: Place, seen: object, allowed: Text, advice: Text = "") -> None:
        """Report a problem other than an unresolved name."""
        doing = Phrase("check.resolving", place=".".join(map(str, (section.place, *place))))
        self.problems.add(self.line(section, place), doing, seen, allowed, advice)

    def within(self, section: Section, place: Place, key: str) -> Place:
        """Return the place of a key in the mapping at a place; if a short form is written there, return the place of
        the mapping."""
        data, _ = self.data[section]
        for word in place:
            data = data[word]
        return (*place, key) if isinstance(data, Mapping) else place

    def line(self, section: Section, place: Place) -> int:
        """Return the line of a place in a section, or of its closest existing parent."""
        data, line = self.data[section]
        for word in place:
            line = line_of(data, word, line)
            try:
                data = data[word]
            except (KeyError, IndexError, TypeError):
                break
        return line


def check_place(view: View, section: Section, place: Place, name: str) -> bool:
    """Report a name that is neither a machine nor a port of a link; return whether it is valid."""
    ref = PortRef(name)
    if name in view.lab.machines or name in view.ports:
        return True
    if ref.port and ref.machine in view.lab.machines:
        view.add(
            section,
            place,
            name,
            (port for port in view.ports if port.machine == ref.machine),
            Phrase("check.port-of-some-link"),
        )
    else:
        view.add(
            section,
            place,
            name,
            (*view.lab.machines, *view.ports) if ref.port else view.lab.machines,
            Phrase("check.machine-or-linked-port"),
        )
    return False


def check_measure(view: View, resolver: Resolver, section: Section, cell: Cell) -> None:
    """Report every unresolved name in a measure."""
    try:
        measure = resolver.model(section, cell)
        variant = resolver.variant(section, cell)
    except InputError:
        return
    assert isinstance(measure, Measure)
    view = replace(view, data={**view.data, section: (variant.data, variant.line)})
    for key, found in (
        ("watch", measure.watch),
        ("capture", measure.capture),
        ("instruments", measure.instruments),
    ):
        for index, one in enumerate(found):
            instrument_kinds()[one.kind].check_names(view, section, (key, index), one)
    _check_looks(view, section, measure)
    _check_looks_at_once(view, resolver, section, measure, cell)
    _check_together(view, resolver, section, measure)
    measure_kinds()[measure.kind].check_names(view, section, measure)


def _check_looks_at_once(
    view: View, resolver: Resolver, section: Section, measure: Measure, cell: Cell
) -> None:
    """Report a link that two parallel measures both watch, or both capture."""
    companions = resolver.companions(section.name)
    for part in companions[: companions.index(section.name)]:
        try:
            other = resolver.model(Section("measure", part), cell)
        except InputError:
            continue  # the check of that section reports the problem
        looks: Mapping[str, tuple[Sequence[_Looks], Sequence[_Looks]]] = (
            {"watch": (measure.watch, other.watch), "capture": (measure.capture, other.capture)}
            if isinstance(other, Measure)
            else {}
        )
        for key, (own, others) in looks.items():
            taken = {_link_of(view, one.at) for one in others} - {None}
            for index, one in enumerate(own):
                if (link := _link_of(view, one.at)) in taken:
                    place = view.within(section, (key, index), "at")
                    view.say(
                        section,
                        place,
                        Phrase("check.at-once", at=one.at, part=part),
                        Phrase("check.one-of-link", key=key, link=link),
                    )


def _check_together(view: View, resolver: Resolver, section: Section, measure: Measure) -> None:
    """Report problems of measures that run in parallel: of the `together` measure and of its parts."""
    kind = measure_kinds()[measure.kind]
    if (taker := resolver.taken_by(section.name)) and kind.parts is None and kind.as_part is None:
        kinds = [one.name for one in measure_kinds().values() if one.as_part is not None]
        allowed = Phrase("check.kind-one-of", kinds=listed(kinds))
        view.say(
            section, ("kind",), Phrase("check.at-once-with-others", kind=measure.kind, taker=taker), allowed
        )
    if kind.parts is None:
        if section.name in resolver.together:
            view.say(section, ("kind",), measure.kind, Phrase("check.same-kind-in-all-cells"))
        return
    parts = kind.parts(measure)
    if section.name not in resolver.together or any(
        part in resolver.measures and part not in resolver.together[section.name] for part in parts
    ):
        allowed = Phrase("check.same-measures-in-all-cells")
        view.say(section, ("of",), Phrase("errors.listed", items=[*parts]), allowed)
        return
    for part in parts:
        if part in resolver.together:
            view.say(
                section,
                ("of", part),
                Phrase("check.takes-measures-itself", part=part),
                Phrase("check.measure-with-figures-of-own"),
            )
        elif part not in resolver.measures:
            view.add(section, ("of", part), part, resolver.measures, Phrase("check.a-measure"))
        elif (other := resolver.taken_by(part)) != section.name:
            view.say(
                section,
                ("of", part),
                Phrase("check.takes-already", part=part, other=other),
                Phrase("check.measure-of-this-list"),
            )


class _Looks(Protocol):
    """An instrument on a port or a link."""

    @property
    def at(self) -> str:
        """The observed port or link."""
        ...


def _check_looks(view: View, section: Section, measure: Measure) -> None:
    """Report a second watch or capture of the same object in one measure: the figures of both would have equal
    names."""
    looks: Mapping[str, Sequence[_Looks]] = {"watch": measure.watch, "capture": measure.capture}
    for key, found in looks.items():
        for index, one in enumerate(found):
            link = _link_of(view, one.at)
            before = [other.at for other in found[:index] if link and _link_of(view, other.at) == link]
            whole = link is not None and (key == "watch" and len(view.lab.links[link].ends) == 2)
            if any(whole or at in (one.at, link) or one.at == link for at in before):
                place = view.within(section, (key, index), "at")
                view.say(
                    section,
                    place,
                    Phrase("check.value-and-earlier-value", at=one.at, before=before[0]),
                    Phrase("check.one-of-link", key=key, link=link),
                )


def _link_of(view: View, at: str) -> str | None:
    """Return the link of a name, which is a link or a port; None: the name does not resolve."""
    if at in view.lab.links:
        return at
    return next((name for name, link in view.lab.links.items() if at in link.ends), None)


def check_machine(view: View, section: Section, place: Place, name: str) -> None:
    """Report a name that is not a machine."""
    if name not in view.lab.machines:
        view.add(section, place, name, view.lab.machines, Phrase("check.a-machine"))


def check_any_cpus(view: View, section: Section, place: Place, machine: str) -> None:
    """Report a machine with `program_cpus` in a measure whose program does not use them."""
    found = view.lab.machines.get(machine)
    if found is not None and found.kind == "netns" and found.program_cpus:
        allowed = Phrase("check.machines-without-program-cpus")
        view.say(section, place, Phrase("check.has-program-cpus", machine=machine), allowed)


def check_pair(view: View, section: Section, place: Place, key: str, source: str, target: str) -> None:
    """Report problems of a sender and a receiver; `key` is the sender's key."""
    if not all(
        [
            check_place(view, section, (*place, key), source),
            check_place(view, section, (*place, "to"), target),
        ]
    ):
        return
    for word, name in ((key, source), ("to", target)):
        if not PortRef(name).port and not any(port.machine == name for port in view.ports):
            view.say(
                section,
                (*place, word),
                Phrase("check.no-link-reaches", name=name),
                Phrase("check.machine-on-some-link"),
            )
            return
    if source == target:
        view.say(
            section,
            (*place, "to"),
            Phrase("check.to-itself", name=target),
            Phrase("check.two-different-machines-or-ports"),
        )
