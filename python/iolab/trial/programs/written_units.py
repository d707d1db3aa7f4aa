"""Units as programs write them behind their numbers, in the unit that a figure is declared in. Pure."""

from decimal import Context, Decimal, InvalidOperation

_TIMES = {
    spelling: Decimal(one)
    for spellings, one in (
        (("ns", "nsec"), "1e-9"), (("us", "µs", "μs", "usec"), "1e-6"), (("ms", "msec"), "1e-3"),
        (("s", "sec", "secs", "second", "seconds"), "1"), (("m", "min"), "60"), (("h",), "3600"),
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
_FAMILIES = (_TIMES, _BIT_RATES, _COUNTS)
"""Bytes are not among them: what one program calls MB is 10^6 bytes, what another calls so is 2^20."""
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
    """Tell whether what stands behind a number is a unit that is not the declared one.

    That is another time (a blank may be before it; m and h are also something else), or a letter for thousands.
    """
    word = behind.lstrip(" \t")
    if word == behind and word in _COUNTS and word:
        return not declared.startswith(word)
    time = _TIMES.get(word) if word not in ("m", "h") else None
    return time is not None and declared in _TIMES and _TIMES[declared] != time
