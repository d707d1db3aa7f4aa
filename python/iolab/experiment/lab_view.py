"""The lab of one combination of levels, with the lines it was read from; what is wrong in it is noted by place."""

from collections.abc import Iterable, Mapping
from typing import Any

from iolab.experiment.document import line_of
from iolab.experiment.experiment import Lab
from iolab.experiment.port_ref import PortRef
from iolab.experiment.problems import Problems, did_you_mean, listed
from iolab.experiment.sections import Section
from iolab.frozen import frozen

Place = tuple[str | int, ...]
"""Keys and indices that lead to a value in a section."""


@frozen
class View:
    """The lab of one combination, with the lines it was read from."""

    lab: Lab
    """The lab."""
    ports: Mapping[PortRef, str]
    """machine.port to its link."""
    data: Mapping[Section, tuple[Any, int]]
    """Section to its plain data and line."""
    problems: Problems
    """Where all is noted."""

    def add(
        self,
        section: Section,
        place: Place,
        seen: object,
        known: Iterable[str],
        what: str,
    ) -> None:
        """Note a name that leads nowhere."""
        words = list(known)
        doing = "resolving " + ".".join(map(str, (section.place, *place)))
        self.problems.add(
            self.line(section, place), doing, seen, f"{what}: {listed(words)}", did_you_mean(seen, words)
        )

    def say(self, section: Section, place: Place, seen: object, allowed: str, advice: str = "") -> None:
        """Note anything else that is wrong."""
        doing = "resolving " + ".".join(map(str, (section.place, *place)))
        self.problems.add(self.line(section, place), doing, seen, allowed, advice)

    def within(self, section: Section, place: Place, key: str) -> Place:
        """Return the place of a key of what is written at a place; where a short form stands there, that place."""
        data, _ = self.data[section]
        for word in place:
            data = data[word]
        return (*place, key) if isinstance(data, Mapping) else place

    def line(self, section: Section, place: Place) -> int:
        """Return the line of a place in a section, or of what is nearest to it."""
        data, line = self.data[section]
        for word in place:
            line = line_of(data, word, line)
            try:
                data = data[word]
            except (KeyError, IndexError, TypeError):
                break
        return line


def check_place(view: View, section: Section, place: Place, name: str) -> bool:
    """Note a name that is neither a machine nor a port of a link."""
    ref = PortRef(name)
    if name in view.lab.machines or name in view.ports:
        return True
    if ref.port and ref.machine in view.lab.machines:
        view.add(
            section,
            place,
            name,
            (port for port in view.ports if port.machine == ref.machine),
            "a port that a link has",
        )
    else:
        view.add(
            section,
            place,
            name,
            (*view.lab.machines, *view.ports) if ref.port else view.lab.machines,
            "a machine, or a machine.port that a link has",
        )
    return False
