"""Estimate the duration of a plan: measuring (including parallel measures), overhead per trial, and lab changes.

The estimate uses durations from earlier runs on this host: guest starts, and the overhead of trials. The cost of
changing a factor's level also decides which factors define whole plots.

The module is pure: other modules read and write the file in the user's cache.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from pydantic import TypeAdapter, ValidationError

from iolab.experiment.experiment import Factor, Lab, Setup
from iolab.experiment.model.machines import Vm
from iolab.experiment.model.measures import Measure
from iolab.frozen import frozen
from iolab.lab.kernels import parent_kernel
from iolab.registry.registry import measure_kinds

KEPT = 9
"""Number of recent durations kept per kind."""
SURE_FACTOR, GUESS_FACTOR = 1.3, 5.0
"""Uncertainty factors of an estimate: the minimum with earlier runs, and the default without earlier runs [ratio].

Emulated guests take up to five times as long on a busy host.
"""
PLAIN_FACTOR = 2.0
"""Uncertainty factor of an estimate without earlier runs for labs without guests [ratio]."""
LONGEST_NS = 24 * 3_600_000_000_000
"""Maximum plausible trial duration [ns]; longer values are discarded."""
PLOT_CHANGE_NS = 420_000_000
"""Teardown and creation of a whole lab [ns]: three namespaces on a bridge, median of 10 on 2 busy vCPUs."""
LAB_CHANGE_NS = 30_000_000
"""Change of existing links [ns]: 8 ms for offloads of three ports, 29 ms for the MTUs of six ports, on 2 busy vCPUs."""
GUEST_START_NS = 2_500_000_000
"""Start of an emulated guest until its agent answers [ns]: median of 8 on 2 vCPUs."""
MORE_GUESTS_NS = 1_100_000_000
"""Start of each additional guest in parallel [ns]: two guests took 3.1 s, four took 5.9 s on 2 vCPUs."""
XEN_HOST_NS = 5_000_000_000
"""Additional start time of an emulated guest with Xen and its tools [ns]: 6 to 9 s in total."""
NESTED_START_NS = 9_000_000_000
"""Start of a nested guest [ns]: 9 s with the emulated CPU's virtualization, 4 s as a Xen domain, plus its agent."""
HOT = frozenset({"settings", "pin", "pin_io", "queues", "host", "processors"})
"""Machine keys that can change while the machine runs."""
TRIAL_OVERHEAD_NS = 150_000_000
"""Overhead of a trial in addition to measuring [ns]: two read-backs, two program starts, one synced record."""


@frozen
class Took:
    """Duration of one trial."""

    lab: str
    """Kind of the lab, as returned by `kind_of`."""
    measure: str
    """Kind of the measure."""
    started: bool
    """Whether guests were started for the trial."""
    first: bool
    """Whether this was the first start of guests in the run, which starts all guests of the lab."""
    beside_ns: int
    """Overhead in addition to the planned measuring time [ns]; negative if measuring finished early."""

    @property
    def key(self) -> str:
        """Return the key under which the duration is stored."""
        if not self.started:
            return f"trial {self.lab} {self.measure}"
        return f"{'start' if self.first else 'restart'} {self.lab}"


@frozen
class Learned:
    """Durations by key, the newest last [ns]."""

    times: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def start_ns(self, lab: str, *, first: bool) -> int | None:
        """Return how long a lab's guests take to start, including the trial's other overhead; None if unknown."""
        own = self._median(Took(lab, "", started=True, first=first, beside_ns=0).key)
        return own if own is not None or first else self.start_ns(lab, first=True)

    def trial_ns(self, lab: str, measure: str) -> int | None:
        """Return the overhead of a trial in addition to its planned measuring time; None if unknown."""
        return self._median(Took(lab, measure, started=False, first=False, beside_ns=0).key)

    def scatter(self) -> float:
        """Return the maximum ratio of a recorded duration to the median of its kind, limited to the range from
        SURE_FACTOR to GUESS_FACTOR."""
        found = [SURE_FACTOR]
        for times in self.times.values():
            middle = max(statistics.median(times), 1)
            found.append(max(max(times) / middle, middle / max(min(times), 1)) if min(times) > 0 else 1.0)
        return min(max(found), GUESS_FACTOR)

    def only(self, keys: Iterable[str]) -> "Learned":
        """Return the durations with the given keys only."""
        return Learned({key: self.times[key] for key in keys if key in self.times})

    def also(self, took: Iterable[Took]) -> "Learned":
        """Return these durations with the durations of additional trials appended."""
        times = dict(self.times)
        for one in took:
            times[one.key] = (*times.get(one.key, ()), one.beside_ns)[-KEPT:]
        return Learned(times)

    def _median(self, key: str) -> int | None:
        times = self.times.get(key)
        return round(statistics.median(times)) if times else None


def kind_of(lab: Lab) -> str:
    """Return the kind of a lab, on which the duration of its start depends: its guests, and whether each is nested."""
    guests = Counter(
        f"{machine.engine}:{machine.image or '-'}:{machine.accel}:{'guest' if _on_guest(lab, name) else 'host'}"
        for name, machine in lab.machines.items()
        if isinstance(machine, Vm)
    )
    return "+".join(f"{count}x{guest}" for guest, count in sorted(guests.items())) or "plain"


def _on_guest(lab: Lab, name: str) -> bool:
    parent = parent_kernel(lab, name)
    return parent in lab.machines and lab.machines[parent].kind == "vm"


def decode_learned(found: object) -> Learned:
    """Return the durations in a stored document; invalid content is treated as if no durations were stored."""
    try:
        times = TypeAdapter(dict[str, list[int]]).validate_python(found, strict=True)
    except ValidationError:
        return Learned()
    return Learned(
        {
            key: tuple(one[-KEPT:])
            for key, one in times.items()
            if one and all(abs(each) < LONGEST_NS for each in one)
        }
    )


def encode_learned(learned: Learned) -> dict[str, list[int]]:
    """Return the durations as a document for storage."""
    return {key: list(times) for key, times in learned.times.items()}


def parts_of(setup: Setup, measure: str) -> dict[str, int]:
    """Return the measures that run in parallel with a measure in a cell, including the measure, in their order.

    Each value is the time from the start of the first measure to the start of this measure [ns].
    """
    for taker in setup.measures.values():
        parts = _parts_taken(taker)
        if measure in parts:
            own = {
                name: offset
                for name, offset in parts.items()
                if offset is not None and name in setup.measures
            }
            first = min(own.values())
            return {name: offset - first for name, offset in own.items()}
    return {measure: 0}


def span_ns(setup: Setup, measure: str) -> int:
    """Return the total duration of parallel measures [ns]: the first measure gets the whole duration, the others get
    0."""
    begins = parts_of(setup, measure)
    if next(iter(begins)) != measure:
        return 0
    return max(begin + duration_ns(setup.measures[name]) for name, begin in begins.items())


def duration_ns(measure: Measure) -> int:
    """Return the duration of a measure alone [ns]."""
    return measure_kinds()[measure.kind].duration_ns(measure)


def _parts_taken(measure: Measure) -> dict[str, int | None]:
    of = measure_kinds()[measure.kind].parts
    return {} if of is None else dict(of(measure))


def expensive(path: str) -> bool:
    """Whether setting a dotted path recreates a machine or a volume, or restarts a guest with different NICs."""
    parts = path.split(".")
    if parts[0] == "links":
        return parts[2:3] == ["ends"]
    return parts[0] in ("machines", "volumes") and HOT.isdisjoint(parts[2:3])


def start_ns(lab: Lab) -> int:
    """Return how long a lab's guests take to start [ns]; guests at the same nesting depth start in parallel."""
    levels = Counter(_depth(lab, name) for name, machine in lab.machines.items() if isinstance(machine, Vm))
    took_ns = 0
    for depth, count in levels.items():
        took_ns += GUEST_START_NS if depth == 1 else NESTED_START_NS
        took_ns += MORE_GUESTS_NS * (count - 1)
    xen = any(isinstance(machine, Vm) and machine.engine == "xen" for machine in lab.machines.values())
    return took_ns + (XEN_HOST_NS if xen else 0)


def _depth(lab: Lab, name: str) -> int:
    """Return the nesting depth of a guest."""
    machine = lab.machines[name]
    above = 0 if machine.on is None else _depth(lab, machine.on)
    return above + 1 if isinstance(machine, Vm) else above


def grouping(factors: tuple[Factor, ...]) -> tuple[str, ...]:
    """Return the names of factors that are expensive to change, including sub-factors, in order of appearance."""
    found: dict[str, None] = {}
    for factor in factors:
        if any(expensive(path) for level in factor.levels for path in level.sets):
            found[factor.name] = None
        for level in factor.levels:
            found.update(dict.fromkeys(grouping(level.factors)))
    return tuple(found)


@frozen
class Expected:
    """Properties of a step that determine its duration."""

    lab_key: str
    """Digest of the lab."""
    plot: tuple[str, ...]
    """Labels of the factors that are expensive to change."""
    measuring_ns: int
    """Measuring time [ns]."""
    start_ns: int
    """Estimated time for starting the lab's guests if this host has no recorded start [ns]; 0: no guests."""
    kind: str
    """Kind of the lab, as in the keys of recorded durations."""
    measure: str
    """Kind of the measure."""


class Estimate:
    """Sum of step durations, in step order."""

    def __init__(self, learned: Learned | None = None, load: float = 1.0) -> None:
        """Start the sum at 0; `load` is the number of runnable threads of other processes per CPU, at least 1."""
        self.total_ns = 0
        """Expected duration so far [ns]."""
        self._learned = learned or Learned()
        self._last: Expected | None = None
        self._used: set[str] = set()
        self._guessed, self._load = 1.0, load

    def add(self, step: Expected) -> None:
        """Add the durations of a step and of the change from the previous step."""
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
            # An overhead learned from a program that ended early may be negative: use a minimum.
            self.total_ns += max(step.measuring_ns + known, TRIAL_OVERHEAD_NS)
            return
        self._guessed = max(self._guessed, self._load * (GUESS_FACTOR if step.start_ns else PLAIN_FACTOR))
        self.total_ns += step.measuring_ns + TRIAL_OVERHEAD_NS
        if last is None or step.plot != last.plot:
            self.total_ns += PLOT_CHANGE_NS + step.start_ns
        elif step.lab_key != last.lab_key:
            self.total_ns += LAB_CHANGE_NS

    def factor(self) -> float:
        """Return the relative uncertainty of the duration [ratio]: from the spread of earlier runs, or a default."""
        return max(self._guessed, self._learned.only(self._used).scatter())
