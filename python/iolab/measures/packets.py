"""What the rows of all kinds that send frames of our own have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from iolab.experiment.lab_view import Place, View
from iolab.experiment.measure_references import check_any_cpus, check_pair
from iolab.experiment.measures import Packets
from iolab.experiment.port_ref import PortRef
from iolab.experiment.sections import Section
from iolab.lab.packets.needs import packet_needs
from iolab.lab.topology import Topology
from iolab.parts.rows import MeasureKind, ShortForm

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.lab_access import Site
    from iolab.trial.measurement import Measured

P = TypeVar("P", bound=Packets)

NO_SHORT_FORMS: Mapping[str, ShortForm] = {}
_NAMED_BY = frozenset({"from", "to", "pairs"})
"""Keys that hold names of machines and ports."""
LOAD_OVERHEAD_NS = 50_000_000
"""A load trial beside its sending [ns]: counters twice, threads started, the drained barrier."""


def _check_names(view: View, section: Section, measure: Packets) -> None:
    """Note every name in a measure that leads nowhere."""
    ends: list[tuple[Place, str, str]] = [((), measure.src, measure.dst)]
    ends += [(("pairs", index), pair.src, pair.dst) for index, pair in enumerate(measure.pairs)]
    for place, source, target in ends:
        check_pair(view, section, place, "from", source, target)
        check_any_cpus(view, section, (*place, "from"), PortRef(source).machine)
        check_any_cpus(view, section, (*place, "to"), PortRef(target).machine)


def _commands(_: Packets, __: Topology) -> Sequence[str]:
    """Return what stands for the commands of a measure that runs none."""
    return ("# measured by frames of the agent itself",)


def _with_looks(check: "Callable[[P, Lab, Topology], None]") -> "Callable[[P, Lab, Topology], None]":
    """Return a check of a measure that also checks the watches and captures beside it."""

    def checked(measure: P, lab: "Lab", topology: Topology) -> None:
        check(measure, lab, topology)
        if measure.watch or measure.capture or measure.instruments:
            from iolab.trial.instruments.watch import check_looking_on

            check_looking_on(measure, lab, topology)

    return checked


def packet_kind(
    model: type[P],
    *,
    duration_ns: Callable[[P], int],
    measure: "Callable[[Site, P], Measured]",
    check: "Callable[[P, Lab, Topology], None]",
    leading: tuple[str, ...],
    short_forms: Mapping[str, ShortForm] = NO_SHORT_FORMS,
) -> MeasureKind[P]:
    """Return the row of a kind that sends frames of our own."""
    return MeasureKind(
        model=model,
        duration_ns=duration_ns,
        measure=measure,
        check_names=_check_names,
        named_by=_NAMED_BY,
        needs=packet_needs,
        check=_with_looks(check),
        commands=_commands,
        leading=leading,
        short_forms=short_forms,
    )
