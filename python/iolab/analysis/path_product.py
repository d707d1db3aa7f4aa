"""Compute the bandwidth-delay product of the path of a stream, emulated or known. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iolab.errors import IolabError
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Cell, Experiment, Lab, Section
from iolab.plan.types import Plan
from iolab.units import NS_PER_S

WINDOW = "window"
"""Last component of the name of a factor that varies the window size."""


@dataclass(frozen=True, slots=True)
class PathProduct:
    """Rate and delay of a path."""

    rate_bps: int
    """Path rate [bit/s]."""
    one_way_ns: float
    """One-way delay [ns]; for a path known to the user, half of its round-trip time."""
    rtt_ns: int
    """Round-trip delay [ns]."""

    @property
    def one_way_bytes(self) -> float:
        """Return rate x one-way delay: the bytes in transit."""
        return self.rate_bps * self.one_way_ns / (8 * NS_PER_S)

    @property
    def round_trip_bytes(self) -> float:
        """Return rate x round-trip delay: the window that fully uses the path."""
        return self.rate_bps * self.rtt_ns / (8 * NS_PER_S)


def swept_paths(plan: Plan, experiment: Callable[[], Experiment]) -> Mapping[str, PathProduct]:
    """Return the path of each measure whose window is varied, by measure name; `experiment` is called only if there is
    such a measure."""
    swept = [factor.name for factor in plan.factors if factor.name.rpartition(".")[2] == WINDOW]
    if not swept:
        return {}
    known, found = experiment(), {}
    for measure in plan.measures:
        cells = [plan.cell(step) for step in plan.steps if step.measure == measure]
        if any(name in cell for cell in cells for name in swept):
            product = path_product(
                measure, list({tuple(cell.items()): cell for cell in cells}.values()), known
            )
            if product is not None:
                found[measure] = product
    return found


def path_product(measure: str, cells: Sequence[Cell], experiment: Experiment) -> PathProduct | None:
    """Return the path that a measure has in all cells; None if the cells differ, or if no path is emulated or
    known."""
    resolver = resolver_of(experiment)
    found: set[PathProduct | None] = set()
    section = Section("measure", measure)
    for cell in cells:
        try:
            model = resolver.model(section, cell) if section in resolver.sections else None
            lab = resolver.setup(cell).lab
        except IolabError:
            return None
        found.add(_of(lab, getattr(model, "src", None), getattr(model, "dst", None)))
    return found.pop() if len(found) == 1 else None


def _of(lab: Lab, source: str | None, target: str | None) -> PathProduct | None:
    """Return the path between two ends if the lab has exactly one link that is emulated or a cable with a known path,
    and if this link is between the two ends; otherwise None."""
    known = [name for name, link in lab.links.items() if link.wire is not None or link.path is not None]
    if len(known) != 1 or source is None or target is None:
        return None
    link = lab.links[known[0]]
    ends = [end.partition(".")[0] for end in (source, target)]
    before = _reached(lab, ends[0], without=known[0])
    sides = [end for end in link.ends if end.machine in before]
    if ends[1] in before or len(sides) != 1 or len(link.ends) != 2:
        return None
    if link.path is not None:
        return PathProduct(link.path.rate, link.path.rtt / 2, link.path.rtt)
    if link.wire is None:
        return None
    ways = link.wire.ways(link.ends)
    there, rtt_ns = ways[sides[0]], sum(way.delay for way in ways.values())
    if not there.delay or there.rate is None or there.in_frames:
        return None
    return PathProduct(int(there.rate.removesuffix("bit")), there.delay, rtt_ns)


def _reached(lab: Lab, machine: str, *, without: str) -> set[str]:
    """Return the machines that are reachable without using one given link."""
    links = [{end.machine for end in link.ends} for name, link in lab.links.items() if name != without]
    reached, before = {machine}, 0
    while len(reached) > before:
        before = len(reached)
        reached.update(*(ends for ends in links if ends & reached))
    return reached
