"""Searches for the highest rate: a row per search with its duration, its parameters, and its strategy class.

A new search needs a row in this table, and a strategy in `trial/search`, which is imported on first use.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from iolab.frozen import frozen

SearchKind = Literal["bisect", "mlr", "fast"]
FAST_NS = 7_000_000_000
"""Duration of a `fast` search with 1 % width and a loss goal of 1e-4 [ns]; slower devices take longer."""
BISECT_TRIALS = 9
"""Load trials of one bisection: from a start at 5 Mpps to a width of 1 % near 500 kpps (RFC 2544, section 26.1)."""
MLR_TRIALS = 14
"""Load trials of MLRsearch with its default goal, 1 s each: median of 40 simulated searches."""


@frozen(kw_only=True)
class SearchRow:
    """One search."""

    strategy: str
    """The `iolab.trial.search.types.Strategy` as module:class; its constructor gets a goal and the parameters in
    `takes`."""
    duration_ns: Callable[[int, int], int]
    """Function that returns the duration [ns] from the duration of a load trial [ns] and the number of complete
    searches."""
    takes: frozenset[Literal["start_fps", "searches"]] = frozenset()
    """Parameters in addition to the goal: the first load, and the number of complete searches."""
    zero_loss: bool = True
    """Whether the search supports a loss goal of 0."""


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
            zero_loss=False,  # needs 10/loss_ratio frames
        ),
    }
)
"""Row of each search, by name."""
