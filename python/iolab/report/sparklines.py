"""The series of one trial in a terminal: a line each, with its course in block characters."""

import math
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iolab.plan.types import Plan
from iolab.report import over_time
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names_of
from iolab.report.wire import course, wire_trial
from iolab.results.series import Series, Values
from iolab.store.records import TrialRecord

COLUMNS = 40
"""Of a sparkline."""
EVERY = 10_000
"""More series than a trial has: none is left out."""
BLOCKS = "▁▂▃▄▅▆▇█"


def trial_over_time(
    trial: TrialRecord, series: Sequence[Series], plan: Plan, words: Words = EN
) -> RenderableType:
    """Render the series of a trial; those of one quantity share the scale, which begins at 0."""
    named = names_of(plan, words)
    laid = over_time.panels(trial, series, named, COLUMNS, EVERY)
    on_wire = _on_wire(trial, series, named)
    if laid is None and not on_wire:
        return Text(words.text("over_time.no_series", trial=over_time.title(trial, named)))
    if laid is None:
        return Group(*on_wire)
    heads = words.text(
        "over_time.figures",
        min=words.text("table.min"),
        mean=words.text("table.mean"),
        max=words.text("table.max"),
    )
    parts: list[RenderableType] = [
        Text(laid.title, style="bold"),
        Text(words.text("over_time.key", key=laid.key, duration=laid.duration), style="dim"),
    ]
    for group in laid.groups:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column(
            f"{group.title}, {words.text('over_time.scale', top=group.top_text)}", overflow="fold"
        )
        table.add_column(words.text("over_time.course"), no_wrap=True)
        table.add_column(heads, no_wrap=True)
        for panel in group.panels:
            course = sparkline(panel.columns.mean, group.top)
            table.add_row(Text(panel.title), course, Text(panel.figures))
        parts += ["", table]
    return Group(*parts, *on_wire)


def _on_wire(trial: TrialRecord, series: Sequence[Series], named: Names) -> list[RenderableType]:
    """Render what was watched: of each point the course of its shortest windows, and three figures."""
    laid = wire_trial(trial, series, named)
    if laid is None:
        return []
    parts: list[RenderableType] = ["", Text(named.words.text("wire.heading"), style="bold")]
    for point in laid.points:
        shortest = min((each for _, each in point.windows), key=_length_ns, default=None)
        if shortest is None:
            continue
        carried = course(shortest, COLUMNS)
        parts.append(Text(f"{point.title}  {sparkline(carried, float(carried.max()))}  {point.figures}"))
        if point.holds:
            parts.append(Text(point.holds, style="dim"))
    return parts


def _length_ns(series: Series) -> int:
    return series.dimensions.window_ns or 0


def sparkline(values: Values, top: float) -> str:
    """Write values as block characters between 0 and `top`: the lowest is 0 alone, a space is where none is known."""
    return "".join(
        " " if not math.isfinite(value) else BLOCKS[_block(value / top if top > 0 else 0.0)]
        for value in values.tolist()
    )


def _block(share: float) -> int:
    return min(len(BLOCKS) - 1, max(0, math.ceil(share * (len(BLOCKS) - 1))))
