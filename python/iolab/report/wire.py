"""The data of wire monitors in one trial, prepared for drawing: points with windows, histograms and curves.

In a terminal each series of the trial is a line of block characters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iolab.plan.types import Plan
from iolab.report import numbers, over_time
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names_of
from iolab.results.metric import Dimensions, Metrics
from iolab.results.series import Over, Series, Values
from iolab.store.records import TrialRecord
from iolab.units import format_bits_per_second, format_bytes, format_ratio

LINE = "line"
"""Value of the dimension `part` for windows that assume back-to-back frames on a line."""
PER_DECADE = 10
"""Number of histogram bars per decade."""
HOLDS_BPS = 1_000_000_000
"""Rate of the point on the curve that is written as text if no line is declared [bit/s]."""
COLUMNS = 40
"""Number of columns of a sparkline."""
EVERY = 10_000
"""Panel limit above the number of series in any trial, so that none is omitted."""
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """A histogram over a logarithmic axis."""

    edges: Values
    """Left edges of the bars, and the right edge of the last bar."""
    counts: Values
    """Count of each bar."""
    together: bool
    """Whether the first bar represents 0, which has no position on the axis."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Minimum depth of a token bucket, by rate."""

    rates_bps: Values
    """Rates, in ascending order."""
    depths_bytes: Values
    """Minimum bucket depth at each rate."""


@dataclass(frozen=True, slots=True, eq=False)
class WirePoint:
    """One measurement point."""

    title: str
    """The ports, or the port with the direction in or out."""
    figures: str
    """Mean rate, maximum window rate, idle ratio."""
    windows: tuple[tuple[str, Series], ...]
    """Series of the bytes in each window, with their display names."""
    gaps: Bars | None
    """Gaps between frames [ns]."""
    trains: Bars | None
    """Number of trains by their number of frames."""
    lengths: Bars | None
    """Number of trains by their duration [ns]."""
    curve: Curve | None
    """sigma(rho): minimum bucket depth over rate."""
    holds: str
    """One point of the curve as text; empty: the curve has no point."""


@dataclass(frozen=True, slots=True, eq=False)
class WireTrial:
    """The wire monitors of one trial."""

    title: str
    """Measure, cell and block."""
    key: str
    """Key of the trial in the run folder."""
    points: tuple[WirePoint, ...]
    """Points, in record order; points without frames are omitted."""


def wire_trial(trial: TrialRecord, series: Sequence[Series], named: Names) -> WireTrial | None:
    """Return the data of the wire monitors in a trial; None: the trial had no wire monitor."""
    points: dict[Dimensions, list[Series]] = {}
    for each in series:
        if each.over is not Over.TIME:
            points.setdefault(_of(each.dimensions), []).append(each)
    if not points:
        return None
    made = tuple(_point(about, own, trial.result.metrics, named) for about, own in points.items())
    return WireTrial(over_time.title(trial, named), trial.key, made)


def _of(about: Dimensions) -> Dimensions:
    """Return the measurement point of a series."""
    return replace(about, window_ns=None, flow=None, part=None)


def _point(about: Dimensions, series: Sequence[Series], metrics: Metrics, named: Names) -> WirePoint:
    def bars(name: str) -> Bars | None:
        found = next((each for each in series if each.name == name), None)
        return None if found is None else binned(found)

    windows = tuple((_name(each, named), each) for each in series if each.name == "window_bytes")
    curve = next((each for each in series if each.name == "burst_bytes_by_bps"), None)
    return WirePoint(
        title=named.component(about),
        figures=figures(about, series, metrics, named),
        windows=windows,
        gaps=bars("gaps_by_ns"),
        trains=bars("trains_by_frames"),
        lengths=bars("trains_by_ns"),
        curve=None if curve is None else Curve(curve.at_ns.astype(np.float64), curve.values),
        holds=_holds(about, metrics, named),
    )


def figures(about: Dimensions, series: Sequence[Series], metrics: Metrics, named: Names) -> str:
    """Return the three figures of a point as text: mean rate, maximum rate and idle ratio in the shortest windows."""
    lengths = [
        each.dimensions.window_ns
        for each in series
        if each.over is Over.WINDOWS and each.dimensions.window_ns is not None
    ]
    of = replace(about, window_ns=min(lengths, default=None))
    mean, most, idle = (
        metrics.get(name, of) for name in ("window_rate_mean_bps", "window_rate_max_bps", "idle_ratio")
    )
    if mean is None or most is None or idle is None:
        return ""
    return named.words.text(
        "wire.figures",
        mean=format_bits_per_second(mean.value),
        max=format_bits_per_second(most.value),
        idle=format_ratio(idle.value),
    )


def _name(series: Series, named: Names) -> str:
    words, about = named.words, series.dimensions
    window = numbers.duration(about.window_ns or 0)
    if about.flow is not None:
        return words.text("wire.of_flow", window=window, flow=about.flow.replace("->", " → "))
    return words.text("wire.line" if about.part == LINE else "wire.arrival", window=window)


def _holds(about: Dimensions, metrics: Metrics, named: Names) -> str:
    """Return the buffer that the declared line needs, as text; without a line, the token bucket at 1 Gbit/s."""
    words = named.words
    on_line = [
        each
        for each in metrics.named("line_buffer_bytes")
        if replace(each.dimensions, rate_bps=None, part=None) == about
    ]
    found = on_line[0] if on_line else metrics.get("burst_bytes", replace(about, rate_bps=HOLDS_BPS))
    if found is None or found.dimensions.rate_bps is None:
        return ""
    rate = format_bits_per_second(found.dimensions.rate_bps)
    return words.text("wire.holds", depth=format_bytes(found.value), rate=rate)


def binned(series: Series) -> Bars:
    """Return a histogram with equal bar widths on a logarithmic axis; 0 is one decade below all other values."""
    at = series.at_ns.astype(np.float64)
    together = bool((at <= 0).any())
    least = float(at[at > 0].min()) if (at > 0).any() else 10.0
    at = np.maximum(at, least / 10 if together else least)
    first, last = int(np.floor(np.log10(at.min()))), int(np.floor(np.log10(at.max()))) + 1
    edges = 10.0 ** (np.arange((last - first) * PER_DECADE + 1) / PER_DECADE + first)
    # A value on an edge belongs to the bar that starts there, despite rounding errors of the power.
    counts, _ = np.histogram(at * (1 + 1e-9), bins=edges, weights=series.values)
    return Bars(edges, counts.astype(np.float64), together)


def course(windows: Series, columns: int) -> Values:
    """Return the bytes in the windows, summed over equal parts of the time."""
    length_ns = windows.dimensions.window_ns or 1
    number = (windows.at_ns - windows.at_ns[0]) // length_ns
    count = int(number[-1]) + 1
    return np.bincount(number * columns // count, weights=windows.values, minlength=columns).astype(
        np.float64
    )


def trial_over_time(
    trial: TrialRecord, series: Sequence[Series], plan: Plan, words: Words = EN
) -> RenderableType:
    """Return the series of a trial; series of one quantity share a scale that starts at 0."""
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
    """Return the wire monitors: a sparkline of the shortest windows and three figures per point."""
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
    """Return values as block characters between 0 and `top`.

    The lowest block stands only for 0, and a space stands for an unknown value.
    """
    return "".join(
        " " if not math.isfinite(value) else BLOCKS[_block(value / top if top > 0 else 0.0)]
        for value in values.tolist()
    )


def _block(share: float) -> int:
    return min(len(BLOCKS) - 1, max(0, math.ceil(share * (len(BLOCKS) - 1))))
