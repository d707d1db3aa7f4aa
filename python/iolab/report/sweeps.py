"""Factors whose levels are numbers or quantities (MTU, window, frame size): they get an axis instead of rows."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from iolab import units
from iolab.analysis.types import Estimate, cells_of
from iolab.store.records import StoredRun

FEWEST_LEVELS = 3
"""Two levels are a comparison, not a sweep."""
MOST_APART = 0.007
"""Between two lines at one level, as a share of the axis: some pixels."""
DECADE = 10
_QUANTITY = re.compile(r"[0-9][0-9.]*\s?[A-Za-zµμ/%]{0,6}")
"""What may stand on an axis; anything else is not a quantity, whatever a parser makes of it."""


def _plain(label: object) -> float:
    return float(str(label))


_READERS: tuple[Callable[[object], float], ...] = (
    _plain, units.parse_bytes, units.parse_bits_per_second, units.parse_nanoseconds, units.parse_ratio,
)  # fmt: skip
_FIRST = "frame_size"
"""The end of the factor's path that is the axis of every forwarding chart, however many levels others have."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A factor as an axis."""

    factor: str
    """Its name in the plan."""
    positions: Mapping[str, float]
    """Label to its place."""
    log: bool
    """Drawn on a logarithmic axis, because its levels are spread more evenly there."""

    def beside(self, label: str, line: int, lines: int) -> float:
        """The place of one of several lines at a level: a little apart, so that equal values do not hide each other."""
        places = list(self.positions.values())
        low, high, place = min(places), max(places), self.positions[label]
        spread = places if not self.log else [math.log(each) for each in places]
        apart = min(MOST_APART, _closest(spread) / (2 * lines))
        share = (line - (lines - 1) / 2) * apart
        return place * (high / low) ** share if self.log else place + share * (high - low)


def sweep_of(estimates: Sequence[Estimate], run: StoredRun) -> Sweep | None:
    """Find the factor to draw as an axis: frame size, else the one with most levels; None where there is none."""
    found = []
    cells = cells_of(estimates)
    for factor in run.plan.factors:
        used = {cell.get(factor.name) for cell in cells}
        labels = [label for label in factor.labels if label in used]
        if len(labels) >= FEWEST_LEVELS and None not in used and (places := positions(labels)) is not None:
            found.append(Sweep(factor.name, places, logarithmic(list(places.values()))))
    return max(found, key=lambda each: (each.factor.endswith(_FIRST), len(each.positions)), default=None)


def positions(labels: Sequence[str]) -> dict[str, float] | None:
    """Read labels as quantities of one kind, smallest first; None where one is none, or two are equal."""
    if not all(_QUANTITY.fullmatch(label) for label in labels):
        return None
    for read in _READERS:
        try:
            places = {label: read(label) for label in labels}
        except ValueError:
            continue
        if len(set(places.values())) == len(labels):
            return dict(sorted(places.items(), key=lambda item: item[1]))
    return None


def logarithmic(places: Sequence[float]) -> bool:
    """Tell whether places span a decade and the closest neighbours are further apart on a logarithmic axis."""
    if min(places) <= 0 or max(places) < DECADE * min(places):
        return False
    return _closest([math.log(place) for place in places]) > _closest(places)


def _closest(places: Sequence[float]) -> float:
    """The smallest gap as a share of the whole axis."""
    ordered = sorted(places)
    return min(after - before for before, after in pairwise(ordered)) / (ordered[-1] - ordered[0])
