"""Names by which measures refer to machines, ports and links of the lab."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from iolab.errors import InputError
from iolab.experiment.experiment import Cell
from iolab.experiment.lab_view import Place, View, check_place
from iolab.experiment.measures import Measure
from iolab.experiment.port_ref import PortRef
from iolab.experiment.resolve import Resolver
from iolab.experiment.sections import Section
from iolab.parts.registry import instrument_kinds, measure_kinds


def check_measure(view: View, resolver: Resolver, section: Section, cell: Cell) -> None:
    """Note every name in a measure that leads nowhere in this lab."""
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
    measure_kinds()[measure.kind].check_names(view, section, measure)


class _Looks(Protocol):
    """What stands at a port or a link."""

    @property
    def at(self) -> str:
        """Where."""
        ...


def _check_looks(view: View, section: Section, measure: Measure) -> None:
    """Note a second watch, or a second capture, of what one looks at already: neither would be known by its figures."""
    looks: Mapping[str, Sequence[_Looks]] = {"watch": measure.watch, "capture": measure.capture}
    for key, found in looks.items():
        for index, one in enumerate(found):
            link = _link_of(view, one.at)
            before = [other.at for other in found[:index] if link and _link_of(view, other.at) == link]
            whole = link is not None and (key == "watch" and len(view.lab.links[link].ends) == 2)
            if any(whole or at in (one.at, link) or one.at == link for at in before):
                place = view.within(section, (key, index), "at")
                view.say(section, place, f"{one.at} beside {before[0]}", f"one {key} of link {link}")


def _link_of(view: View, at: str) -> str | None:
    """Return the link that a name stands for: its own, or that of a port; None: it leads nowhere."""
    if at in view.lab.links:
        return at
    return next((name for name, link in view.lab.links.items() if at in link.ends), None)


def check_machine(view: View, section: Section, place: Place, name: str) -> None:
    """Note a name that is no machine."""
    if name not in view.lab.machines:
        view.add(section, place, name, view.lab.machines, "a machine")


def check_pair(view: View, section: Section, place: Place, key: str, source: str, target: str) -> None:
    """Note what is wrong with a sender and a receiver, of which the sender is named by `key`."""
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
                f"'{name}', which no link reaches",
                "a machine with a port on some link",
            )
            return
    if source == target:
        view.say(section, (*place, "to"), f"'{target}' to itself", "two different machines or ports")
