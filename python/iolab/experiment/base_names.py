"""Names in the base document that lead nowhere, told even while other mistakes keep its cells from being resolved.

Once a file resolves, `references` checks the same and more, in every cell.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from iolab.experiment.document import line_of
from iolab.experiment.port_ref import PortRef
from iolab.experiment.problems import Problems, did_you_mean, listed

ENDS = ("from", "to", "on")
"""Keys of a measure that name a machine, or machine.port."""


def check_plain_names(tree: Mapping[str, Any], added: Iterable[str], problems: Problems) -> None:
    """Note machines that are named in the base document but are neither in it nor `added` by a level."""
    machines = dict.fromkeys([*(tree["lab"].get("machines") or ()), *added])
    if not machines:
        return
    for place, value, line in _named(tree):
        machine = PortRef(value).machine
        if machine not in machines:
            problems.add(
                line,
                f"resolving {place}",
                value,
                f"a machine: {listed(machines)}",
                did_you_mean(machine, list(machines)),
            )


def _named(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield (place, text, line) of everything that should name a machine."""
    for name, link in _tables(tree["lab"].get("links")):
        ends = link.get("ends")
        for index, end in enumerate(ends if isinstance(ends, list) else ()):
            if isinstance(end, str):
                yield f"lab.links.{name}.ends.{index}", end, line_of(ends, index, line_of(link, "ends", 0))
    for name, measure in _tables(tree["measure"]):
        yield from _ends(f"measure.{name}", measure, ENDS)
        flows = measure.get("flows")
        for index, flow in enumerate(flows if isinstance(flows, list) else ()):
            if isinstance(flow, Mapping):
                yield from _ends(f"measure.{name}.flows.{index}", flow, ENDS[:2])


def _ends(place: str, table: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, str, int]]:
    for key in keys:
        if isinstance(table.get(key), str):
            yield f"{place}.{key}", table[key], line_of(table, key, 0)


def _tables(group: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(group, Mapping):
        yield from ((name, table) for name, table in group.items() if isinstance(table, Mapping))
