"""Count work in calls of Python functions: the same on every machine, however busy."""

from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile
from dataclasses import dataclass


@dataclass
class Work:
    """The work done within `counted`."""

    calls: int = 0
    """Number of function calls, including those of the interpreter."""


@contextmanager
def counted() -> Iterator[Work]:
    """Count the calls within a block: `with counted() as work: ...`, then `work.calls`."""
    work, profile = Work(), Profile()
    profile.enable()
    try:
        yield work
    finally:
        profile.disable()
        work.calls = sum(entry.callcount for entry in profile.getstats())
