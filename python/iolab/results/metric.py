"""Metrics: a measured figure each, what it is about (load, flow, CPU, thread), and all of one trial together."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Self

from iolab.messages.statement import Name

LARGER, SMALLER = "larger", "smaller"
"""Which of two values is the better one."""
Method = int | None
"""Version of the method that a figure was computed by; None: unknown, an iolab without method versions recorded it."""
UNIT_ENDS: Mapping[str, str] = {
    "_bps": "bit/s",
    "_fps": "frame/s",
    "_ns": "ns",
    "_us": "us",
    "_ms": "ms",
    "_ratio": "ratio",
    "_bytes": "byte",
    "_bytes_per_s": "byte/s",
}
"""End of a metric's name to its unit; a name that ends otherwise says nothing of it."""
OWN_UNITS: Mapping[str, tuple[str, ...]] = {
    "count": (
        "*_frames", "train_frames_*", "*_samples", "load_trials", "perturbed_trials", "retransmits", "transactions",
        "requests_sent", "*_answers", "disk_blocks_*", "disk_layer_operations", "disk_layer_flushes", "disk_under_way",
        "gaps_by_*", "trains_by_*",
    ),
    "bit/s": ("forwarded_bps_l?",),
    "byte": ("train_bytes_*", "burst_bytes_by_*"),
    "op/s": ("disk_operations_per_s",),
    "packet/s": ("*_pps",),
    "ratio": ("dispersion_index", "fairness", "window_fairness_index"),
    "s": ("search_seconds", "elapsed_s", "cpu_user_s", "cpu_system_s"),
    "1/s": ("transactions_per_s", "rtts_per_s"),
    "1/min": ("round_trips_per_min",),
}  # fmt: skip
"""Unit to iolab's own metrics and series whose names do not end in it; * stands for any part of a name."""
UNKNOWN_METHOD = "unknown"
"""What a method version is called that is not known."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Where, when and of what a metric was taken. What is None does not apply: the metric is of the whole."""

    load_ratio: float | None = None
    """Offered load, of the rate that was found or given [ratio]."""
    flow: Name | None = None
    """Sender and receiver: near->far; the second flow with the same ends is near->far#2."""
    direction: Name | None = None
    """Of frames: from->to, both as machine.port."""
    machine: Name | None = None
    """The machine whose kernel has the CPU or thread; None: this computer, or the one that sends the frames."""
    port: Name | None = None
    """machine.port."""
    queue: int | None = None
    """Receive queue of the port, as the card numbers it."""
    cpu: int | None = None
    """Number of the CPU."""
    role: Name | None = None
    """What a thread does: device, guest, kernel, generator, receiver or napi."""
    thread: Name | None = None
    """Name of the thread, as the kernel calls it."""
    window_ns: int | None = None
    """Length of the windows that were looked at [ns]."""
    block_bytes: int | None = None
    """Of one read or write of a disk [bytes]."""
    depth: int | None = None
    """Reads and writes of a disk that are kept under way."""
    rate_bps: int | None = None
    """Of a token bucket, or of a line [bit/s]."""
    buffer_bytes: int | None = None
    """Depth of a buffer [bytes]."""
    section: Name | None = None
    """Of a job file that a disk program was given, as the file names it."""
    part: Name | None = None
    """A part of what is measured that no other dimension names."""

    def known(self) -> Mapping[str, str | int | float]:
        """Return the dimensions that apply, by name."""
        return {} if self is WHOLE else _known(self)

    @property
    def whole(self) -> bool:
        """Whether none applies."""
        return self == WHOLE


WHOLE = Dimensions()
"""Of a metric that is of the whole trial."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a metric or a series measures. Trials are compared in the quantities that they share."""

    name: Name
    """With its unit in it; docs/method defines each."""
    dimensions: Dimensions = WHOLE
    """What it is about."""

    def __str__(self) -> str:
        """Return the name and what it is about, for messages: cpu_busy_ratio (load_ratio 1.1, cpu 1)."""
        about = ", ".join(f"{name} {value}" for name, value in self.dimensions.known().items())
        return f"{self.name} ({about})" if about else self.name


def method_name(method: Method) -> str:
    """Return a method version for people and for CSV: its number, or unknown."""
    return UNKNOWN_METHOD if method is None else str(method)


def unit_in(name: str) -> str | None:
    """Return the unit that the end of a metric's name says; None: it says none."""
    ends = [end for end in UNIT_ENDS if name.endswith(end)]
    return UNIT_ENDS[max(ends, key=len)] if ends else None


@cache
def unit_of(name: str) -> str:
    """Return the unit of a metric or series of iolab's own. Raises LookupError: neither its name nor OWN_UNITS says."""
    own = (unit for unit, names in OWN_UNITS.items() for one in names if fnmatchcase(name, one))
    unit = next(own, None) or unit_in(name)
    if unit is None:
        raise LookupError(f"{name} ends in no unit, and OWN_UNITS does not have it")
    return unit


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured figure."""

    name: Name
    """With its unit in it; docs/method defines each."""
    unit: Name
    """bit/s, frame/s, ratio, s, ns, count, ..."""
    value: float
    """In `unit`."""
    dimensions: Dimensions = WHOLE
    """What it is about."""
    limited_by: Name = ""
    """What was the limit instead of the device (generator, receiver, line, load, time, host), so that the value is only
    a lower bound; empty: it was measured."""
    better: Name = ""
    """Which of two values is the better one: the LARGER, the SMALLER; empty: nobody said."""
    method: Method = 1
    """Version of the method that computed it: only values of one version are compared or pooled."""

    @classmethod
    def of(cls, name: str, value: float, dimensions: Dimensions = WHOLE, limited_by: str = "") -> Self:
        """Return a metric of iolab's own, in the unit of its name."""
        return cls(name, unit_of(name), value, dimensions, limited_by)

    @property
    def quantity(self) -> Quantity:
        """Return what it measures."""
        return Quantity(self.name, self.dimensions)


@dataclass(frozen=True, slots=True)
class Heads:
    """What the metrics of a trial are of. Trials that measured the same share one: a run has millions of metrics."""

    quantities: tuple[Quantity, ...]
    """In the order of the record."""
    units: tuple[Name, ...]
    """Of each."""
    better: tuple[Name, ...]
    """Which of two values of each is the better one; empty: nobody said."""
    methods: tuple[Method, ...]
    """Method version of each."""


class Metrics:
    """The metrics of one trial, in order, no two of the same quantity. Frozen."""

    __slots__ = ("heads", "limits", "values")

    heads: Heads
    """What they are of."""
    values: "array[float]"
    """One per quantity, in its unit."""
    limits: Mapping[int, str]
    """What limited those that are only lower bounds, by place."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        every = tuple(metrics)
        self.heads = Heads(
            tuple(each.quantity for each in every),
            tuple(each.unit for each in every),
            tuple(each.better for each in every),
            tuple(each.method for each in every),
        )
        self.values = array("d", [each.value for each in every])
        self.limits = {at: each.limited_by for at, each in enumerate(every) if each.limited_by}
        if len(set(self.heads.quantities)) < len(every):
            twice = {str(each) for each in self.heads.quantities if self.heads.quantities.count(each) > 1}
            raise ValueError(f"metrics that occur twice in one trial: {', '.join(sorted(twice))}")

    @classmethod
    def of(cls, heads: Heads, values: Iterable[float], limits: Mapping[int, str]) -> Self:
        """Return metrics of heads that are known to be of different quantities; `limits` by place among them."""
        made = cls.__new__(cls)
        made.heads, made.values, made.limits = heads, array("d", values), limits
        return made

    def __iter__(self) -> Iterator[Metric]:
        heads = self.heads
        every = zip(heads.quantities, heads.units, heads.better, heads.methods, self.values, strict=True)
        for at, (of, unit, better, method, value) in enumerate(every):
            yield Metric(of.name, unit, value, of.dimensions, self.limits.get(at, ""), better, method)

    def __len__(self) -> int:
        return len(self.values)

    def get(self, name: str, dimensions: Dimensions = WHOLE) -> Metric | None:
        """Return the metric of a name that is about `dimensions`; None where there is none."""
        wanted = Quantity(name, dimensions)
        return next((each for each in self if each.quantity == wanted), None)

    def __getitem__(self, name: str) -> Metric:
        """Return the metric of the whole trial that has a name."""
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, of: object) -> bool:
        """Whether there is a metric of a quantity; of the whole trial, where `of` is a name."""
        return (Quantity(of) if isinstance(of, str) else of) in self.heads.quantities

    def named(self, name: str) -> tuple[Metric, ...]:
        """Return the metrics of a name, whatever they are about."""
        return tuple(each for each in self if each.name == name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metrics) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((self.heads, tuple(self.values)))

    def __repr__(self) -> str:
        return f"Metrics({list(self)!r})"


@lru_cache(maxsize=4096)
def _known(about: Dimensions) -> dict[str, str | int | float]:
    """A run has millions of metrics, about a few things; nobody changes what is given here."""
    found = {name: getattr(about, name) for name in names()}
    return {name: value for name, value in found.items() if value is not None}


@cache
def names() -> tuple[str, ...]:
    """Return the names of all dimensions, in their order."""
    return tuple(field.name for field in fields(Dimensions))
