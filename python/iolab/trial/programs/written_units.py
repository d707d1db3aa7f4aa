"""Units as programs write them behind their numbers, in the unit that a figure is declared in. Pure."""

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation

_TIMES = {
    spelling: Decimal(one)
    for spellings, one in (
        (("ns", "nsec", "nanosecond", "nanoseconds"), "1e-9"),
        (("us", "µs", "μs", "usec", "microsecond", "microseconds"), "1e-6"),
        (("ms", "msec", "millisecond", "milliseconds"), "1e-3"),
        (("s", "sec", "secs", "second", "seconds"), "1"), (("m", "min", "mins", "minute", "minutes"), "60"),
        (("h", "hour", "hours"), "3600"),
    )
    for spelling in spellings
}  # fmt: skip
_BIT_RATES = {
    f"{prefix}{spelling}": Decimal(1000) ** power
    for power, prefixes in enumerate(("", "kK", "M", "G", "T"))
    for prefix in prefixes or ("",)
    for spelling in ("bit/s", "bits/s", "bits/sec", "bps")
}
_COUNTS = {"": Decimal(1), "count": Decimal(1), "1/s": Decimal(1)} | {
    prefix: Decimal(1000) ** power
    for power, prefixes in enumerate(("kK", "M", "G", "T"), 1)
    for prefix in prefixes
}
_EVENT_RATES = {"1/s": Decimal(1)} | {
    f"{prefix}{spelling}": Decimal(1000) ** power
    for power, prefixes in enumerate(("kK", "M", "G"), 1)
    for prefix in prefixes
    for spelling in ("ops", "op/s", "ops/s", "ops/sec", "iops", "IOPS", "req/s", "pps", "qps", "tps", "rps")
}
"""Events per second with a letter for thousands. Without one their words are no unit: 5 ops may be a count."""
_SHORT_BITS = {
    f"{prefix}b{per}": prefix for prefix in ("", "k", "K", "M", "G", "T") for per in ("/s", "/sec")
}
"""Bits per second for some programs, bytes for others: never taken for another unit."""
_SHARES = {"ratio": Decimal(1), "%": Decimal("0.01")}
_FAMILIES = (_TIMES, _BIT_RATES, _SHARES, _COUNTS, _EVENT_RATES)
"""Units that can be converted. Bytes are not among them: MB is 10^6 bytes for one program, 2^20 for another."""
_BYTES = {
    f"{prefix}{spelling}{per}": f"{prefix.upper()}B{per and '/s'}"
    for prefix in ("", "k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")
    for spelling in ("B", "byte", "bytes", "Byte", "Bytes")
    for per in ("", "/s", "/sec", "ps")
}
"""Spellings of bytes and of bytes per second to one spelling of each."""
_DISTINCT: tuple[Mapping[str, object], ...] = (_TIMES, _BIT_RATES, _SHARES, _BYTES, _EVENT_RATES, _SHORT_BITS)
"""Families of which a unit is recognised after a number. A count has no unit, or a letter for thousands."""
_ALSO_WORDS = frozenset({"m", "h"})
"""Units of time that mean something else more often."""
_EXACT = Context(prec=100)


def scaled(number: str, written: str, declared: str) -> str | None:
    """Return a number that was written with one unit in another one, exactly; None: one is not the other's."""
    if written == declared:
        return number
    for family in _FAMILIES:
        if written in family and declared in family:
            try:
                return str(_EXACT.divide(Decimal(number) * family[written], family[declared]))
            except InvalidOperation:
                return None
    return None


def is_other(behind: str, declared: str) -> bool:
    """Whether the text after a number is a unit other than the declared one.

    A letter for thousands, or the unit of another family (bytes after a count), must follow without a blank or have
    several letters: in "3 k" and "3 s" it may be a word. Declared units that iolab does not know are not judged.
    """
    word = behind.lstrip(" \t")
    attached = word == behind
    if not word or word == declared:
        return False
    if attached and word in _COUNTS:
        return not declared.startswith(word)
    family = next((one for one in _DISTINCT if word in one and word not in _ALSO_WORDS), None)
    if family is None:
        return False
    if declared in family:
        return family[declared] != family[word]
    known = declared in _COUNTS or any(declared in one for one in _DISTINCT)
    return known and (attached or len(word) > 1 or word == "%")
