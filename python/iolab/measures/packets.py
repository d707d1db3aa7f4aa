"""What the rows of all kinds that send frames of our own have in common."""

from collections.abc import Sequence

from iolab.experiment.lab_view import View
from iolab.experiment.measure_references import check_pair
from iolab.experiment.measures import Packets
from iolab.experiment.sections import Section
from iolab.lab.topology import Topology

NAMED_BY = frozenset({"from", "to", "pairs"})
"""Keys that hold names of machines and ports."""
LOAD_OVERHEAD_NS = 50_000_000
"""A load trial beside its sending [ns]: counters twice, threads started, the drained barrier."""


def check_names(view: View, section: Section, measure: Packets) -> None:
    """Note every name in a measure that leads nowhere."""
    check_pair(view, section, (), "from", measure.src, measure.dst)
    for index, pair in enumerate(measure.pairs):
        check_pair(view, section, ("pairs", index), "from", pair.src, pair.dst)


def commands(_: Packets, __: Topology) -> Sequence[str]:
    """Return what stands for the commands of a measure that runs none."""
    return ("# measured by frames of the agent itself",)
