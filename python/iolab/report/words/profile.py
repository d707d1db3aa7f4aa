"""What a language must say of profiles."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileWords:
    """Where threads spent their time."""

    functions: str
    """{measure} {metric}: caption of the table of functions."""
    waits: str
    """{measure} {metric}: caption of the table of places that waited for locks."""
    place: str
    """Head of their column."""
    heading: str
    note: str
    trial: str
    """{cell} {block} {machine}: one flame graph."""
    alt: str
    """{functions}: the widest of them."""
    frame: str
    """{function} {ratio}"""
    left_out: str
    """{shown} {total}"""
