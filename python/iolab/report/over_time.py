"""Series of trials as small panels of one size: quantities of one name share a scale, and all share the time.

What is drawn from it is the page's and the terminal's business.
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
    """One series."""

    title: str
    """What it is about: near → far, cpu1; empty: the whole trial."""
    figures: str
    """Its least, mean and largest value."""
    columns: Thinned
    """Its course [stored unit]."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The series of one name."""

    title: str
    """What they are of."""
    top: float
    """Where their common scale ends; it begins at 0 [stored unit]."""
    top_text: str
    """The same, with its unit."""
    panels: tuple[Panel, ...]
    """One per series, in their order; where there are too many, of those with the largest values."""
    left_out: int
    """Series of this name that have no panel."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialPanels:
    """One trial."""

    title: str
    """Measure, cell and block."""
    key: str
    """Its key in the run folder."""
    duration: str
    """From the first reading to the last point."""
    groups: tuple[Group, ...]
    """In the order of the record: what was measured first, then what instruments saw."""


def panels(
    trial: TrialRecord, series: Sequence[Series], named: Names, columns: int, most: int
) -> TrialPanels | None:
    """Lay out a trial in panels of at most `columns` columns, `most` of a name; None: it stored no series."""
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
    """Say which trial it is: measure, cell, block."""
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
    by = numbers.scale(
        series.name, series.unit, [most]
    )  # a port with a thousandth of the rate has its own unit
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
