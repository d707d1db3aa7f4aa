"""Latency: of every frame, one way, at a given rate."""

from typing import TYPE_CHECKING

from iolab.experiment.measures import Latency
from iolab.lab.packets.frames import given_fps
from iolab.lab.packets.needs import check_packets
from iolab.lab.topology import Topology
from iolab.measures.packets import packet_kind

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.lab_access import Site
    from iolab.trial.measurement import Measured


def _measure(site: "Site", measure: Latency) -> "Measured":
    from iolab.trial.packets.latency import measure_latency

    return measure_latency(site, measure)


def _check(measure: Latency, lab: "Lab", topology: Topology) -> None:
    """Check its way and its rate. Raises InputError."""
    check_packets(measure, lab, topology)
    given_fps(measure, measure.rate)


LATENCY = packet_kind(
    Latency,
    duration_ns=lambda measure: measure.duration,
    measure=_measure,
    check=_check,
    leading=("latency_p50_ns",),
)
