"""Small charts of a trial's series: series with the same name share the vertical scale, and all series share the time
axis.

The page and the terminal draw the charts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from iolab.analysis.thinning import Thinned, thin
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.numbers import Scale
from iolab.results.metric import Quantity
from iolab.results.series import Over, Series
from iolab.store.records import TrialRecord


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """The chart of one series."""

    title: str
    """Dimensions of the series: near → far, cpu1; empty: the whole trial."""
    figures: str
    """Minimum, mean and maximum."""
    columns: Thinned
    """Minimum, mean and maximum over time [stored unit]."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The series with the same name."""

    title: str
    """Display name of the series."""
    top: float
    """Upper end of their common scale, which starts at 0 [stored unit]."""
    top_text: str
    """Upper end of the scale as text with its unit."""
    panels: tuple[Panel, ...]
    """One panel per series, in order; if there are too many series, only those with the largest values have panels."""
    left_out: int
    """Number of series with this name that have no panel."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialPanels:
    """The charts of one trial."""

    title: str
    """Measure, cell and block."""
    key: str
    """Key of the trial in the run folder."""
    duration: str
    """Time from the first reading to the last point."""
    groups: tuple[Group, ...]
    """Groups in record order: measured series first, then those of instruments."""


def panels(
    trial: TrialRecord, series: Sequence[Series], named: Names, columns: int, most: int
) -> TrialPanels | None:
    """Return the panels of a trial with at most `columns` columns and `most` panels per name.

    The result is None if no series is stored.
    """
    series = [each for each in series if each.over is Over.TIME]
    if not series:
        return None
    end_ns = max(int(each.at_ns[-1]) for each in series)
    groups: dict[tuple[str, str], list[Series]] = {}
    for each in series:
        groups.setdefault((each.name, each.unit), []).append(each)
    return TrialPanels(
        title=title(trial, named),
        key=trial.key,
        duration=_figure(float(end_ns), numbers.scale("", "ns", [end_ns]), named),
        groups=tuple(_group(own, end_ns, named, columns, most) for own in groups.values()),
    )


def title(trial: TrialRecord, named: Names) -> str:
    """Return the name of a trial: measure, cell, block."""
    words = named.words
    cell = named.cell(trial.cell)
    text = words.text("over_time.trial_of") if cell else words.text("over_time.trial")
    return text.format(measure=named.measure(trial.measure), cell=cell, block=trial.block)


def _group(series: Sequence[Series], end_ns: int, named: Names, columns: int, most: int) -> Group:
    first = series[0]
    every = np.fromiter(chain.from_iterable(each.values for each in series), dtype=float)
    finite = every[np.isfinite(every)]
    top = float(finite.max()) if len(finite) else 0.0
    by = numbers.scale(first.name, first.unit, [top])
    largest = sorted(range(len(series)), key=lambda at: -float(np.nanmax(series[at].values, initial=0.0)))
    shown = [series[at] for at in sorted(largest[:most])]
    return Group(
        title=named.metric(Quantity(first.name)),
        top=top,
        top_text=_figure(top, by, named),
        panels=tuple(_panel(each, end_ns, named, columns) for each in shown),
        left_out=len(series) - len(shown),
    )


def _panel(series: Series, end_ns: int, named: Names, columns: int) -> Panel:
    known = series.values[np.isfinite(series.values)]
    least, mean, most = (
        (float(known.min()), float(known.mean()), float(known.max())) if len(known) else (0.0, 0.0, 0.0)
    )
    by = numbers.scale(series.name, series.unit, [most])  # a port with a much lower rate has a smaller unit
    figures = named.words.text(
        "over_time.figures",
        min=_bare(least, by, named),
        mean=_bare(mean, by, named),
        max=_figure(most, by, named),
    )
    return Panel(named.component(series.dimensions), figures, thin(series, end_ns, columns))


def _figure(value: float, by: Scale, named: Names) -> str:
    return numbers.quantity(value, by, numbers.decimals_for(0.0, value * by.factor), named.words)


def _bare(value: float, by: Scale, named: Names) -> str:
    return numbers.figure(value, by, numbers.decimals_for(0.0, value * by.factor), named.words)
