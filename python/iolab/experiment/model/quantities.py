"""Quantities of the experiment language: text with a unit in the file, an integer in the model.

The module also has the type of port names.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from iolab import units
from iolab.frozen import frozen
from iolab.locale import Phrase, Text
from iolab.units import NS_PER_MS, NS_PER_S


class PortRef(str):
    """The text "machine.port" with its two parts; it compares, sorts and prints as the text.

    The port name may contain dots (an interface of a VLAN). A text without a dot names only a machine.
    """

    __slots__ = ("machine", "port")
    machine: str
    """Name of the machine."""
    port: str
    """Name of the port, which is the name of its interface; empty: the text does not name a port."""

    def __new__(cls, text: str) -> Self:
        """Split the text at its first dot."""
        if type(text) is cls:
            return text  # str subclasses are immutable too
        ref = super().__new__(cls, text)
        ref.machine, _, ref.port = text.partition(".")
        return ref

    @classmethod
    @lru_cache(
        maxsize=1 << 14
    )  # cached: planning names the few ports of a lab hundreds of thousands of times
    def of(cls, machine: str, port: str) -> Self:
        """Return the PortRef of a machine's port."""
        return cls(f"{machine}.{port}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate the value as text, then split it."""
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())


FROZEN = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)
"""Configuration of all models of the language: immutable, no unknown keys, built on first use."""

Model = TypeVar("Model", bound=BaseModel)


def unset(model: type[Model]) -> Model:
    """Return a model with all keys unset, for use as a default; no validator is built for it."""
    return model.model_construct()


STORED = "stored"
"""Key in the validation context: whether the file comes from a run folder."""

T = TypeVar("T")

LINE_RATE_ALLOWED = Phrase("check.bit-or-frame-rate")

SECONDS_ALLOWED = Phrase("check.whole-seconds")

MOST_SECONDS = 86_400
"""Maximum duration in iperf3 [s]."""

WINDOW_ALLOWED = Phrase("check.iperf3-buffer-size")

MOST_WINDOW_BYTES = 512 << 20
"""Maximum socket buffer in iperf3 [bytes]."""

MOST_LENGTH = 1 << 20
"""Maximum write length in iperf3 [bytes]."""

LEAST_MEMORY_BYTES = 96 << 20
"""Minimum memory of a guest [bytes]: with less, its kernel fails to boot without an error message."""

MOST_MEMORY_BYTES = 16 << 40

MEMORY_ALLOWED = Phrase("check.guest-memory-size")

BLOCK_BYTES = 4096
"""Maximum block size of common disks [bytes]."""

BLOCKS_ALLOWED = Phrase("check.multiple-of-blocks")

LEAST_PERIOD_MS, MOST_PERIOD_MS = 10, 60_000
"""Limits of the agent's interval between counter readings [ms]."""

PERIOD_ALLOWED = Phrase("check.whole-milliseconds")

OFFSET_ALLOWED = Phrase("check.time-before-or-after")

LENGTH_ALLOWED = Phrase("check.iperf3-write-length")

MOST_REMEMBERED = 4096
"""Maximum number of parsed quantities in a cache."""


@frozen
class Quantity:
    """Marks a field that is written with a unit and stored as a plain number."""

    parse: Callable[[object], float | str]
    """Parser from text or a number to the stored value; raises `units.UnitError`."""
    noun: str
    """Short noun for the quantity."""
    allowed: Text
    """Description of valid values, for messages."""
    write: Callable[[Any], str]
    """Formatter from the stored number to text."""
    examples: tuple[str, ...]
    """Examples for the JSON schema."""
    parse_stored: Callable[[object], float | str] | None = None
    """Parser for files from run folders, which may contain values that are invalid today; None: the same parser."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self.parse_stored is None:
            return core_schema.no_info_before_validator_function(self.parse, handler(source))
        return core_schema.with_info_before_validator_function(self._parsed, handler(source))

    def _parsed(self, value: object, info: core_schema.ValidationInfo) -> float | str:
        stored = self.parse_stored if info.context is not None and info.context.get(STORED) else None
        return (stored or self.parse)(value)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": ["string", "number"],
            "examples": list(self.examples),
            "description": str(self.allowed),
        }


@frozen
class Shorthand:
    """Marks a field that also has a short form."""

    expand: Callable[[object], object]
    """Function from the short form to the full form; it returns other values unchanged."""
    schema: Callable[[JsonSchemaValue], JsonSchemaValue]
    """Function from the full form's schema to the short form's schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.expand, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        full = handler(schema)
        return {"anyOf": [*full.get("anyOf", [full]), self.schema(full)]}


def _absent_if_none(value: object) -> object:
    return None if isinstance(value, str) and value == "none" else value


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _remembered(parse: Callable[[object], T]) -> Callable[[object], T]:
    """Return the parser with a cache for text, because levels are resolved repeatedly."""
    known: dict[str, T] = {}

    def remembering(value: object) -> T:
        if not isinstance(value, str):
            return parse(value)
        if value not in known:
            if len(known) > MOST_REMEMBERED:
                known.clear()
            known[value] = parse(value)
        return known[value]

    return remembering


_bytes = _remembered(units.parse_bytes)

_bits_per_second = _remembered(units.parse_bits_per_second)

_nanoseconds = _remembered(units.parse_nanoseconds)

_milliseconds = _remembered(partial(units.parse_nanoseconds, meant=("ms",)))

_microseconds = _remembered(partial(units.parse_nanoseconds, meant=("us",)))

_interval = _remembered(partial(units.parse_nanoseconds, meant=("ms", "s")))


def _offset(value: object) -> int:
    """Parse a duration with an optional minus sign."""
    before = isinstance(value, str) and value.lstrip().startswith("-")
    try:
        duration_ns = _nanoseconds(value.lstrip()[1:] if isinstance(value, str) and before else value)
    except units.UnitError as error:
        raise units.UnitError(value, OFFSET_ALLOWED, error.advice) from error
    return -duration_ns if before else duration_ns


def _write_offset(offset_ns: int) -> str:
    return ("-" if offset_ns < 0 else "") + units.write_nanoseconds(abs(offset_ns))


def _line_rate(value: object) -> str:
    text = units.parse_frame_rate(value) if value != 0 else ""
    number, unit = units.split_frame_rate(text) if text else (0.0, "")
    if unit not in ("pps", "bit") or number < 1 or number != int(number):
        raise units.UnitError(value, LINE_RATE_ALLOWED)
    return text


def _whole_seconds(value: object) -> float:
    duration_ns = _nanoseconds(value)
    if duration_ns % NS_PER_S or duration_ns > MOST_SECONDS * NS_PER_S:
        raise units.UnitError(value, SECONDS_ALLOWED)
    return duration_ns


def _period(value: object) -> float:
    period_ns = _nanoseconds(value)
    if period_ns % NS_PER_MS or not LEAST_PERIOD_MS <= period_ns // NS_PER_MS <= MOST_PERIOD_MS:
        raise units.UnitError(value, PERIOD_ALLOWED)
    return period_ns


def _memory(value: object) -> float:
    size_bytes = _bytes(value)
    if not LEAST_MEMORY_BYTES <= size_bytes <= MOST_MEMORY_BYTES:
        raise units.UnitError(value, MEMORY_ALLOWED)
    return size_bytes


def _blocks(value: object) -> float:
    size_bytes = _bytes(value)
    if size_bytes % BLOCK_BYTES:
        raise units.UnitError(value, BLOCKS_ALLOWED)
    return size_bytes


def _window(value: object) -> float:
    size_bytes = _bytes(value)
    if size_bytes > MOST_WINDOW_BYTES:
        raise units.UnitError(value, WINDOW_ALLOWED)
    return size_bytes


def _write_length(value: object) -> float:
    length = _bytes(value)
    if not 0 < length <= MOST_LENGTH:
        raise units.UnitError(value, LENGTH_ALLOWED)
    return length


Maybe = Annotated[T | None, Shorthand(_absent_if_none, lambda _: {"const": "none"})]
"""A value, or `none`."""

_SIZE = Quantity(_bytes, "a size", units.BYTES_ALLOWED, units.write_bytes, ("128K", "1G"))

_RATE = Quantity(
    _bits_per_second,
    "a bit rate",
    units.BITS_PER_SECOND_ALLOWED,
    units.write_bits_per_second,
    ("1000Mbit", "64kbit"),
)

_TIME = Quantity(
    _nanoseconds, "a duration", units.NANOSECONDS_ALLOWED, units.write_nanoseconds, ("10s", "12us")
)

_DELAY, _WINDOW_TIME, _INTERVAL = (
    Quantity(parse, "a duration", units.NANOSECONDS_ALLOWED, units.write_nanoseconds, examples)
    for parse, examples in (
        (_milliseconds, ("10ms", "12us")),
        (_microseconds, ("12us", "1ms")),
        (_interval, ("1ms", "1s")),
    )
)

_OFFSET = Quantity(_offset, "a time before or after", OFFSET_ALLOWED, _write_offset, ("0s", "5s", "-5s"))

_SECONDS = Quantity(_whole_seconds, "whole seconds", SECONDS_ALLOWED, units.write_nanoseconds, ("10s",))

_PERIOD = Quantity(_period, "a period", PERIOD_ALLOWED, units.write_nanoseconds, ("100ms", "1s"))

_BLOCKS = Quantity(_blocks, "a size in blocks", BLOCKS_ALLOWED, units.write_bytes, ("256M", "4K"))

_WINDOW = Quantity(_window, "a size up to 512M", WINDOW_ALLOWED, units.write_bytes, ("128K", "16M"))

_LENGTH = Quantity(_write_length, "a write length", LENGTH_ALLOWED, units.write_bytes, ("8K", "1400"))

_MEMORY = Quantity(_memory, "a size from 96M", MEMORY_ALLOWED, units.write_bytes, ("512M", "2G"))

_SHARE = Quantity(units.parse_share, "a share", units.SHARE_ALLOWED, units.write_ratio, ("50%", "1.2"))

_LOAD = Quantity(
    units.parse_frame_rate, "a frame rate", units.FRAME_RATE_ALLOWED, str, ("100kpps", "500Mbit", "10%")
)

_LINE_RATE = Quantity(_line_rate, "a rate", LINE_RATE_ALLOWED, str, ("100Mbit", "20kpps"))

_RATIO = Quantity(
    units.parse_ratio,
    "a ratio",
    units.RATIO_ALLOWED,
    units.write_ratio,
    ("0.01%", "0.0001"),
    units.parse_stored_ratio,
)

Bytes = Annotated[int, _SIZE]
"""A size [bytes]."""

SomeBytes = Annotated[int, Field(gt=0), _SIZE]
"""A size above 0 [bytes]."""

Memory = Annotated[int, _MEMORY]
"""Memory of a guest [bytes]."""

BlockBytes = Annotated[int, Field(gt=0), _BLOCKS]
"""A size in whole disk blocks, at least one [bytes]."""

BitsPerSecond = Annotated[int, Field(gt=0), _RATE]
"""A bit rate above 0 [bit/s]."""

Nanoseconds = Annotated[int, _TIME]
"""A duration [ns]."""

Offset = Annotated[int, _OFFSET]
"""A time after an event, or before it if negative [ns]."""

Period = Annotated[int, _PERIOD]
"""Interval between counter readings [ns]."""

WholeSeconds = Annotated[int, _SECONDS]
"""A duration in whole seconds [ns]."""

SomeWholeSeconds = Annotated[int, Field(gt=0), _SECONDS]
"""A duration in whole seconds, at least one [ns]."""

Window = Annotated[int, Field(gt=0), _WINDOW]
"""Socket buffers that a stream program requests [bytes]."""

WriteLength = Annotated[int, _LENGTH]
"""Bytes per write of a stream program [bytes]."""

SomeNanoseconds = Annotated[int, Field(gt=0), _TIME]
"""A duration above 0 [ns]."""

Delay = Annotated[int, _DELAY]
"""A delay on a path [ns]; the error message for a number without a unit suggests milliseconds."""

SomeDelay = Annotated[int, Field(gt=0), _DELAY]
"""A delay on a path, above 0 [ns]."""

SomeWindow = Annotated[int, Field(gt=0), _WINDOW_TIME]
"""A duration between frames, above 0 [ns]; the error message for a number without a unit suggests microseconds."""

SomeInterval = Annotated[int, Field(gt=0), _INTERVAL]
"""An interval between requests, above 0 [ns]."""

Ratio = Annotated[float, _RATIO]
"""A ratio from 0 to 1 [ratio]."""

Share = Annotated[float, Field(ge=0, le=2), _SHARE]
"""A ratio of a rate; it may exceed 1 [ratio]."""

LineRate = Annotated[str, _LINE_RATE]
"""A bit rate or frame rate in its canonical spelling: "10000000bit", "20000pps"."""

FrameRate = Annotated[str, _LOAD]
"""A load in its canonical spelling: "100000pps", "500000000bit", "10%"; `units.split_frame_rate` parses it."""

Count = Annotated[int, Field(strict=True)]
"""A whole number; text and booleans are invalid."""

Flag = Annotated[bool, Field(strict=True)]
"""true or false."""

Switch = Literal["on", "off"]
"""on or off, as in ethtool."""

Setting = Annotated[str, Shorthand(_text, lambda _: {"type": "number"})]
"""Text; a number is converted as YAML parses it, so a number whose spelling matters (007, 1.50) must be quoted."""
