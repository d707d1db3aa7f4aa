"""What a language must say about series of trials."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTimeWords:
    """Series of trials: on the page, and in the terminal."""

    heading: str
    note: str
    """What the small charts are."""
    thinned: str
    """Where a column of a chart stands for several readings."""
    shown: str
    """{shown} {total} {limit}: trials with charts, and the size that the page gives them."""
    trial: str
    """{measure} {block}"""
    trial_of: str
    """{measure} {cell} {block}"""
    key: str
    """{key} {duration}"""
    scale: str
    """{top}: end of a common axis."""
    figures: str
    """{min} {mean} {max}"""
    alt: str
    """{name} {of} {figures}"""
    left_out: str
    """{count}: series of a quantity that are not drawn."""
    more: str
    """{file}"""
    no_series: str
    """{trial}"""
    about: str
    """Head of the column that says what a series is about."""
    course: str
    """Head of the column of sparklines."""
