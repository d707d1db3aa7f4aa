"""How long a plan takes: measuring, overhead per trial, and what changing the lab costs."""

from iolab.experiment.measures import DiskMeasure, Forwarding, Latency, LoadCurve, Measure, Stream
from iolab.lab.cost import LAB_CHANGE_NS, PLOT_CHANGE_NS

TRIAL_OVERHEAD_NS = 150_000_000
"""A trial beside its measuring [ns]: read-back twice, two programs started, one record synced."""
LOAD_OVERHEAD_NS = 50_000_000
"""A load trial beside its sending [ns]: counters twice, threads started, the drained barrier."""
BISECT_TRIALS = 9
"""Load trials of one bisection: from 5 Mpps to a width of 1 % near 500 kpps (RFC 2544, section 26.1)."""
MLR_TRIALS = 14
"""Load trials of MLRsearch at its usual goal, 1 s each: median of 40 searches in simulation."""
FAST_NS = 7_000_000_000
"""A search by `fast` at 1 % width and 1e-4 loss [ns]: it takes longer the slower the device is."""
DISK_NS = 60_000_000_000
"""A disk program [ns]: hdparm's and bonnie++'s order of magnitude."""


class Estimate:
    """Adds up steps in their order."""

    def __init__(self) -> None:
        self.total_ns = 0
        """Expected duration so far [ns]."""
        self._lab: str | None = None
        self._plot: tuple[str, ...] | None = None

    def add(self, lab_key: str, plot: tuple[str, ...], measuring_ns: int, start_ns: int = 0) -> None:
        """Add a step, and the change from the one before; `start_ns` is what the guests of its lab take to start."""
        if plot != self._plot:
            self.total_ns += PLOT_CHANGE_NS + start_ns
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
            return _search_ns(measure) + len(measure.latency_at) * (measure.trial + LOAD_OVERHEAD_NS)
        case LoadCurve():
            found_ns = FAST_NS if measure.rate is None else 0
            return found_ns + len(measure.steps) * (measure.trial + LOAD_OVERHEAD_NS)
        case DiskMeasure():
            return DISK_NS


def _search_ns(measure: Forwarding) -> int:
    match measure.search:
        case "fast":
            return min(FAST_NS, measure.limit)
        case "mlr":
            return min(MLR_TRIALS * (measure.trial + LOAD_OVERHEAD_NS), measure.limit)
        case "bisect":
            trials = BISECT_TRIALS * measure.trials
            return min(trials * (measure.trial + LOAD_OVERHEAD_NS), measure.limit)
