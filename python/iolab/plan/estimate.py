"""How long a plan takes: measuring, overhead per trial, and what changing the lab costs."""

from dataclasses import replace

from iolab.frozen import frozen
from iolab.lab.change_cost import LAB_CHANGE_NS, PLOT_CHANGE_NS
from iolab.plan.learned_durations import GUESS_FACTOR, PLAIN_FACTOR, Learned, Took

TRIAL_OVERHEAD_NS = 150_000_000
"""A trial beside its measuring [ns]: read-back twice, two programs started, one record synced."""


@frozen
class Expected:
    """What of a step decides how long it takes."""

    lab_key: str
    """Digest of the lab it needs."""
    plot: tuple[str, ...]
    """The labels that are expensive to change."""
    measuring_ns: int
    """Time that measuring takes [ns]."""
    start_ns: int
    """Time that the guests of its lab take to start, where this host has started none [ns]; 0: it has no guests."""
    kind: str
    """Kind of its lab, as what was learned is kept by."""
    measure: str
    """Kind of its measure."""


class Estimate:
    """Adds up steps in their order."""

    def __init__(self, learned: Learned | None = None, load: float = 1.0) -> None:
        """Begin with nothing; `load` is how many threads of others want each CPU now, at least 1."""
        self.total_ns = 0
        """Expected duration so far [ns]."""
        self._learned = learned or Learned()
        self._last: Expected | None = None
        self._used: set[str] = set()
        self._guessed, self._load = 1.0, load

    def add(self, step: Expected) -> None:
        """Add a step, and the change from the one before."""
        last, self._last = self._last, step
        starts = step.start_ns > 0 and (last is None or step.plot != last.plot)
        known = (
            self._learned.start_ns(step.kind, first=last is None)
            if starts
            else self._learned.trial_ns(step.kind, step.measure)
        )
        if known is not None:
            took = Took(step.kind, step.measure, started=starts, first=last is None, beside_ns=0)
            self._used |= {took.key, replace(took, first=True).key}
            # A program that ended long before its declared time says nothing of one that declares less.
            self.total_ns += max(step.measuring_ns + known, TRIAL_OVERHEAD_NS)
            return
        self._guessed = max(self._guessed, self._load * (GUESS_FACTOR if step.start_ns else PLAIN_FACTOR))
        self.total_ns += step.measuring_ns + TRIAL_OVERHEAD_NS
        if last is None or step.plot != last.plot:
            self.total_ns += PLOT_CHANGE_NS + step.start_ns
        elif step.lab_key != last.lab_key:
            self.total_ns += LAB_CHANGE_NS

    def factor(self) -> float:
        """Return by what factor the duration may lie off: what earlier runs scattered by, or a guess without them."""
        return max(self._guessed, self._learned.only(self._used).scatter())
