"""Names that refer to other sections (machines, ports, links, volumes): that they exist, in every cell.

A lab is checked once per combination of the factors that move names, a measure once per combination of those and its
own. What one section says alone is checked elsewhere.
"""

from iolab.errors import InputError
from iolab.experiment.experiment import Cell, Experiment
from iolab.experiment.lab_references import check_lab
from iolab.experiment.lab_view import View
from iolab.experiment.measure_references import check_measure
from iolab.experiment.problems import Problems
from iolab.experiment.product import Completion, sample
from iolab.experiment.resolve import Resolver, resolver_of
from iolab.experiment.sections import Section
from iolab.experiment.volumes import idle_volumes, used_volumes, volume_troubles
from iolab.registry.registry import measure_kinds

MOVES = {
    "machines": frozenset({"kind", "on", "disks", "count"}),
    "links": frozenset(
        {"ends", "shape", "addresses", "over", "tunnel", "bond", "hash", "join", "mode", "ip"}
    ),
    "volumes": frozenset({"on", "export"}),
}
"""Keys of each group of the lab that hold names of other sections."""
OF_MEASURES = frozenset({"kind", "watch", "instruments"})
"""The same of every measure; each kind has its own beside them."""
MOST_WORK = 30_000
"""Sections looked at while checking references, all combinations together."""


def check_references(experiment: Experiment, problems: Problems) -> None:
    """Note every reference that leads nowhere, in any cell."""
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
        return None  # its own section told what is wrong, or `only` leaves such cells out
    data = {}
    for section in lab:
        variant = resolver.variant(section, cell)
        if variant.data is not None:
            data[section] = (variant.data, variant.line)
    ports = {end: name for name, link in setup.lab.links.items() for end in link.ends}
    return View(setup.lab, ports, data, problems)
