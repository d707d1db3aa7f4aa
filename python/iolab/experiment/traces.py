"""Recordings that impairments follow: rates over time, moments of delivery, delays.

What a file holds comes here as text (`attached.FileText`); each line is an item of the list that could stand there.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Annotated, TypeVar

from iolab.experiment.attached import FileText
from iolab.experiment.quantities import Quantity
from iolab.units import NS_PER_MS, NS_PER_S, UnitError, parse_bits_per_second, parse_nanoseconds

MOST_ITEMS = 100_000
"""Of one trace."""
LONGEST_NS = 86_400 * NS_PER_S
"""Longest trace."""
SHAPE = f"at most {MOST_ITEMS} of them, as a list or the name of a file beside this one with one a line"
RATES_ALLOWED = (
    f"pairs of a time and the rate from then on ([[0s, 20Mbit], [1s, 5Mbit]]; in a file 0.5 20000000, s and bit/s); "
    f"times that rise, a rate above 0; {SHAPE}"
)
MOMENTS_ALLOWED = (
    f"whole milliseconds at which 1504 bytes may leave, as mahimahi's traces have them; each no earlier than the one "
    f"before, the last above 0; {SHAPE}"
)
DELAYS_ALLOWED = (
    f"delays with their units ([0ms, 3ms]; a number alone in a file is in ms), at most 10s; {SHAPE}"
)
LONGEST_DELAY_NS = 10 * NS_PER_S


Item = TypeVar("Item")


def _items(value: object, allowed: str) -> Sequence[object]:
    if isinstance(value, FileText):
        found: Sequence[object] = value.lines
    elif isinstance(value, list | tuple):
        found = value
    else:
        raise UnitError(value, allowed)
    if not 0 < len(found) <= MOST_ITEMS:
        raise UnitError(f"{len(found)} items", allowed)
    return found


def _read(value: object, allowed: str, read: Callable[[object], Item]) -> tuple[Item, ...]:
    found: list[Item] = []
    for number, item in enumerate(_items(value, allowed), start=1):
        try:
            found.append(read(item))
        except (UnitError, ValueError, TypeError) as error:
            raise UnitError(value, allowed, f"item {number} is {str(item)[:40]!r}") from error
    return tuple(found)


def _back(times: Iterable[int], value: object, allowed: str, *, strictly: bool) -> None:
    """Refuse times that go back."""
    for number, (before, after) in enumerate(pairwise(times), start=2):
        if after < before or (strictly and after == before):
            raise UnitError(value, allowed, f"item {number} goes back in time")


def _seconds(item: object) -> int:
    """Return a time [ns]: with a unit, or plain seconds."""
    try:
        return round(float(str(item)) * NS_PER_S)
    except ValueError:
        return parse_nanoseconds(item)


def _pair(item: object) -> tuple[int, int]:
    time, rate = item.replace(",", " ").split() if isinstance(item, str) else tuple(item)  # type: ignore[arg-type]
    try:
        return _seconds(time), round(float(rate)) if isinstance(item, str) else parse_bits_per_second(rate)
    except ValueError:
        return _seconds(time), parse_bits_per_second(rate)


def rate_steps(value: object) -> tuple[tuple[int, int], ...]:
    """Return how long each rate holds [ns] and the rate [bit/s]; the last holds as long as the one before it."""
    points = _read(value, RATES_ALLOWED, _pair)
    _back((time for time, _ in points), value, RATES_ALLOWED, strictly=True)
    if len(points) < 2:
        raise UnitError(value, RATES_ALLOWED, "a single rate is `rate`")
    if not any(rate for _, rate in points) or points[-1][0] - points[0][0] > LONGEST_NS:
        raise UnitError(value, RATES_ALLOWED, "some rate is above 0, and the trace no longer than a day")
    spans = [after - before for (before, _), (after, _) in pairwise(points)]
    return tuple((span, rate) for span, (_, rate) in zip([*spans, spans[-1]], points, strict=True))


def _millisecond(item: object) -> int:
    if isinstance(item, bool) or not isinstance(item, int | str) or int(item) < 0:
        raise ValueError(item)
    return int(item) * NS_PER_MS


def delivery_moments(value: object) -> tuple[int, ...]:
    """Return the moments of a packet-delivery trace [ns]."""
    moments = _read(value, MOMENTS_ALLOWED, _millisecond)
    _back(moments, value, MOMENTS_ALLOWED, strictly=False)
    if not 0 < moments[-1] <= LONGEST_NS:
        raise UnitError(value, MOMENTS_ALLOWED, "the last moment is the length of the trace")
    return moments


def _delay(item: object) -> int:
    try:
        delay_ns = round(float(str(item)) * NS_PER_MS)
    except ValueError:
        delay_ns = parse_nanoseconds(item)
    if not 0 <= delay_ns <= LONGEST_DELAY_NS:
        raise ValueError(item)
    return delay_ns


def delay_samples(value: object) -> tuple[int, ...]:
    """Return delays [ns]."""
    return _read(value, DELAYS_ALLOWED, _delay)


RateSteps = Annotated[
    tuple[tuple[int, int], ...],
    Quantity(rate_steps, "a trace of rates", RATES_ALLOWED, str, ("lte.trace",)),
]
"""How long each rate holds [ns], and the rate [bit/s]."""
Moments = Annotated[
    tuple[int, ...],
    Quantity(delivery_moments, "a packet-delivery trace", MOMENTS_ALLOWED, str, ("lte.up",)),
]
"""When bytes may leave [ns]."""
Samples = Annotated[tuple[int, ...], Quantity(delay_samples, "delays", DELAYS_ALLOWED, str, ("delays.txt",))]
"""Delays [ns]."""
