"""Vega-Lite specifications of line charts, without data: an ordered axis, a line per series, and a point per trial.

Series differ in colour, dash and symbol, so they can be told apart in a black-and-white print.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.report.locale import Words
from iolab.report.panels import CROSS, Line

HEIGHT = 250
"""Height of a panel's plot [px]."""
LOG_RANGE = 30
"""Ratio of the maximum to the minimum value above which the axis is logarithmic."""
LEAST_SHARE = 1e-4
"""Lower limit for the start of a loss axis: one frame in a million [%]."""
COLOURS = 6
"""Number of series colours in the style sheet."""
MOST_TICKS = 1000
"""Tick limit that exceeds the number of levels, so that a logarithmic axis does not drop ticks."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 4")
SHAPES = (
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",  # circle
    "M-.9,-.9H.9V.9H-.9Z",  # square
    "M0,-1.1L1.1,.9H-1.1Z",  # triangle
    "M0,-1.3L1,0L0,1.3L-1,0Z",  # diamond
    "M0,1.1L1.1,-.9H-1.1Z",  # triangle, point down
    "M-1,-.4H-.4V-1H.4V-.4H1V.4H.4V1H-.4V.4H-1Z",  # plus
)
Spec = dict[str, object]
"""Part of a Vega-Lite specification."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"
"""URL that states the Vega-Lite version of the specifications."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}
LOOKS: Spec = {
    "font": FONT,
    "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
    "axis": {
        "labelColor": "var(--ink)", "titleColor": "var(--muted)", "domainColor": "var(--line)",
        "tickColor": "var(--line)", "gridColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": "normal", "labelPadding": 6,
    },
    "axisY": {"domain": False, "ticks": False, "grid": False},
    "axisX": {"tickCount": 5, "gridOpacity": 0.6},
    "text": {"fontSize": 12},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Across:
    """The horizontal axis: a factor or a load."""

    title: str
    """Title of the axis."""
    positions: Mapping[str, float]
    """Position of each label on the axis."""
    log: bool
    """Whether the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Up:
    """The vertical axis, for the values."""

    title: str
    """Metric and unit."""
    domain: tuple[float, float]
    """Range of the axis [shown unit]."""
    log: bool
    """Whether the axis is logarithmic."""
    floor: float = 0.0
    """Value above which the axis is logarithmic and below which it is linear, so that it includes zero; 0: no linear
    part [shown unit]."""


def line(name: str, colour: int, dash: int) -> Line:
    """Return the style of a series; each colour has its own symbol."""
    return Line(name, colour % COLOURS, DASHES[dash % len(DASHES)], SHAPES[colour % len(SHAPES)])


def up(title: str, values: Sequence[float], domain: tuple[float, float]) -> Up:
    """Return the vertical axis for the values."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low > 0 and high > LOG_RANGE * low:
        return Up(title, (low / 1.25, high * 1.25), log=True)
    return Up(title, domain, log=False)


def up_from_zero(title: str, values: Sequence[float]) -> Up:
    """Return the vertical axis for ratios from one frame in a million to 100 %, with zero below the lowest decade."""
    positive = [value for value in values if value > 0]
    least = max(min(positive, default=LEAST_SHARE), LEAST_SHARE)
    floor = 10.0 ** math.floor(math.log10(least))
    return Up(title, (0.0, max([*positive, floor * 10]) * 1.5), log=True, floor=floor)


def spec(across: Across, upward: Up, lines: Sequence[Line], words: Words, *, marked: bool = False) -> str:
    """Return the specification of panels with the data sets `points`, `means`, `reference` and optionally `marks`."""
    places = across.positions.values()
    scale = _scale((min(places), max(places)), 18, log=across.log)
    along: Spec = {"x": column("x:Q", scale=scale, axis=_ticks(across), title=across.title)}

    def up(name: str) -> Spec:
        return {**along, "y": _upward(name, upward)}

    colour: Spec = {"stroke": _series([f"var(--s{each.colour})" for each in lines])}
    dash: Spec = {
        "strokeDash": _series([[int(part) for part in each.dash.split()] or [1, 0] for each in lines])
    }
    shape: Spec = {"shape": _series([each.shape for each in lines])}
    common = (("name:N", " "), ("at:N", across.title))
    trial: Spec = {
        "tooltip": tips(
            *common, ("text:N", words.text("charts.trial")), ("block:Q", words.text("charts.block"))
        )
    }
    mean: Spec = {"tooltip": tips(*common, ("text:N", words.text("charts.mean")), ("interval:N", "95 %"))}
    return write([
        *(_marks(along) if marked else ()),
        layer("reference", "line", {**up("value"), "detail": column("series:N")},
              stroke="var(--muted)", strokeWidth=1.4, strokeDash=[1, 3], clip=True),
        layer("means", "rule", {**up("low"), "y2": column("high"), **colour},
              only="isValid(datum.low)", strokeWidth=6, opacity=0.3, strokeCap="butt"),
        layer("means", "line", {**up("mean"), **colour, **dash}, strokeWidth=1.8, strokeJoin="round"),
        layer("points", "point", {**up("value"), **colour, **shape, **trial},
              only="!datum.marked", size=34, filled=False, strokeWidth=1.3),
        layer("points", "point", {**up("value"), **trial},
              only="datum.marked", size=46, shape=CROSS, stroke="var(--ink)", strokeWidth=1.6),
        layer("means", "point", {**up("mean"), **colour, **mean}, only="datum.bound",
              shape="arrow", size=320, filled=False, strokeWidth=1.8),
        layer("means", "point", {**up("mean"), **mean}, size=60, opacity=0),
    ])  # fmt: skip


def _marks(along: Spec) -> list[Spec]:
    """Return the layers of vertical lines that mark named positions on the horizontal axis."""
    return [
        layer("marks", "rule", along, stroke="var(--muted)", strokeWidth=1.2, strokeDash=[4, 3]),
        layer("marks", "text", {**along, "y": {"value": 0}, "text": column("name:N")},
              angle=270, align="right", baseline="bottom", dy=-3, fill="var(--muted)"),
    ]  # fmt: skip


def _series(looks: Sequence[object]) -> Spec:
    """Return the encoding that distinguishes the series."""
    names = [str(index) for index in range(len(looks))]
    return column("series:N", scale={"domain": names, "range": looks}, legend=None)


def _upward(name: str, upward: Up) -> Spec:
    """Return the encoding of the vertical axis for one data column."""
    axis: Spec = {"grid": True, "gridOpacity": 0.6, "titlePadding": 8}
    if upward.floor:  # floor / 9: zero is one full decade below the floor
        axis |= {"values": _decades(upward), "labelExpr": "'' + datum.value"}
        scale: Spec = {
            "type": "symlog", "constant": upward.floor / 9, "domain": upward.domain, "nice": False, "padding": 0,
        }  # fmt: skip
    else:
        axis |= {"tickCount": 5}
        scale = _scale(upward.domain, 0, log=upward.log)
    return column(f"{name}:Q", scale=scale, axis=axis, title=upward.title)


def _scale(ends: Sequence[float], padding: int, *, log: bool) -> Spec:
    """Return the scale options; a logarithmic scale gets no zero, because Vega would print a warning."""
    kind: Spec = {"type": "log"} if log else {"type": "linear", "zero": False}
    return {**kind, "domain": ends, "nice": False, "padding": padding}


def _decades(upward: Up) -> list[float]:
    """Return zero and the powers of ten from the floor to the maximum."""
    first, last = (math.floor(math.log10(end)) for end in (upward.floor * 1.01, upward.domain[1]))
    return [0.0, *(float(f"1e{power}") for power in range(first, last + 1))]


def _ticks(across: Across) -> Spec:
    """Return ticks at the levels with their labels.

    The labels were parsed as quantities, so Vega cannot read them as expressions.
    """
    written = ", ".join(f"'{place:.17g}': '{label}'" for label, place in across.positions.items())
    return {
        "values": list(across.positions.values()), "tickCount": MOST_TICKS,
        "labelExpr": f"({{{written}}})[datum.value]", "labelOverlap": "greedy", "labelSeparation": 3,
        "grid": False, "domain": True, "ticks": True, "titlePadding": 6,
    }  # fmt: skip


def column(name: str, **how: object) -> Spec:
    """Return the encoding of a data column; `x:Q` is column x as a quantity."""
    field, _, kind = name.partition(":")
    return {"field": field, **({"type": TYPES[kind]} if kind else {}), **how}


def tips(*titles: tuple[str, str]) -> list[Spec]:
    """Return the tooltip of a mark: columns and their titles."""
    return [column(name, title=title) for name, title in titles]


def layer(data: str, mark: str, encoding: Spec, *, only: str | None = None, **looks: object) -> Spec:
    """Return a layer of marks for the rows of a data set, or only for rows that match the expression `only`."""
    chosen: Spec = {"transform": [{"filter": only}]} if only else {}
    return {"data": {"name": data}, **chosen, "mark": {"type": mark, **looks}, "encoding": encoding}


def write(layers: Sequence[Spec]) -> str:
    """Return the specification of stacked layers as JSON."""
    return json.dumps(
        {
            "$schema": SCHEMA,
            "config": LOOKS,
            "width": "container",
            "background": "transparent",
            "padding": {"left": 2, "top": 4, "bottom": 2, "right": 2},
            "autosize": {"type": "fit-x", "contains": "padding"},
            "layer": layers,
        }
    )
