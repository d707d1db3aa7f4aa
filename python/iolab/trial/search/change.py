"""Whether the device changed during a search: the same load fared otherwise in the end than at first. Pure."""

from collections.abc import Sequence
from statistics import mean

from iolab.messages.warnings import DeviceChanged
from iolab.results.search import EXCUSED_RATIO, LoadResult

SAME_LOAD = 1.03
"""Loads that differ by less are the same [ratio]."""
FEWEST = 3
"""Trials before and after: by chance three are all above three others once in twenty times."""
APART = 0.8
"""What was forwarded of a load must have fallen or risen by more than this ratio, from any trial to any other."""


def find_change(results: Sequence[LoadResult]) -> DeviceChanged | None:
    """Return the load at which the device changed most, or None: every load fared alike whenever it was tried.

    Trials whose sender was held up for long are left out: they were other loads.
    """
    sent = [each for each in results if each.offered_frames and each.unsent_ratio <= EXCUSED_RATIO]
    found = [change for each in _same_loads(sent) if (change := _change(each)) is not None]
    return max(found, key=lambda each: abs(each.earlier_ratio - each.later_ratio), default=None)


def _same_loads(results: Sequence[LoadResult]) -> list[list[LoadResult]]:
    """Return the trials of each load, in the order of their times."""
    order = sorted(range(len(results)), key=lambda at: results[at].intended_fps)
    groups: list[list[int]] = []
    for at in order:
        if groups and results[at].intended_fps <= SAME_LOAD * results[groups[-1][0]].intended_fps:
            groups[-1].append(at)
        else:
            groups.append([at])
    return [[results[at] for at in sorted(group)] for group in groups]


def _change(results: Sequence[LoadResult]) -> DeviceChanged | None:
    """Return the change between any two neighbours in time that parts all before from all after."""
    shares = [1.0 - each.loss_ratio for each in results]
    for at in range(FEWEST, len(shares) - FEWEST + 1):
        before, after = shares[:at], shares[at:]
        if max(after) < APART * min(before) or max(before) < APART * min(after):
            return DeviceChanged(
                load_fps=mean([each.intended_fps for each in results]),
                earlier_ratio=mean(before),
                later_ratio=mean(after),
            )
    return None
