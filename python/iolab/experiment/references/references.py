"""Check names in the base document, even if other errors prevent its cells from being resolved.

When a file resolves, `check_references` repeats these checks and makes further checks, in every cell.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from iolab.errors import InputError
from iolab.experiment.experiment import Cell, Experiment, Section
from iolab.experiment.factors.product import Completion, sample
from iolab.experiment.factors.resolve import Resolver, resolver_of
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.reading.document import line_of
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.experiment.references.lab_references import check_lab
from iolab.experiment.references.view import View, check_measure
from iolab.experiment.references.volume_references import idle_volumes, used_volumes, volume_troubles
from iolab.locale import Phrase
from iolab.registry.registry import measure_kinds

ENDS = ("from", "to", "on")
"""Keys of a measure that name a machine, or machine.port."""


def check_plain_names(tree: Mapping[str, Any], added: Iterable[str], problems: Problems) -> None:
    """Report machine names in the base document that neither the document nor a level (`added`) defines."""
    machines = dict.fromkeys([*(tree["lab"].get("machines") or ()), *added])
    if not machines:
        return
    for place, value, line in _named(tree):
        machine = PortRef(value).machine
        if machine not in machines:
            problems.add(
                line,
                Phrase("check.resolving", place=place),
                value,
                Phrase("check.a-machine-of", machines=listed(machines)),
                did_you_mean(machine, list(machines)),
            )


def _named(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield (place, text, line) of every value that should name a machine."""
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


MOVES = {
    "machines": frozenset({"kind", "on", "disks", "count"}),
    "links": frozenset(
        {"ends", "shape", "addresses", "over", "tunnel", "bond", "hash", "join", "mode", "ip"}
    ),
    "volumes": frozenset({"on", "export"}),
}
"""Keys whose values name other sections, by group of the lab."""

OF_MEASURES = frozenset({"kind", "watch", "instruments"})
"""Keys of every measure whose values contain names; each kind adds further keys."""

MOST_WORK = 30_000
"""Maximum number of sections that the reference check resolves, over all combinations."""


def check_references(experiment: Experiment, problems: Problems) -> None:
    """Report every unresolved reference in any cell."""
    resolver = resolver_of(experiment)
    lab = [section for section in resolver.sections if section.group != "measure"]
    moving = {name for section in lab for name in resolver.factors_of(section, MOVES[section.group])}
    complete = Completion(experiment.factors)
    limit = max(10, MOST_WORK // (len(lab) + 1) // (len(resolver.measures) + 1))
    found = (_view(resolver, complete(cell), lab, problems) for cell in sample(experiment, moving, limit))
    seen = [view for view in found if view is not None]
    used = used_volumes(view.lab for view in seen)
    for one in seen:
        check_lab(one)
        for trouble in (*volume_troubles(one.lab), *idle_volumes(one.lab, used)):
            one.say(trouble.section, trouble.place, trouble.seen, trouble.allowed, trouble.advice)
    if problems:
        return
    views: dict[tuple[str | None, ...], View | None] = {}
    order = sorted(moving)
    names = OF_MEASURES.union(*(kind.named_by for kind in measure_kinds().values()))
    for measure in (*resolver.together, *resolver.measures):
        section = Section("measure", measure)
        for cell in sample(experiment, {*moving, *resolver.factors_of(section, names)}, limit):
            whole = complete(cell)
            at = tuple(whole.get(name) for name in order)
            if at not in views:
                views[at] = _view(resolver, whole, lab, problems)
            view = views[at]
            if view is not None:
                check_measure(view, resolver, section, whole)


def _view(resolver: Resolver, cell: Cell, lab: list[Section], problems: Problems) -> View | None:
    try:
        setup = resolver.written(cell)
    except InputError:
        return None  # the section check reported the problem, or `only` excludes such cells
    data = {}
    for section in lab:
        variant = resolver.variant(section, cell)
        if variant.data is not None:
            data[section] = (variant.data, variant.line)
    ports = {end: name for name, link in setup.lab.links.items() for end in link.ends}
    return View(setup.lab, ports, data, problems)
