"""Answers of an agent with mostly empty fields."""

from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast, get_type_hints

T = TypeVar("T")
BLANK: dict[type, Any] = {int: 0, str: "", bool: False}


def zeros(kind: type[T], /, **known: Any) -> T:
    """Return an answer with these fields; other required fields are 0 or empty."""
    hints = get_type_hints(kind)
    needed = [one.name for one in fields(cast(Any, kind)) if one.default is MISSING]
    return kind(**{name: BLANK.get(hints[name], ()) for name in needed} | known)
