"""Latency: of every frame, one way, at a given rate."""

from typing import TYPE_CHECKING

from iolab.experiment.measures import Latency
from iolab.lab.packets.frames import fps_of
from iolab.lab.packets.needs import check_packets, packet_needs
from iolab.lab.topology import Topology
from iolab.measures.packets import NAMED_BY, check_names, commands
from iolab.parts.rows import MeasureKind

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.measured import Measured
    from iolab.trial.site import Site


def _measure(site: "Site", measure: Latency) -> "Measured":
    from iolab.trial.latency import measure_latency

    return measure_latency(site, measure)


def _check(measure: Latency, lab: "Lab", topology: Topology) -> None:
    """Check its way and its rate. Raises InputError."""
    check_packets(measure, lab, topology)
    fps_of(measure.rate, measure, "rate")


LATENCY = MeasureKind(
    model=Latency,
    duration_ns=lambda measure: measure.duration,
    measure=_measure,
    check_names=check_names,
    named_by=NAMED_BY,
    needs=packet_needs,
    check=_check,
    commands=commands,
    leading=("latency_p50_ns",),
)
