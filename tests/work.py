"""How much work something is, in calls of Python functions: the same on every machine, however busy that is."""

from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile
from dataclasses import dataclass


@dataclass
class Work:
    """What was done between the beginning and the end of `counted`."""

    calls: int = 0
    """Functions that were called, those of the interpreter included."""


@contextmanager
def counted() -> Iterator[Work]:
    """Count the calls of what is done inside: `with counted() as work: ...`, then `work.calls`."""
    work, profile = Work(), Profile()
    profile.enable()
    try:
        yield work
    finally:
        profile.disable()
        work.calls = sum(entry.callcount for entry in profile.getstats())
