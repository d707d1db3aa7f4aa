"""Models of the files that an experiment can name: fio job files, and traces of rates, deliveries and jitter."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field

from iolab.experiment.model.quantities import FROZEN, BlockBytes, Count, Maybe, Quantity, SomeNanoseconds
from iolab.locale import Phrase, Text
from iolab.units import NS_PER_MS, NS_PER_S, UnitError, parse_bits_per_second, parse_nanoseconds


class FileText(str):  # noqa: SLOT000 - a name wherever a name is wanted, with two fields more
    """A file name with the text of the file."""

    text: str
    """The whole text."""
    lines: tuple[str, ...]
    """The lines, without blank lines and comments (#)."""

    @classmethod
    def of(cls, name: str, text: str) -> "FileText":
        """Return a file name with its text."""
        self = cls(name)
        self.text = text
        bare = (line.split("#", maxsplit=1)[0].strip() for line in text.splitlines())
        self.lines = tuple(line for line in bare if line)
        return self


class FileBytes(str):  # noqa: SLOT000 - as FileText
    """The name of a binary file, with its content."""

    content: bytes
    """The whole content."""

    @classmethod
    def of(cls, name: str, content: bytes) -> "FileBytes":
        """Return a file name with its content."""
        self = cls(name)
        self.content = content
        return self


Access = Literal["read", "write", "mixed"]

Depth = Annotated[Count, Field(ge=1, le=1024)]

MOST_SECTIONS = 64
"""Maximum number of sections in a job file, and of combinations in a measure: each section or combination takes as long
as a trial."""

MOST_JOB_TEXT = 65_536
"""Maximum length of a job file [characters]."""

JOB_FILE_ALLOWED = Phrase("check.name-of-fio-job-file")


def _job_text(value: object) -> str:
    if not isinstance(value, FileText) or not 0 < len(value.text) <= MOST_JOB_TEXT:
        raise UnitError(value, JOB_FILE_ALLOWED)
    return value.text


JobText = Annotated[str, Quantity(_job_text, "a job file", JOB_FILE_ALLOWED, str, ("mine.fio",))]


class Fio(BaseModel):
    """fio settings: each combination of block size, depth and access is a separate fio run, one after the other."""

    model_config = FROZEN
    blocks: Maybe[Annotated[tuple[BlockBytes, ...], Field(min_length=1)]] = None
    """Block sizes of reads and writes; default: 4K, 64K and 1M; with `steady-state` 4K."""
    depths: Maybe[Annotated[tuple[Depth, ...], Field(min_length=1)]] = None
    """Queue depths: numbers of reads and writes in flight; default: 1, 8 and 32; with `steady-state` 32."""
    access: Maybe[Annotated[tuple[Access, ...], Field(min_length=1)]] = None
    """I/O type; mixed: 70 % reads; default: all three; with `steady-state` write."""
    order: Literal["random", "sequential"] = "random"
    """Order of the offsets that are read or written: sequential or random."""
    each: SomeNanoseconds = 2_000_000_000
    """Duration of one combination, or of one round of `steady-state`."""
    engine: Literal["io_uring", "libaio", "psync"] = "io_uring"
    """fio's I/O engine; psync has one request in flight, whatever `depths` contains."""
    offered: Maybe[Annotated[Count, Field(ge=1, le=10_000_000)]] = None
    """Requests started per second, at random times, whether or not earlier requests have completed; default: a
    request starts when one completes."""
    rounds: Annotated[Count, Field(ge=5, le=1000)] = 25
    """Maximum number of rounds of `steady-state`."""
    job: Maybe[Annotated[str, Field(min_length=1, max_length=MOST_JOB_TEXT)]] = None
    """A custom job file, as text; results have a row, a series and a ledger for each section. The job file defines the
    I/O, but not the file or device; docs/how-to/measure-a-disk.md lists the keys that are passed on, set by iolab, or
    refused."""
    job_file: Maybe[JobText] = None
    """A custom job file, as a file name in or below the folder of the experiment file."""
    replace: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z_0-9-]{0,40}$", strict=True)], ...] = ()
    """Keys of the job file whose values iolab replaces, such as [filename, size]; the report lists these keys."""

    @property
    def job_text(self) -> str | None:
        """Return the text of the job file; None: the other keys define the I/O."""
        return self.job if self.job is not None else self.job_file


MOST_ITEMS = 100_000
"""Maximum number of entries in a trace."""

LONGEST_NS = 86_400 * NS_PER_S
"""Maximum duration of a trace."""

SHAPE = Phrase("check.list-or-file-of-items", most_items=MOST_ITEMS)

RATES_ALLOWED = Phrase("check.trace-of-rates", shape=SHAPE)

MOMENTS_ALLOWED = Phrase("check.packet-delivery-trace", shape=SHAPE)

DELAYS_ALLOWED = Phrase("check.trace-of-delays", shape=SHAPE)

LONGEST_DELAY_NS = 10 * NS_PER_S


Item = TypeVar("Item")


def _items(value: object, allowed: Text) -> Sequence[object]:
    if isinstance(value, FileText):
        found: Sequence[object] = value.lines
    elif isinstance(value, list | tuple):
        found = value
    else:
        raise UnitError(value, allowed)
    if not 0 < len(found) <= MOST_ITEMS:
        raise UnitError(Phrase("check.number-of-items", count=len(found)), allowed)
    return found


def _read(value: object, allowed: Text, read: Callable[[object], Item]) -> tuple[Item, ...]:
    found: list[Item] = []
    for number, item in enumerate(_items(value, allowed), start=1):
        try:
            found.append(read(item))
        except (UnitError, ValueError, TypeError) as error:
            raise UnitError(
                value, allowed, Phrase("check.item-of-trace", number=number, item=repr(str(item)[:40]))
            ) from error
    return tuple(found)


def _back(times: Iterable[int], value: object, allowed: Text, *, strictly: bool) -> None:
    """Raise an error if a time is earlier than the time before it."""
    for number, (before, after) in enumerate(pairwise(times), start=2):
        if after < before or (strictly and after == before):
            raise UnitError(value, allowed, Phrase("check.item-goes-back-in-time", number=number))


def _seconds(item: object) -> int:
    """Return a time [ns]: with a unit, or in plain seconds."""
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
    """Return the duration of each step [ns] and its rate [bit/s]; the last step lasts as long as the step before it."""
    points = _read(value, RATES_ALLOWED, _pair)
    _back((time for time, _ in points), value, RATES_ALLOWED, strictly=True)
    if len(points) < 2:
        raise UnitError(value, RATES_ALLOWED, Phrase("check.single-rate-is-no-trace"))
    if not any(rate for _, rate in points) or points[-1][0] - points[0][0] > LONGEST_NS:
        raise UnitError(value, RATES_ALLOWED, Phrase("check.trace-without-rate-or-end"))
    spans = [after - before for (before, _), (after, _) in pairwise(points)]
    return tuple((span, rate) for span, (_, rate) in zip([*spans, spans[-1]], points, strict=True))


def _millisecond(item: object) -> int:
    if isinstance(item, bool) or not isinstance(item, int | str) or int(item) < 0:
        raise ValueError(item)
    return int(item) * NS_PER_MS


def delivery_moments(value: object) -> tuple[int, ...]:
    """Return the times in a packet-delivery trace [ns]."""
    moments = _read(value, MOMENTS_ALLOWED, _millisecond)
    _back(moments, value, MOMENTS_ALLOWED, strictly=False)
    if not 0 < moments[-1] <= LONGEST_NS:
        raise UnitError(value, MOMENTS_ALLOWED, Phrase("check.last-moment-is-trace-length"))
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
    """Return the delays in a file of samples [ns]."""
    return _read(value, DELAYS_ALLOWED, _delay)


RateSteps = Annotated[
    tuple[tuple[int, int], ...],
    Quantity(rate_steps, "a trace of rates", RATES_ALLOWED, str, ("lte.trace",)),
]
"""Duration of each step [ns], and its rate [bit/s]."""

Moments = Annotated[
    tuple[int, ...],
    Quantity(delivery_moments, "a packet-delivery trace", MOMENTS_ALLOWED, str, ("lte.up",)),
]
"""Times at which bytes may be sent [ns]."""

Samples = Annotated[tuple[int, ...], Quantity(delay_samples, "delays", DELAYS_ALLOWED, str, ("delays.txt",))]
"""Delays [ns]."""
