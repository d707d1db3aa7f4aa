"""Cells over time: the figures of each run in a library, and suspected changes.

The unit of the analysis is the run: the trials of one run share its guests, its host state and its hour, so these
trials do not show the variance between runs. A suspect is not a finding: a change of the host looks the same as a
change of the product. docs/method/history.md has the procedure and its error rates.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import numpy as np

from iolab.analysis.sequential import CLIP_SD, LATEST_RUNS, REFERENCE_RUNS, ROBUST_SD, SLACK_SD, TRIGGER_SD

SAME = REFERENCE_RUNS // 2 + 2 * LATEST_RUNS
"""Number of runs after a change during which most reference runs may be older than the change."""
MIN_REFERENCE = 8
"""Minimum number of reference runs: with fewer runs, their spread is not known."""
MEAN_TO_SD = 1.2533
"""Ratio of the standard deviation of normal data to their mean absolute deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One series in one run."""

    run: str
    """Identity of the run in the library."""
    time_us: int
    """Time of the run's first trial since 1970 [us]."""
    median: float
    """Median of the run's trials."""
    low: float
    """Minimum of the run's trials."""
    high: float
    """Maximum of the run's trials."""
    trials: int
    """Number of trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A suspected change."""

    noticed: int
    """Index of the run at which the change was noticed."""
    begin: int
    """Index of the first run that contributed to the suspicion."""
    before: float
    """Median of the reference runs."""
    after: float
    """Median of the runs from `begin` to `noticed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One series over time."""

    series: str
    """Name of the series."""
    cell: Mapping[str, str]
    """Labels of the cell."""
    metric: str
    unit: str
    dimensions: Mapping[str, str]
    """Dimensions of the metric."""
    method: int | None
    """Method version; None: unknown."""
    host_class: str
    """Class of the hosts, which is equal for comparable hosts."""
    points: tuple[Point, ...]
    """Runs in the order of their time."""
    suspects: tuple[Suspect, ...]
    """Suspected changes, oldest first."""


def suspects(values: Sequence[float]) -> tuple[Suspect, ...]:
    """Return the suspected changes in the medians of consecutive runs.

    The procedure is that of `sequential.suspects`, with its constants; but these suspects also have a first run and
    levels, and fewer reference runs suffice. A lasting change is reported once: until most reference runs are later
    than the change, triggers in the same direction need a further change of the level.
    """
    found: list[Suspect] = []
    sums, begins = [0.0, 0.0], [0, 0]
    newest: list[Suspect | None] = [None, None]
    for at, value in enumerate(values):
        end = max(0, at - LATEST_RUNS)
        reference = values[max(0, end - REFERENCE_RUNS) : end]
        if len(reference) < MIN_REFERENCE:
            continue
        middle, spread = _location_and_spread(reference)
        z = _clipped(value - middle, spread)
        for side, signed in enumerate((z, -z)):
            begins[side] = at if sums[side] == 0 else begins[side]
            sums[side] = max(0.0, sums[side] + signed - SLACK_SD)
        side = 0 if sums[0] >= sums[1] else 1
        if sums[side] > TRIGGER_SD:
            begin, known = begins[side], newest[side]
            suspect = Suspect(noticed=at, begin=begin, before=middle, after=median(values[begin : at + 1]))
            if known is None or at > known.begin + SAME or _beyond(suspect, known, side) > spread:
                found.append(suspect)
                newest[side] = suspect
            sums = [0.0, 0.0]
    return tuple(found)


def _beyond(suspect: Suspect, known: Suspect, side: int) -> float:
    """Return by how much the level of a suspect exceeds that of an earlier one in the direction of the change."""
    return (suspect.after - known.after) * (1 if side == 0 else -1)


def _location_and_spread(reference: Sequence[float]) -> tuple[float, float]:
    """Return the median and the robust standard deviation.

    If most runs are equal, the median absolute deviation is 0, and the mean absolute deviation is used instead.
    """
    middle = median(reference)
    distances = [abs(each - middle) for each in reference]
    return middle, ROBUST_SD * median(distances) or MEAN_TO_SD * fmean(distances)


def _clipped(distance: float, spread: float) -> float:
    """Return a deviation in standard deviations, limited on both sides."""
    if spread == 0:
        return 0.0 if distance == 0 else CLIP_SD if distance > 0 else -CLIP_SD
    return min(CLIP_SD, max(-CLIP_SD, distance / spread))


def histories(trials: Any, described: Any, factors: Any) -> tuple[History, ...]:
    """Return every series over time.

    Args:
        trials: Arrow table with `series`, `run`, `time` and `value`, of successful trials.
        described: Arrow table with a row per series.
        factors: Arrow table with a row per cell and factor.
    """
    labels: dict[str, dict[str, str]] = {}
    for row in factors.to_pylist():
        labels.setdefault(row["cell"], {})[row["factor"]] = row["level"]
    points = {name: tuple(found) for name, found in _by_series(trials)}
    rows = [row for row in described.to_pylist() if row["series"] in points]
    made = [
        History(
            series=row["series"],
            cell=labels.get(row["cell"], {}),
            metric=row["metric"],
            unit=row["unit"],
            dimensions=dict(row["dimensions"] or ()),
            method=row["method"],
            host_class=row["host_class"],
            points=points[row["series"]],
            suspects=suspects([point.median for point in points[row["series"]]]),
        )
        for row in rows
    ]
    return tuple(
        sorted(made, key=lambda each: (each.metric, sorted(each.cell.items()), each.host_class, each.series))
    )


def _by_series(trials: Any) -> Iterator[tuple[str, list[Point]]]:
    """Yield each series with its runs in the order of time."""
    series, names = _numbers(trials["series"])
    runs, run_names = _numbers(trials["run"])
    times = trials["time"].cast("int64").to_numpy()
    values = trials["value"].to_numpy()
    order = np.lexsort((times, runs, series))
    keys = np.stack([series[order], runs[order]])
    bounds = (
        [0, *(np.flatnonzero(np.any(np.diff(keys), axis=0)) + 1).tolist(), len(order)] if len(order) else []
    )
    found: dict[str, list[Point]] = {}
    for begin, end in pairwise(bounds):
        rows = order[begin:end]
        own = values[rows]
        point = Point(
            run=run_names[runs[rows[0]]],
            time_us=int(times[rows[0]]),
            median=float(np.median(own)),
            low=float(own.min()),
            high=float(own.max()),
            trials=len(rows),
        )
        found.setdefault(names[series[rows[0]]], []).append(point)
    for name, points in found.items():
        yield name, sorted(points, key=lambda point: (point.time_us, point.run))


def _numbers(column: Any) -> tuple[Any, list[str]]:
    """Return the values of a text column as indices into its distinct texts, and these texts."""
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    encoded = whole if hasattr(whole, "dictionary") else whole.dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
