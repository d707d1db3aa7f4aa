"""Check which measures can run in which cells on this host, and report combinations that are invalid on any host.

Requirements are checked once per distinct part, not once per cell.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from pydantic import BaseModel

from iolab.errors import InputError, Problem
from iolab.experiment import Resolver, resolver_of
from iolab.experiment.experiment import Cell, Experiment, Lab, Section, Site
from iolab.experiment.factors.product import names, sample
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Host, Machine, Netns, Vm
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.volumes import Volume
from iolab.experiment.placement import uncabled
from iolab.experiment.reading.document import line_of
from iolab.frozen import frozen
from iolab.lab.hosts.facts import Facts
from iolab.lab.links.wires import wire_memory
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Wanted, lacking, together
from iolab.lab.requirements.part_needs import check_ways, link_needs, machine_needs, measure_needs
from iolab.lab.topology import topology_of
from iolab.lab.volumes.needs import volume_needs
from iolab.locale import Phrase
from iolab.messages.unmet import NotSupported, SiteRefuses, UnmetRequirement
from iolab.plan.durations import span_ns
from iolab.registry.registry import measure_kinds

MOST_CELLS = 1000
"""Maximum number of cells to check, with every level in at least one of them; planning checks all cells."""
ANY_HOST = Facts(
    hostname="", kernel="", architecture="", os="", cpu_model="", cpus=1, memory_bytes=0, clocksource="",
    load_1min_milli=0,
)  # fmt: skip
"""Facts of an unknown host, for finding combinations that are invalid on every host."""


@frozen
class _Part:
    """A section as resolved in one cell."""

    lacks: tuple[UnmetRequirement, ...]
    """Unmet requirements of the section alone."""
    ends: int
    """Number that identifies the section's ends, the properties that determine its resources and the paths through
    it."""
    shape: int
    """Number that identifies the section's shape: its ends and all other properties that affect the joint requirements
    of a lab."""


@frozen
class _Joined:
    """Joint result for the parts of a lab."""

    lacks: tuple[UnmetRequirement, ...]
    """Unmet requirements of the single parts and of their combination."""
    reason: UnmetRequirement | None
    """Unmet requirements combined into one; None if there are none."""
    ends: tuple[int, ...]
    """Numbers that identify the ends of the parts, which determine the paths through the lab."""
    lab: Lab | None
    """A lab whose parts have these ends; None if a part is not supported on any host."""


class Support:
    """Checks of one experiment on one host, with a cache of checked parts.

    The joint requirements of a lab depend only on its connections, its *shape*, not on offloads or delays. The paths
    through it depend on its *ends* alone, because changes of a running machine do not open or close a path.
    """

    def __init__(self, resolver: Resolver, facts: Facts) -> None:
        self._resolver = resolver
        self._facts = facts
        self._lab_sections = [section for section in resolver.sections if section.group != "measure"]
        self._parts: dict[tuple[Section, tuple[str | None, ...]], _Part] = {}
        self._numbers: dict[str, int] = {}
        self._labs: dict[tuple[str | None, ...], _Joined] = {}
        self._together: dict[tuple[int, ...], tuple[UnmetRequirement, ...]] = {}
        self._composed: dict[tuple[int, ...], Lab] = {}
        self._cabled: dict[str, UnmetRequirement | None] = {}
        self._measured: dict[tuple[str, tuple[str | None, ...]], tuple[str, int]] = {}
        self._ways: dict[tuple[tuple[int, ...], int], tuple[UnmetRequirement, ...]] = {}

    def reason(self, cell: Cell, measure: str) -> UnmetRequirement | None:
        """Return the reason why a measure cannot run in a cell; None if the measure can run.

        Raises:
            InputError: the cell is invalid: names or addresses conflict, or no path joins the measure's ends.
        """
        if reason := self.misplaced(cell):
            return reason
        joined = self._joined(cell)
        section = Section("measure", measure)
        own = self._part(section, cell)
        key = (joined.ends, own.ends)
        if joined.lab is not None and key not in self._ways:
            model = cast("Measure", self._resolver.model(section, cell))
            self._ways[key] = self._lacking(check_ways(measure, model, joined.lab, topology_of(joined.lab)))
        found = (*own.lacks, *self._ways.get(key, ()))
        return together((*joined.lacks, *found)) if found else joined.reason

    def misplaced(self, cell: Cell) -> UnmetRequirement | None:
        """Return the reason why a cell cannot run on the site (a missing level or cable); None if the cell can run."""
        site = self._resolver.site
        if site is None or (absent := self._resolver.absent(cell)):
            return None if site is None else absent
        key = self._resolver.lab_key(cell)
        if key not in self._cabled:
            self._cabled[key] = uncabled(site, self._resolver.setup(cell).lab)
        return self._cabled[key]

    def measuring(self, cell: Cell, measure: str) -> tuple[str, int]:
        """Return the kind of a measure in a cell, and its duration [ns].

        Of parallel measures, the first measure gets the total duration, and the others get 0.
        """
        if self._resolver.taken_by(measure):
            setup = self._resolver.setup(cell)
            kind = setup.measures[measure].kind
            return kind, span_ns(setup, measure)
        section = Section("measure", measure)
        at = (measure, tuple([cell.get(name) for name in self._resolver.factors_of(section)]))
        known = self._measured.get(at)
        if known is None:
            model = cast("Measure", self._resolver.model(section, cell))
            known = self._measured[at] = (model.kind, measure_kinds()[model.kind].duration_ns(model))
        return known

    def _lacking(self, found: Iterable[Wanted]) -> tuple[UnmetRequirement, ...]:
        return tuple(filter(None, (lacking(each, self._facts) for each in found)))

    def _part(self, section: Section, cell: Cell) -> _Part:
        """Return a section as resolved in a cell."""
        at = (section, tuple([cell.get(name) for name in self._resolver.factors_of(section)]))
        known = self._parts.get(at)
        if known is None:
            model = self._resolver.model(section, cell)
            ends, more = _shape(model)
            number = self._number(f"{section} {ends!r}")
            shape = self._number(f"{number} {more!r}")
            known = self._parts[at] = _Part(self._lacking(_own_needs(section, model)), number, shape)
        return known

    def _number(self, shape: str) -> int:
        return self._numbers.setdefault(shape, len(self._numbers))

    def _joined(self, cell: Cell) -> _Joined:
        """Return the joint requirements of a cell's lab."""
        at = self._resolver.lab_levels(cell)
        known = self._labs.get(at)
        if known is None:
            parts = [self._part(section, cell) for section in self._lab_sections]
            ends, shape = tuple(part.ends for part in parts), tuple(part.shape for part in parts)
            lacks = tuple(lack for part in parts for lack in part.lacks)
            built = not any(isinstance(each, NotSupported) for each in lacks)
            if built and shape not in self._together:
                self._together[shape] = self._lacking(self._needed(ends, self._resolver.setup(cell).lab))
            lacks += self._together[shape] if built else ()
            known = _Joined(lacks, together(lacks), ends, self._composed[ends] if built else None)
            self._labs[at] = known
        return known

    def _needed(self, ends: tuple[int, ...], lab: Lab) -> tuple[Wanted, ...]:
        """Return the joint requirements of a lab's parts; only one lab per tuple of ends is composed."""
        like = self._composed.get(ends)
        found = lab_needs(lab, None if like is None else topology_of(like))
        self._composed.setdefault(ends, lab)
        return found


def _own_needs(section: Section, model: BaseModel | None) -> tuple[Wanted, ...]:
    match section.group:
        case _ if model is None:
            return ()
        case "machines":
            return machine_needs(section.name, cast("Machine", model))
        case "links":
            return link_needs(section.name, cast("Link", model))
        case "volumes":
            return volume_needs(section.name, cast("Volume", model))
        case _:
            return measure_needs(section.name, cast("Measure", model))


def _shape(model: BaseModel | None) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return two tuples of a section's properties.

    The first tuple determines the section's resources and the paths through it, or the ends of a measure. The second
    tuple has the other properties that affect the joint requirements of a lab.
    """
    match model:
        case Link():
            offloads = (model.offload, model.host_offload)
            joined = (model.ends, model.join, model.mode, model.mtu, model.vlan, model.addresses)
            over = (model.ip, model.over, model.tunnel, model.id, model.bond, model.hash)
            wired = None if model.wire is None else (model.wire.emulator, wire_memory(model))
            return (*joined, *over, model.shape, model.cable, offloads, wired), ()
        case Volume():
            return (model.on, model.export), ()
        case Measure():
            return (model.kind, measure_kinds()[model.kind].joined_by(model)), ()
        case Host() | Netns() | Vm():
            stands = (model.kind, model.on, model.forward, sorted(model.settings), model.disks)
            holds = (model.files, model.run, model.services)
    match model:
        case Host():
            return (*stands, *holds, model.ssh), (model.host, model.processors)
        case Netns():
            return (*stands, *holds, model.ports), (model.program_cpus,)
        case Vm():
            made = (model.engine, model.image, model.nic, model.install)
            held = (model.host, model.queues, model.pin, model.pin_io)
            return (*stands, *holds, *made), (*held, model.cpus, model.memory)
        case None:
            return (), ()
        case _:
            return (type(model).__name__,), ()


def check_cells(experiment: Experiment) -> None:
    """Check that machines, links and measures are compatible in the cells of an experiment.

    On a site, incompatible cells are excluded instead; `left_out` returns them.

    Raises:
        InputError: parts are incompatible; the error lists every problem once.
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
    """Return the reasons why cells cannot run on an experiment's site, independent of its hosts; each reason is
    returned with one cell as an example."""
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
    """Return an error in a lab or measure, with its file and line before its location."""
    return InputError([_located(problem, experiment, measure) for problem in error.problems])


def refused(error: InputError, site: Site) -> UnmetRequirement:
    """Return the reason why parts of a lab that are compatible elsewhere are incompatible on a site."""
    problems = (
        Phrase("plan.problem-on-site", doing=one.doing, seen=one.seen, allowed=one.allowed)
        for one in error.problems
    )
    return SiteRefuses(site=site.source, problems=tuple(map(str, problems)))


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
    doing = Phrase("errors.doing-of-place", doing=problem.doing, place=place)
    return replace(problem, where=f"{experiment.source}:{line or 1}", doing=doing)
