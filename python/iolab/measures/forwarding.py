"""Forwarding: the highest rate with acceptable loss, looked for by a search."""

from typing import TYPE_CHECKING

from iolab.errors import InputError, Problem
from iolab.experiment.measures import Forwarding
from iolab.lab.packets.frames import fps_of
from iolab.lab.packets.needs import check_packets
from iolab.lab.topology import Topology
from iolab.measures.packets import LOAD_OVERHEAD_NS, packet_kind
from iolab.parts.rows import ShortForm
from iolab.parts.searches import SEARCHES

if TYPE_CHECKING:
    from iolab.experiment.experiment import Lab
    from iolab.trial.lab_access import Site
    from iolab.trial.measurement import Measured


def _measure(site: "Site", measure: Forwarding) -> "Measured":
    from iolab.trial.packets.forwarding import measure_forwarding

    return measure_forwarding(site, measure)


def _duration_ns(measure: Forwarding) -> int:
    trial_ns = measure.trial + LOAD_OVERHEAD_NS
    search_ns = SEARCHES[measure.search].duration_ns(trial_ns, measure.trials)
    return min(search_ns, measure.limit) + len(measure.latency_at) * trial_ns


def _check(measure: Forwarding, lab: "Lab", topology: Topology) -> None:
    """Check the search and its way. Raises InputError."""
    if not SEARCHES[measure.search].zero_loss and measure.loss_ratio == 0:
        able = " or ".join(name for name, row in SEARCHES.items() if row.zero_loss)
        seen = f"loss_ratio 0 with search: {measure.search}"
        allowed = f"above 0 with {measure.search}, which needs 10/loss_ratio frames"
        advice = f"take search: {able} for zero loss; forwarded_strict_fps of any search tells it as well"
        raise InputError([Problem("measure", "planning a search", seen, allowed, advice)])
    check_packets(measure, lab, topology)
    if measure.start is not None:
        fps_of(measure.start, measure, "start")


FORWARDING = packet_kind(
    Forwarding,
    duration_ns=_duration_ns,
    measure=_measure,
    check=_check,
    leading=("forwarded_fps",),
    short_forms={"forwarding": ShortForm(device=True)},
)
