"""Line charts as Vega-Lite specifications: an ordered axis, a line per series, every trial's point. No data in them.

Series differ by colour, by dash and by symbol, so that a print in black and white still tells them apart.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from iolab.report.panels import CROSS, Line, write
from iolab.report.words import Words

HEIGHT = 250
"""Of a panel's plot [px]."""
LOG_RANGE = 30
"""Values that differ by more than this factor get a logarithmic axis."""
LEAST_SHARE = 1e-4
"""Where an axis of losses ends at the latest: one frame in a million [%]."""
COLOURS = 6
"""How many the style sheet has."""
MOST_TICKS = 1000
"""More than there are levels: a logarithmic axis would drop some otherwise."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 4")
SHAPES = (
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",  # circle
    "M-.9,-.9H.9V.9H-.9Z",  # square
    "M0,-1.1L1.1,.9H-1.1Z",  # triangle
    "M0,-1.3L1,0L0,1.3L-1,0Z",  # diamond
    "M0,1.1L1.1,-.9H-1.1Z",  # triangle that stands on its tip
    "M-1,-.4H-.4V-1H.4V-.4H1V.4H.4V1H-.4V.4H-1Z",  # plus
)


@dataclass(frozen=True, slots=True)
class Across:
    """The axis that a factor or a load makes."""

    title: str
    """What it is."""
    positions: Mapping[str, float]
    """Label to its place."""
    log: bool
    """Logarithmic."""


@dataclass(frozen=True, slots=True)
class Up:
    """The axis of the values."""

    title: str
    """Metric and unit."""
    domain: tuple[float, float]
    """What it shows [shown unit]."""
    log: bool
    """Logarithmic."""
    floor: float = 0.0
    """Logarithmic above this and linear below, so that zero has a place; 0: not so [shown unit]."""


def line(name: str, colour: int, dash: int) -> Line:
    """Give a series its looks; colour and symbol go together."""
    return Line(name, colour % COLOURS, DASHES[dash % len(DASHES)], SHAPES[colour % len(SHAPES)])


def up(title: str, values: Sequence[float], domain: tuple[float, float]) -> Up:
    """Choose the scale of the values."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low > 0 and high > LOG_RANGE * low:
        return Up(title, (low / 1.25, high * 1.25), log=True)
    return Up(title, domain, log=False)


def up_from_zero(title: str, values: Sequence[float]) -> Up:
    """Shares from a frame in a million to all of them: decades, with zero below the least of them."""
    positive = [value for value in values if value > 0]
    least = max(min(positive, default=LEAST_SHARE), LEAST_SHARE)
    floor = 10.0 ** math.floor(math.log10(least))
    return Up(title, (0.0, max([*positive, floor * 10]) * 1.5), log=True, floor=floor)


def spec(across: Across, upward: Up, lines: Sequence[Line], words: Words) -> str:
    """Write the specification for panels with the data sets `points`, `means` and `reference`."""
    names = [str(index) for index in range(len(lines))]
    places = across.positions.values()
    ends = (min(places), max(places))
    x = alt.X("x:Q", scale=_scale(ends, 18, log=across.log), axis=_ticks(across), title=across.title)

    def y(field: str) -> alt.Y:
        return _upward(field, upward)

    colour = alt.Stroke(
        "series:N",
        scale=alt.Scale(domain=names, range=[f"var(--s{each.colour})" for each in lines]),
        legend=None,
    )
    dashes = [[int(part) for part in each.dash.split()] or [1, 0] for each in lines]
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=names, range=dashes), legend=None)
    shape = alt.Shape(
        "series:N", scale=alt.Scale(domain=names, range=[each.shape for each in lines]), legend=None
    )
    points, means, reference = (alt.NamedData(name=name) for name in ("points", "means", "reference"))
    tips, mean_tips = _tooltips(across.title, words)
    limit = alt.Chart(reference).mark_line(
        stroke="var(--muted)", strokeWidth=1.4, strokeDash=[1, 3], clip=True
    )
    interval = (
        alt.Chart(means)
        .transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=6, opacity=0.3, strokeCap="butt")
    )
    joined = alt.Chart(means).mark_line(strokeWidth=1.8, strokeJoin="round")
    vertex = alt.Chart(means).mark_point(size=60, opacity=0)
    every = (
        alt.Chart(points).transform_filter("!datum.marked").mark_point(size=34, filled=False, strokeWidth=1.3)
    )
    marked = alt.Chart(points).transform_filter("datum.marked").mark_point(
        size=46, shape=CROSS, stroke="var(--ink)", strokeWidth=1.6
    )  # fmt: skip
    layers = alt.layer(
        limit.encode(x=x, y=y("value"), detail="series:N"),
        interval.encode(x=x, y=y("low"), y2="high:Q", stroke=colour),
        joined.encode(x=x, y=y("mean"), stroke=colour, strokeDash=dash),
        every.encode(x=x, y=y("value"), stroke=colour, shape=shape, tooltip=tips),
        marked.encode(x=x, y=y("value"), tooltip=tips),
        vertex.encode(x=x, y=y("mean"), tooltip=mean_tips),
    )
    return write(layers)


def _upward(field: str, upward: Up) -> alt.Y:
    """The axis of the values, for one field of the data."""
    axis = alt.Axis(grid=True, gridOpacity=0.6, tickCount=5, titlePadding=8)
    scale = _scale(upward.domain, 0, log=upward.log)
    if upward.floor:  # a ninth of it: zero lies a whole decade below the floor
        axis.values, axis.labelExpr, axis.tickCount = _decades(upward), "'' + datum.value", alt.Undefined
        scale = alt.Scale(
            type="symlog", constant=upward.floor / 9, domain=list(upward.domain), nice=False, padding=0
        )
    return alt.Y(f"{field}:Q", scale=scale, axis=axis, title=upward.title)


def _scale(ends: Sequence[float], padding: int, *, log: bool) -> alt.Scale:
    """A logarithmic scale has no zero to speak of, and Vega complains when it is told so."""
    if log:
        return alt.Scale(type="log", domain=list(ends), nice=False, padding=padding)
    return alt.Scale(type="linear", domain=list(ends), nice=False, zero=False, padding=padding)


def _decades(upward: Up) -> list[float]:
    """Zero, and powers of ten from the floor to the top."""
    first, last = (math.floor(math.log10(end)) for end in (upward.floor * 1.01, upward.domain[1]))
    return [0.0, *(float(f"1e{power}") for power in range(first, last + 1))]


def _ticks(across: Across) -> alt.Axis:
    """Ticks at the levels, with their labels: both were read as quantities, so nothing in them is an expression."""
    written = ", ".join(f"'{place:.17g}': '{label}'" for label, place in across.positions.items())
    return alt.Axis(
        values=list(across.positions.values()), tickCount=MOST_TICKS, labelExpr=f"({{{written}}})[datum.value]",
        labelOverlap="greedy", labelSeparation=3, grid=False, domain=True, ticks=True, titlePadding=6,
    )  # fmt: skip


def _tooltips(title: str, words: Words) -> tuple[list[alt.Tooltip], list[alt.Tooltip]]:
    common = [alt.Tooltip("name:N", title=" "), alt.Tooltip("at:N", title=title)]
    trial = [
        alt.Tooltip("text:N", title=words.charts.trial),
        alt.Tooltip("block:Q", title=words.charts.block),
    ]
    mean = [alt.Tooltip("text:N", title=words.charts.mean), alt.Tooltip("interval:N", title="95 %")]
    return [*common, *trial], [*common, *mean]
