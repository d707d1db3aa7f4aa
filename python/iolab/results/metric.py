"""Metrics: one measured figure each, and all of one trial together."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from iolab.messages.statement import Name
from iolab.results.dimensions import WHOLE, Dimensions, Quantity

LARGER, SMALLER = "larger", "smaller"
"""Which of two values is the better one."""
Method = int | None
"""Version of the method that a figure was computed by; None: unknown, an iolab without method versions recorded it."""
FRAME_RATE = "frame/s"
"""Unit of rates of frames; their names end in `_fps`."""


UNKNOWN_METHOD = "unknown"
"""What a method version is called that is not known."""


def method_name(method: Method) -> str:
    """Return a method version for people and for CSV: its number, or unknown."""
    return UNKNOWN_METHOD if method is None else str(method)


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
