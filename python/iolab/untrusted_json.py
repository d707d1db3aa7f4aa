"""JSON from a program or a peer that may be damaged or hostile: read without surprises for what computes with it."""

import json
import re
from typing import Any

_LONG_NUMBER = re.compile(r"\d{19}")
"""Only a text with such a number can hold one beyond 64 bits; most have none, and are read without the check."""
_LEAST, _MOST = -(2**63), 2**64 - 1
_DIGITS = 20
"""Of the longest such number."""


def read_untrusted(text: str | bytes, *, unique_keys: bool = False) -> Any:
    """Return the value that `text` is.

    A number that is not finite, or a whole one beyond 64 bits, becomes None: no typed field takes that for a number.

    Raises:
        ValueError: it is not JSON, nested too deep, or, with `unique_keys`, an object has a key twice.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    whole = _within_64_bits if _LONG_NUMBER.search(text) else int
    pairs = _unique if unique_keys else None
    try:
        return json.loads(
            text, parse_float=_finite, parse_constant=_nothing, parse_int=whole, object_pairs_hook=pairs
        )
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's pairs as a mapping.

    Raises:
        ValueError: a key occurs twice; which of the values is meant is not known.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return found


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if value - value == 0 else None


def _within_64_bits(digits: str) -> int | None:
    if len(digits) > _DIGITS:
        return None
    value = int(digits)
    return value if _LEAST <= value <= _MOST else None


def _nothing(_: str) -> None:
    """Return None for the words NaN and Infinity, which are no JSON."""
