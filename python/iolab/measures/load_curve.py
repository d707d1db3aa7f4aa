"""Load curve: rate, loss, latency and CPU against offered load."""

from typing import TYPE_CHECKING

from iolab.experiment.measures import LoadCurve
from iolab.lab.packets.frames import fps_of
from iolab.lab.packets.needs import check_packets
from iolab.lab.topology import Topology
from iolab.measures.packets import LOAD_OVERHEAD_NS, packet_kind
from iolab.parts.searches import FAST_NS

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.lab_access import Site
    from iolab.trial.measurement import Measured


def _measure(site: "Site", measure: LoadCurve) -> "Measured":
    from iolab.trial.packets.load_curve import measure_load_curve

    return measure_load_curve(site, measure)


def _duration_ns(measure: LoadCurve) -> int:
    search_ns = FAST_NS if measure.rate is None else 0
    return search_ns + len(measure.steps) * (measure.trial + LOAD_OVERHEAD_NS)


def _check(measure: LoadCurve, lab: "Lab", topology: Topology) -> None:
    """Check its way and its rate. Raises InputError."""
    check_packets(measure, lab, topology)
    if measure.rate is not None:
        fps_of(measure.rate, measure, "rate")


LOAD_CURVE = packet_kind(
    LoadCurve,
    duration_ns=_duration_ns,
    measure=_measure,
    check=_check,
    leading=("forwarded_fps",),
)
