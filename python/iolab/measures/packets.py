"""Rows of the kinds with generated frames (forwarding, load curve, latency), and their common functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Section
from iolab.experiment.model.packets import Forwarding, Latency, LoadCurve, Packets
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.references.view import Place, View, check_any_cpus, check_pair
from iolab.lab.packets.frames import fps_of, given_fps
from iolab.lab.requirements.part_needs import check_packets, packet_needs
from iolab.lab.topology import Topology
from iolab.locale import Phrase, Text
from iolab.registry.rows import Later, MeasureKind, ShortForm
from iolab.registry.searches import FAST_NS, SEARCHES

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.lab_access import Site
    from iolab.trial.measurement import Measured

P = TypeVar("P", bound=Packets)

NO_SHORT_FORMS: Mapping[str, ShortForm] = {}
_NAMED_BY = frozenset({"from", "to", "pairs"})
"""Keys that contain names of machines and ports."""
LOAD_OVERHEAD_NS = 50_000_000
"""Overhead of a load trial [ns]: two counter readings, thread starts, the wait for frames in transit."""


def _check_names(view: View, section: Section, measure: Packets) -> None:
    """Report every unresolved name in a measure."""
    ends: list[tuple[Place, str, str]] = [((), measure.src, measure.dst)]
    ends += [(("pairs", index), pair.src, pair.dst) for index, pair in enumerate(measure.pairs)]
    for place, source, target in ends:
        check_pair(view, section, place, "from", source, target)
        check_any_cpus(view, section, (*place, "from"), PortRef(source).machine)
        check_any_cpus(view, section, (*place, "to"), PortRef(target).machine)


def _commands(_: Packets, __: Topology) -> Sequence[Text]:
    """Return a description in place of commands, because the measure runs no command."""
    return (Phrase("measures.agent-sends-frames"),)


def _with_looks(check: "Callable[[P, Lab, Topology], None]") -> "Callable[[P, Lab, Topology], None]":
    """Return the check of a measure, extended to its watches and captures."""

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
    """Return the row of a kind with generated frames."""
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


def _forwarding_ns(measure: Forwarding) -> int:
    trial_ns = measure.trial + LOAD_OVERHEAD_NS
    search_ns = SEARCHES[measure.search].duration_ns(trial_ns, measure.trials)
    return min(search_ns, measure.limit) + len(measure.latency_at) * trial_ns


def _check_forwarding(measure: Forwarding, lab: "Lab", topology: Topology) -> None:
    """Check the search and the path. Raises InputError."""
    if not SEARCHES[measure.search].zero_loss and measure.loss_ratio == 0:
        able = [name for name, row in SEARCHES.items() if row.zero_loss]
        seen = Phrase("measures.zero-loss-with-search", search=measure.search)
        allowed = Phrase("measures.loss-above-zero", search=measure.search)
        advice = Phrase("measures.take-able-search", searches=able)
        raise InputError([Problem("measure", Phrase("measures.planning-search"), seen, allowed, advice)])
    check_packets(measure, lab, topology)
    if measure.start is not None:
        fps_of(measure.start, measure, "start")


FORWARDING = packet_kind(
    Forwarding,
    duration_ns=_forwarding_ns,
    measure=Later("iolab.trial.packets.forwarding:measure_forwarding"),
    check=_check_forwarding,
    leading=("forwarded_fps",),
    short_forms={"forwarding": ShortForm(device=True)},
)


def _load_curve_ns(measure: LoadCurve) -> int:
    search_ns = FAST_NS if measure.rate is None else 0
    return search_ns + len(measure.steps) * (measure.trial + LOAD_OVERHEAD_NS)


def _check_load_curve(measure: LoadCurve, lab: "Lab", topology: Topology) -> None:
    """Check the path and the rate. Raises InputError."""
    check_packets(measure, lab, topology)
    if measure.rate is not None:
        fps_of(measure.rate, measure, "rate")


LOAD_CURVE = packet_kind(
    LoadCurve,
    duration_ns=_load_curve_ns,
    measure=Later("iolab.trial.packets.load_curve:measure_load_curve"),
    check=_check_load_curve,
    leading=("forwarded_fps",),
)


def _check_latency(measure: Latency, lab: "Lab", topology: Topology) -> None:
    """Check the path and the rate. Raises InputError."""
    check_packets(measure, lab, topology)
    given_fps(measure, measure.rate)


LATENCY = packet_kind(
    Latency,
    duration_ns=lambda measure: measure.duration,
    measure=Later("iolab.trial.packets.load_curve:measure_latency"),
    check=_check_latency,
    leading=("latency_p50_ns",),
)
