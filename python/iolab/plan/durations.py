"""How long a plan takes: measuring, also several measures at once, overhead per trial, and changes of the lab.

What earlier runs on this host took is learned from them: starts of guests, and trials beside their measuring. Which
changes of a factor's level are expensive decides what makes a whole plot.

Pure: the file in the user's cache is read and written elsewhere.
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
"""Newest times of a kind that are remembered."""
SURE_FACTOR, GUESS_FACTOR = 1.3, 5.0
"""Where times did not scatter at all an estimate may still be off by the first; where nothing was learned, by the
second: guests under emulation take as many times longer on a busy host."""
PLAIN_FACTOR = 2.0
"""The same for labs without guests."""
LONGEST_NS = 24 * 3_600_000_000_000
"""What claims to be longer is no time that a trial took."""
PLOT_CHANGE_NS = 420_000_000
"""A whole lab taken down and made again [ns]: three namespaces on a bridge, median of 10 on 2 busy vCPU."""
LAB_CHANGE_NS = 30_000_000
"""Links changed in place [ns]: 8 ms for offloads of three ports, 29 ms for the MTU of six, measured likewise."""
GUEST_START_NS = 2_500_000_000
"""An emulated guest until its agent answers [ns]: median of 8 on 2 vCPU."""
MORE_GUESTS_NS = 1_100_000_000
"""Each further one that starts at the same time [ns]: two took 3.1 s, four 5.9 s on 2 vCPU."""
XEN_HOST_NS = 5_000_000_000
"""What Xen and its tools add to the start of an emulated guest [ns]: 6 to 9 s in all."""
NESTED_START_NS = 9_000_000_000
"""A guest on a guest [ns]: 9 s with the emulated CPU's own virtualisation, 4 s as a Xen domain and then its agent."""
HOT = frozenset({"settings", "pin", "pin_io", "queues", "host", "processors"})
"""What of a machine is changed while it runs."""
TRIAL_OVERHEAD_NS = 150_000_000
"""A trial beside its measuring [ns]: read-back twice, two programs started, one record synced."""


@frozen
class Took:
    """How long one trial took."""

    lab: str
    """What kind of lab it was in, as `kind_of` says."""
    measure: str
    """Kind of the measure."""
    started: bool
    """Whether guests were started for it."""
    first: bool
    """Whether they were the first of the run: all of them, from nothing."""
    beside_ns: int
    """What it took beside the measuring that was planned [ns]; below 0 where that was done sooner."""

    @property
    def key(self) -> str:
        """Return what it is remembered by."""
        if not self.started:
            return f"trial {self.lab} {self.measure}"
        return f"{'start' if self.first else 'restart'} {self.lab}"


@frozen
class Learned:
    """Times by what they are of, the newest last [ns]."""

    times: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def start_ns(self, lab: str, *, first: bool) -> int | None:
        """Return how long a lab's guests take to come up, the trial's other overhead included; None: not known."""
        own = self._median(Took(lab, "", started=True, first=first, beside_ns=0).key)
        return own if own is not None or first else self.start_ns(lab, first=True)

    def trial_ns(self, lab: str, measure: str) -> int | None:
        """Return what a trial takes beside its planned measuring; None: not known."""
        return self._median(Took(lab, measure, started=False, first=False, beside_ns=0).key)

    def scatter(self) -> float:
        """Return by what factor times of a kind lay off their median."""
        found = [SURE_FACTOR]
        for times in self.times.values():
            middle = max(statistics.median(times), 1)
            found.append(max(max(times) / middle, middle / max(min(times), 1)) if min(times) > 0 else 1.0)
        return min(max(found), GUESS_FACTOR)

    def only(self, keys: Iterable[str]) -> "Learned":
        """Return what is known of some kinds."""
        return Learned({key: self.times[key] for key in keys if key in self.times})

    def also(self, took: Iterable[Took]) -> "Learned":
        """Return what is known after more trials."""
        times = dict(self.times)
        for one in took:
            times[one.key] = (*times.get(one.key, ()), one.beside_ns)[-KEPT:]
        return Learned(times)

    def _median(self, key: str) -> int | None:
        times = self.times.get(key)
        return round(statistics.median(times)) if times else None


def kind_of(lab: Lab) -> str:
    """Return what of a lab decides how long it takes to come up: its guests, each with its parent's kind."""
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
    """Return what a stored document says; what is not as it should be is as if it had never been learned."""
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
    """Return what is stored."""
    return {key: list(times) for key, times in learned.times.items()}


def parts_of(setup: Setup, measure: str) -> dict[str, int]:
    """Return the measures that are taken at once with one in a cell, itself among them, in their order.

    Each with when it begins, after the first of them [ns].
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
    """Return how long measures take that are taken at once [ns]: the whole for the first of them, 0 for others."""
    begins = parts_of(setup, measure)
    if next(iter(begins)) != measure:
        return 0
    return max(begin + duration_ns(setup.measures[name]) for name, begin in begins.items())


def duration_ns(measure: Measure) -> int:
    """Return how long a measure takes by itself [ns]."""
    return measure_kinds()[measure.kind].duration_ns(measure)


def _parts_taken(measure: Measure) -> dict[str, int | None]:
    of = measure_kinds()[measure.kind].parts
    return {} if of is None else dict(of(measure))


def expensive(path: str) -> bool:
    """Tell whether setting a dotted path makes a machine or a volume again, or starts a guest with other cards."""
    parts = path.split(".")
    if parts[0] == "links":
        return parts[2:3] == ["ends"]
    return parts[0] in ("machines", "volumes") and HOT.isdisjoint(parts[2:3])


def start_ns(lab: Lab) -> int:
    """Return how long the guests of a lab take to start [ns]: those on one level of the tree start together."""
    levels = Counter(_depth(lab, name) for name, machine in lab.machines.items() if isinstance(machine, Vm))
    took_ns = 0
    for depth, count in levels.items():
        took_ns += GUEST_START_NS if depth == 1 else NESTED_START_NS
        took_ns += MORE_GUESTS_NS * (count - 1)
    xen = any(isinstance(machine, Vm) and machine.engine == "xen" for machine in lab.machines.values())
    return took_ns + (XEN_HOST_NS if xen else 0)


def _depth(lab: Lab, name: str) -> int:
    """Return how many guests deep a guest is."""
    machine = lab.machines[name]
    above = 0 if machine.on is None else _depth(lab, machine.on)
    return above + 1 if isinstance(machine, Vm) else above


def grouping(factors: tuple[Factor, ...]) -> tuple[str, ...]:
    """Return the names of factors, sub-factors included, that are expensive to change, in order of appearance."""
    found: dict[str, None] = {}
    for factor in factors:
        if any(expensive(path) for level in factor.levels for path in level.sets):
            found[factor.name] = None
        for level in factor.levels:
            found.update(dict.fromkeys(grouping(level.factors)))
    return tuple(found)


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
