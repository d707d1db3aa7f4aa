"""What a declared line can carry, per cell: the limit that forwarding rates are compared with. Pure."""

from collections.abc import Mapping, Sequence

from iolab.analysis.types import Estimate
from iolab.errors import IolabError
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Section
from iolab.experiment.model.packets import Packets
from iolab.results.dimensions import Quantity

GAP_BYTES = 20
"""Preamble, start of frame and smallest gap between frames (IEEE 802.3) [bytes]."""
_RATES = ("forwarded_fps", "forwarded_bps_l1", "forwarded_bps_l2")


def line_limits(
    estimates: Sequence[Estimate], experiment: Experiment
) -> Mapping[frozenset[tuple[str, str]], float]:
    """Return the highest possible value of a rate per cell, where the measure declares its line rate.

    In the metric's unit, summed over the directions as the metric is.
    """
    if not estimates or estimates[0].metric not in map(Quantity, _RATES):
        return {}
    resolver = resolver_of(experiment)
    section = Section("measure", estimates[0].measure)
    if section not in resolver.sections:
        return {}
    found = {}
    for estimate in estimates:
        try:
            model = resolver.model(section, estimate.cell)
        except IolabError:
            continue
        if isinstance(model, Packets) and model.line_rate is not None:
            limit = _limit(estimate.metric.name, model)
            if limit is not None:
                found[frozenset(estimate.cell.items())] = limit
    return found


def _limit(metric: str, model: Packets) -> float | None:
    """None for a mix of sizes in anything but bits on the line."""
    directions = (2 if model.direction == "both-ways" else 1) * (1 + len(model.pairs))
    line_bps = float(model.line_rate or 0) * directions
    if metric == "forwarded_bps_l1":
        return line_bps
    if not isinstance(model.frame_size, int):
        return None
    frames_per_s = line_bps / (8 * (model.frame_size + GAP_BYTES))
    return frames_per_s if metric == "forwarded_fps" else frames_per_s * 8 * model.frame_size
