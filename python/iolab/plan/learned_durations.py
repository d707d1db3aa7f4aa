"""What earlier runs on this host took, and what to expect from it: starts of guests, and trials beside their measuring.

Pure: the file in the user's cache is read and written elsewhere.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field

from pydantic import TypeAdapter, ValidationError

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Vm
from iolab.frozen import frozen
from iolab.lab.kernels import parent_kernel

KEPT = 9
"""Newest times of a kind that are remembered."""
SURE_FACTOR, GUESS_FACTOR = 1.3, 5.0
"""Where times did not scatter at all an estimate may still be off by the first; where nothing was learned, by the
second: guests under emulation take as many times longer on a busy host."""
PLAIN_FACTOR = 2.0
"""The same for labs without guests."""
LONGEST_NS = 24 * 3_600_000_000_000
"""What claims to be longer is no time that a trial took."""


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
