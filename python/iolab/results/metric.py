"""Metrics: measured figures with their dimensions (load, flow, CPU, thread), and all metrics of one trial."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Self

from iolab.locale import Phrase
from iolab.messages.statement import Name

LARGER, SMALLER = "larger", "smaller"
"""Values of `better`: higher or lower values are better."""
Method = int | None
"""Version of the method that computed a figure; None: unknown, because an iolab without method versions recorded
the figure."""
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
"""Unit of each suffix of a metric's name; names without such a suffix do not contain a unit."""
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
"""iolab's metrics and series whose names contain no unit, by unit; * matches any part of a name."""
UNKNOWN_METHOD = "unknown"
"""Name of an unknown method version."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The object that a metric describes, and the conditions of the measurement.

    A dimension that is None does not apply; a metric without dimensions describes the whole trial.
    """

    load_ratio: float | None = None
    """Offered load, as a ratio of the rate that the search found or that was given [ratio]."""
    flow: Name | None = None
    """Sender and receiver: near->far; a second flow between the same ends is near->far#2."""
    direction: Name | None = None
    """Direction of frames: from->to, both as machine.port."""
    machine: Name | None = None
    """Machine whose kernel has the CPU or thread; None: the local host or, for load trials, the machine that sends the
    frames."""
    port: Name | None = None
    """machine.port."""
    queue: int | None = None
    """Number of the port's receive queue."""
    cpu: int | None = None
    """Number of the CPU."""
    role: Name | None = None
    """Role of a thread: device, guest, kernel, generator, receiver or napi."""
    thread: Name | None = None
    """Name of the thread in the kernel."""
    window_ns: int | None = None
    """Length of the windows [ns]."""
    block_bytes: int | None = None
    """Block size of disk requests [bytes]."""
    depth: int | None = None
    """Queue depth of disk requests."""
    rate_bps: int | None = None
    """Rate of a token bucket, or of a line [bit/s]."""
    buffer_bytes: int | None = None
    """Size of a buffer [bytes]."""
    section: Name | None = None
    """Section of a disk program's job file."""
    part: Name | None = None
    """Part of the measurement that no other dimension identifies."""

    def known(self) -> Mapping[str, str | int | float]:
        """Return the dimensions that apply, by name."""
        return {} if self is WHOLE else _known(self)

    @property
    def whole(self) -> bool:
        """Whether no dimension applies."""
        return self == WHOLE


WHOLE = Dimensions()
"""Dimensions of a metric of the whole trial."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """The quantity of a metric or a series: its name with its dimensions.

    Comparisons use the quantities that trials share.
    """

    name: Name
    """Name with its unit; docs/method defines each."""
    dimensions: Dimensions = WHOLE
    """Dimensions of the quantity."""

    def __str__(self) -> str:
        """Return the name with its dimensions, for messages: cpu_busy_ratio (load_ratio 1.1, cpu 1)."""
        about = ", ".join(f"{name} {value}" for name, value in self.dimensions.known().items())
        return f"{self.name} ({about})" if about else self.name


def method_name(method: Method) -> str:
    """Return a method version for people and for CSV: its number, or unknown."""
    return UNKNOWN_METHOD if method is None else str(method)


def unit_in(name: str) -> str | None:
    """Return the unit in the suffix of a metric's name; None: the name contains no unit."""
    ends = [end for end in UNIT_ENDS if name.endswith(end)]
    return UNIT_ENDS[max(ends, key=len)] if ends else None


@cache
def unit_of(name: str) -> str:
    """Return the unit of a metric or series of iolab.

    Raises LookupError: neither the name nor OWN_UNITS has the unit.
    """
    own = (unit for unit, names in OWN_UNITS.items() for one in names if fnmatchcase(name, one))
    unit = next(own, None) or unit_in(name)
    if unit is None:
        raise LookupError(f"{name} ends in no unit, and OWN_UNITS does not have it")
    return unit


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured figure."""

    name: Name
    """Name with its unit; docs/method defines each."""
    unit: Name
    """bit/s, frame/s, ratio, s, ns, count, ..."""
    value: float
    """Value of the metric, in `unit`."""
    dimensions: Dimensions = WHOLE
    """Dimensions of the metric."""
    limited_by: Name = ""
    """Limit other than the device (generator, receiver, line, load, time, host) that makes the value a lower bound;
    empty: the value is not a lower bound."""
    better: Name = ""
    """Whether higher (LARGER) or lower (SMALLER) values are better; empty: unknown."""
    method: Method = 1
    """Version of the method that computed the value: only values of the same version are compared or pooled."""

    @classmethod
    def of(cls, name: str, value: float, dimensions: Dimensions = WHOLE, limited_by: str = "") -> Self:
        """Return a metric of iolab; its unit is the unit in its name."""
        return cls(name, unit_of(name), value, dimensions, limited_by)

    @property
    def quantity(self) -> Quantity:
        """Return the quantity of the metric."""
        return Quantity(self.name, self.dimensions)


@dataclass(frozen=True, slots=True)
class Heads:
    """The metadata of a trial's metrics.

    Trials with equal metadata share one object, because a run has millions of metrics.
    """

    quantities: tuple[Quantity, ...]
    """Quantities, in record order."""
    units: tuple[Name, ...]
    """Unit of each quantity."""
    better: tuple[Name, ...]
    """Better direction of each quantity; empty: unknown."""
    methods: tuple[Method, ...]
    """Method version of each quantity."""


class Metrics:
    """The metrics of one trial, in order, with distinct quantities. Immutable."""

    __slots__ = ("heads", "limits", "values")

    heads: Heads
    """Metadata of the metrics."""
    values: "array[float]"
    """Values, one per quantity, in its unit."""
    limits: Mapping[int, str]
    """Limit of each value that is a lower bound, by index."""

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
            raise ValueError(Phrase("results.metrics-twice", metrics=sorted(twice)))

    @classmethod
    def of(cls, heads: Heads, values: Iterable[float], limits: Mapping[int, str]) -> Self:
        """Return metrics with the given metadata, whose quantities must be distinct; `limits` has the limit of each
        lower bound, by the index of the metric."""
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
        """Return the metric with a name and `dimensions`; None if there is none."""
        wanted = Quantity(name, dimensions)
        return next((each for each in self if each.quantity == wanted), None)

    def __getitem__(self, name: str) -> Metric:
        """Return the metric with a name that describes the whole trial."""
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, of: object) -> bool:
        """Whether the trial has a metric of a quantity; a name stands for the quantity with this name and without
        dimensions."""
        return (Quantity(of) if isinstance(of, str) else of) in self.heads.quantities

    def named(self, name: str) -> tuple[Metric, ...]:
        """Return all metrics with a name, whatever their dimensions."""
        return tuple(each for each in self if each.name == name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metrics) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((self.heads, tuple(self.values)))

    def __repr__(self) -> str:
        return f"Metrics({list(self)!r})"


@lru_cache(maxsize=4096)
def _known(about: Dimensions) -> dict[str, str | int | float]:
    """Return the dimensions that apply.

    The result is cached, because a run has millions of metrics; callers must not modify it.
    """
    found = {name: getattr(about, name) for name in names()}
    return {name: value for name, value in found.items() if value is not None}


@cache
def names() -> tuple[str, ...]:
    """Return the names of all dimensions, in order."""
    return tuple(field.name for field in fields(Dimensions))
