"""What a path holds: the bandwidth-delay product of the emulated path that a stream crosses. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from iolab.errors import IolabError
from iolab.experiment import Resolver
from iolab.experiment.experiment import Cell, Experiment, Lab
from iolab.experiment.sections import Section

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PathProduct:
    """Rate times delay of a path."""

    one_way_bytes: float
    """By the delay of one way: what is on the line."""
    round_trip_bytes: float
    """By the delay there and back: the window that keeps the line busy."""


def path_product(measure: str, cells: Sequence[Cell], experiment: Experiment) -> PathProduct | None:
    """Return the product that a measure has in all cells; None where they differ, or where no path is emulated."""
    resolver = Resolver(experiment)
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
    """Return the product of the one wire between two ends; with several there is no one number."""
    wired = [name for name, link in lab.links.items() if link.wire is not None]
    if len(wired) != 1 or source is None or target is None:
        return None
    link = lab.links[wired[0]]
    ends = [end.partition(".")[0] for end in (source, target)]
    before = _reached(lab, ends[0], without=wired[0])
    sides = [end for end in link.ends if end.machine in before]
    if link.wire is None or ends[1] in before or len(sides) != 1 or len(link.ends) != 2:
        return None
    ways = link.wire.ways(link.ends)
    there, delay_ns = ways[sides[0]], sum(way.delay for way in ways.values())
    if not there.delay or there.rate is None or there.in_frames:
        return None
    byte_ns = 8 * NS_PER_S / int(there.rate.removesuffix("bit"))
    return PathProduct(there.delay / byte_ns, delay_ns / byte_ns)


def _reached(lab: Lab, machine: str, *, without: str) -> set[str]:
    """Return the machines that can be reached over links other than one."""
    links = [{end.machine for end in link.ends} for name, link in lab.links.items() if name != without]
    reached, before = {machine}, 0
    while len(reached) > before:
        before = len(reached)
        reached.update(*(ends for ends in links if ends & reached))
    return reached
