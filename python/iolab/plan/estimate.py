"""How long a plan takes: measuring, overhead per trial, and what changing the lab costs."""

from iolab.experiment.measures import DiskMeasure, Forwarding, Latency, LoadCurve, Measure, Stream
from iolab.lab.cost import LAB_CHANGE_NS, PLOT_CHANGE_NS

TRIAL_OVERHEAD_NS = 150_000_000
"""A trial beside its measuring [ns]: read-back twice, two programs started, one record synced."""
SEARCH_TRIALS = 12
"""Trials of a search for a rate: 10 Mpps down to 0.1 % by halving, and a few more (RFC 2544, section 26.1)."""
CURVE_POINTS = 10
"""Points of a load curve."""
DISK_NS = 60_000_000_000
"""A disk program [ns]: hdparm's and bonnie++'s order of magnitude."""


class Estimate:
    """Adds up steps in their order."""

    def __init__(self) -> None:
        self.total_ns = 0
        """Expected duration so far [ns]."""
        self._lab: str | None = None
        self._plot: tuple[str, ...] | None = None

    def add(self, lab_key: str, plot: tuple[str, ...], measuring_ns: int) -> None:
        """Add a step, and the change from the one before."""
        if plot != self._plot:
            self.total_ns += PLOT_CHANGE_NS
        elif lab_key != self._lab:
            self.total_ns += LAB_CHANGE_NS
        self._lab, self._plot = lab_key, plot
        self.total_ns += measuring_ns + TRIAL_OVERHEAD_NS


def measuring_ns(measure: Measure) -> int:
    """Return how long measuring takes [ns]."""
    match measure:
        case Stream():
            return measure.duration + measure.warm_up
        case Latency():
            return measure.duration
        case Forwarding():
            return SEARCH_TRIALS * measure.trial
        case LoadCurve():
            return CURVE_POINTS * measure.trial
        case DiskMeasure():
            return DISK_NS
