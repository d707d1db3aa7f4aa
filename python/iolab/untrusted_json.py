"""Parse JSON from a program or peer; the JSON may be damaged or hostile."""

import json
import re
from typing import Any

from iolab.locale import Phrase

_LONG_NUMBER = re.compile(r"\d{19}")
"""Pattern of a number that may exceed 64 bits; a text without a match is parsed without checking its numbers."""
_LEAST, _MOST = -(2**63), 2**64 - 1
_DIGITS = 20
"""Maximum number of digits in a 64-bit integer."""


def read_untrusted(text: str | bytes, *, unique_keys: bool = False) -> Any:
    """Return the value of a JSON text.

    A number that is not finite, or an integer beyond 64 bits, becomes None, which no typed field accepts as a number.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or, with `unique_keys`, an object has a duplicate key.
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
        raise ValueError(Phrase("errors.json-too-deep")) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the key-value pairs of a JSON object as a mapping.

    Raises:
        ValueError: a key occurs twice, so its value is ambiguous.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(Phrase("errors.json-key-twice", key=repr(twice)))
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
    """Return None for NaN and Infinity, which are not valid JSON."""
