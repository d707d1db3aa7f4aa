"""Searches for the highest rate: a row per search says how long it takes, what it takes, and which class decides.

A new search is a row here and its strategy in `trial/search`, which is loaded when it is wanted.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from iolab.frozen import frozen

SearchKind = Literal["bisect", "mlr", "fast"]
FAST_NS = 7_000_000_000
"""A search by `fast` at 1 % width and 1e-4 loss [ns]: it takes longer the slower the device is."""
BISECT_TRIALS = 9
"""Load trials of one bisection: from 5 Mpps to a width of 1 % near 500 kpps (RFC 2544, section 26.1)."""
MLR_TRIALS = 14
"""Load trials of MLRsearch at its usual goal, 1 s each: median of 40 searches in simulation."""


@frozen(kw_only=True)
class SearchRow:
    """One search."""

    strategy: str
    """Its `iolab.trial.search.types.Strategy`, as module:class; it is made with a goal, and with what it takes."""
    duration_ns: Callable[[int, int], int]
    """How long it takes, given the length of a load trial [ns] and how many whole searches are asked for [ns]."""
    takes: frozenset[Literal["start_fps", "searches"]] = frozenset()
    """What it takes beside its goal: the first load, and how many whole searches there are."""
    zero_loss: bool = True
    """Whether it can look for the rate without any loss."""


SEARCHES: Mapping[SearchKind, SearchRow] = MappingProxyType(
    {
        "bisect": SearchRow(
            strategy="iolab.trial.search.bisect:Bisect",
            duration_ns=lambda trial_ns, searches: BISECT_TRIALS * searches * trial_ns,
            takes=frozenset({"start_fps", "searches"}),
        ),
        "mlr": SearchRow(
            strategy="iolab.trial.search.mlr:Mlr",
            duration_ns=lambda trial_ns, _: MLR_TRIALS * trial_ns,
        ),
        "fast": SearchRow(
            strategy="iolab.trial.search.fast:Fast",
            duration_ns=lambda _trial_ns, _: FAST_NS,
            zero_loss=False,  # it needs 10/loss_ratio frames
        ),
    }
)
"""The table."""
