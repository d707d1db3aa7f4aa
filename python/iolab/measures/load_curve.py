"""Load curve: rate, loss, latency and CPU against offered load."""

from typing import TYPE_CHECKING

from iolab.experiment.measures import LoadCurve
from iolab.lab.packets.frames import fps_of
from iolab.lab.packets.needs import check_packets, packet_needs
from iolab.lab.topology import Topology
from iolab.measures.packets import LOAD_OVERHEAD_NS, NAMED_BY, check_names, commands
from iolab.parts.rows import MeasureKind
from iolab.parts.searches import FAST_NS

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.measured import Measured
    from iolab.trial.site import Site


def _measure(site: "Site", measure: LoadCurve) -> "Measured":
    from iolab.trial.load_curve import measure_load_curve

    return measure_load_curve(site, measure)


def _duration_ns(measure: LoadCurve) -> int:
    search_ns = FAST_NS if measure.rate is None else 0
    return search_ns + len(measure.steps) * (measure.trial + LOAD_OVERHEAD_NS)


def _check(measure: LoadCurve, lab: "Lab", topology: Topology) -> None:
    """Check its way and its rate. Raises InputError."""
    check_packets(measure, lab, topology)
    if measure.rate is not None:
        fps_of(measure.rate, measure, "rate")


LOAD_CURVE = MeasureKind(
    model=LoadCurve,
    duration_ns=_duration_ns,
    measure=_measure,
    check_names=check_names,
    named_by=NAMED_BY,
    needs=packet_needs,
    check=_check,
    commands=commands,
    leading=("forwarded_fps",),
)
