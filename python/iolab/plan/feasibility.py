"""Whether the parts of each cell go together on any host: what planning would refuse, told by file and line."""

from collections.abc import Iterator
from dataclasses import replace

from iolab.errors import InputError, Problem
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Cell, Experiment, Site
from iolab.experiment.factors.product import names, sample
from iolab.experiment.reading.document import line_of
from iolab.lab.hosts.facts import Facts
from iolab.messages.unmet import SiteRefuses, UnmetRequirement
from iolab.plan.support import Support

MOST_CELLS = 1000
"""Cells looked at while checking, every level in one of them at least; planning looks at all."""


def check_cells(experiment: Experiment) -> None:
    """Check that machines, links and measures go together in the cells of an experiment.

    On a site those that do not are left out: `left_out` tells which.

    Raises:
        InputError: they do not; every problem is listed once.
    """
    if experiment.site is not None:
        return
    resolver = resolver_of(experiment)
    support = Support(resolver, ANY_HOST)
    found = [
        problem
        for cell in sample(experiment, names(experiment.factors), MOST_CELLS)
        for measure in resolver.measures
        if resolver.measure_key(cell, measure)
        for problem in _problems(support, experiment, cell, measure)
    ]
    if found:
        raise InputError(tuple(dict.fromkeys(found)))


def left_out(experiment: Experiment) -> dict[UnmetRequirement, Cell]:
    """Return why cells cannot be on the site of an experiment, whatever its hosts are; each reason with one cell."""
    if experiment.site is None:
        return {}
    resolver = resolver_of(experiment)
    support = Support(resolver, ANY_HOST)
    found: dict[UnmetRequirement, Cell] = {}
    for cell in sample(experiment, names(experiment.factors), MOST_CELLS):
        for measure in resolver.measures:
            try:
                reason = support.misplaced(cell)
                if reason is None and resolver.measure_key(cell, measure):
                    support.reason(cell, measure)
            except InputError as error:
                reason = refused(error, experiment.site)
            if reason is not None:
                found.setdefault(reason, cell)
    return found


def located(error: InputError, experiment: Experiment, measure: str) -> InputError:
    """Return what is wrong with a lab or measure, with file and line before its place in the document."""
    return InputError([_located(problem, experiment, measure) for problem in error.problems])


def refused(error: InputError, site: Site) -> UnmetRequirement:
    """Return what keeps parts of a lab, which go together elsewhere, from doing so on a site."""
    told = (f"{problem.doing}: {problem.seen}; it needs {problem.allowed}" for problem in error.problems)
    return SiteRefuses(site=site.source, problems=tuple(told))


def _problems(support: Support, experiment: Experiment, cell: Cell, measure: str) -> Iterator[Problem]:
    try:
        support.reason(cell, measure)
    except InputError as error:
        yield from located(error, experiment, measure).problems


def _located(problem: Problem, experiment: Experiment, measure: str) -> Problem:
    if problem.where.startswith(experiment.source):
        return problem
    place = problem.where if problem.where.startswith("lab") else f"measure.{measure}"
    holder: object = experiment.tree
    line = 0
    for word in place.split("."):
        line = line_of(holder, word, line)
        holder = holder.get(word) if isinstance(holder, dict) else None
    return replace(problem, where=f"{experiment.source}:{line or 1}", doing=f"{problem.doing} of {place}")


ANY_HOST = Facts(
    hostname="", kernel="", architecture="", os="", cpu_model="", cpus=1, memory_bytes=0, clocksource="",
    load_1min_milli=0,
)  # fmt: skip
"""Stands for a host of which nothing is known: what does not go together does so nowhere."""
