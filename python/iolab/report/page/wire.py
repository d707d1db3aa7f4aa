"""Wire monitors on the page: a large zoomable chart, and small charts without scripts.

The page contains the windows of a large chart at all scales, compressed in blocks; the script decompresses the blocks
on demand.
"""

import base64
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from iolab.analysis.thinning import Level, Pyramid, pyramid
from iolab.report import numbers
from iolab.report.names import Names
from iolab.report.page.over_time import ReadSeries, by_cells
from iolab.report.wire import Bars, Curve, WirePoint, wire_trial
from iolab.results.series import Series
from iolab.results.trial import Status
from iolab.store.records import SAMPLES, SERIES, TrialRecord
from iolab.units import format_bits_per_second, format_bytes

MOST_BYTES = 24_000_000
"""Maximum size of all windows on the page."""
CHART_BYTES = 6_000_000
"""Maximum size of one series of windows; if a series is larger, its finest scales are omitted."""
BLOCK = 1 << 16
"""Number of points per compressed block."""
LARGEST = 65_535
"""Largest 16-bit integer, to which the largest value is scaled."""
WIDTH, HEIGHT = 340, 170
"""Size of a small chart, in SVG units; text is 11 px high at full width."""
LEFT, RIGHT, TOP, BOTTOM = 46, 26, 8, 30
"""Margins around the plot."""


@dataclass(frozen=True, slots=True)
class Block:
    """A compressed part of a scale."""

    id: str
    """ID of the block's element on the page."""
    packed: str
    """Minimum, mean and maximum, or a single value if all three are equal; deflated, in base64."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A selectable series of windows."""

    title: str
    """Name of the series."""
    shape: Markup
    """Parameters for the script, as JSON."""
    blocks: tuple[Block, ...]
    """All blocks of the series."""
    coarse: str
    """Note on omitted scales; empty: no scale is omitted."""


@dataclass(frozen=True, slots=True)
class Small:
    """A small chart without scripts."""

    title: str
    """Title of the chart."""
    svg: Markup
    """The picture."""
    note: str
    """Explanation; may be empty."""


@dataclass(frozen=True, slots=True)
class WireChart:
    """The charts of one measurement point."""

    id: str
    """ID of the chart's element."""
    title: str
    """Name of the point."""
    alt: str
    """Alternative text of the chart."""
    figures: str
    """Mean rate, maximum rate and idle ratio of the point."""
    choices: tuple[Choice, ...]
    """Selectable series; the first is shown initially."""
    smalls: tuple[Small, ...]
    """The small charts."""


@dataclass(frozen=True, slots=True)
class WireView:
    """The charts of one trial."""

    title: str
    """Name of the trial."""
    charts: tuple[WireChart, ...]
    """Charts of the trial's measurement points."""


@dataclass(frozen=True, slots=True)
class OnTheWire:
    """The part of the page with all wire monitors."""

    trials: tuple[WireView, ...]
    """Trials, in run order."""
    notes: tuple[str, ...]
    """Explanations, and notes on omitted charts."""


def on_the_wire(
    trials: Sequence[TrialRecord], read: ReadSeries, named: Names, most_bytes: int = MOST_BYTES
) -> OnTheWire:
    """Return charts of the trials that have wire monitors, as many as fit on the page."""
    words = named.words
    shown: dict[str, WireView] = {}
    room, full = most_bytes, False
    for trial in by_cells(trials):
        if not trial.result.metrics.named("watched_bytes"):
            continue
        laid = wire_trial(trial, read(trial.key), named)
        if laid is None:
            continue
        number = len(shown) + 1
        charts = tuple(
            _chart(point, f"wire-{number}-{at}", f"{SAMPLES}/{trial.key}{SERIES}", named)
            for at, point in enumerate(laid.points, start=1)
        )
        size = sum(len(block.packed) for one in charts for choice in one.choices for block in choice.blocks)
        if size > room:
            full = True
            break
        room -= size
        shown[trial.key] = WireView(laid.title, charts)
    notes = [words.text("wire.note")] if shown else []
    if full:
        limit = numbers.quantity(most_bytes, numbers.Scale(1e-6, "MB"), 0, named.words)
        total = sum(trial.result.status is Status.OK for trial in trials)
        notes.append(words.text("wire.left_out", shown=len(shown), total=total, limit=limit))
    return OnTheWire(tuple(shown[trial.key] for trial in trials if trial.key in shown), tuple(notes))


def _chart(point: WirePoint, id: str, file: str, named: Names) -> WireChart:
    words = named.words
    choices = (
        _choice(title, series, f"{id}-{at}", file, named)
        for at, (title, series) in enumerate(point.windows, start=1)
    )
    return WireChart(
        id=id,
        title=point.title,
        alt=words.text("wire.alt", of=point.title, figures=point.figures),
        figures=point.figures,
        choices=tuple(choice for choice in choices if choice is not None),
        smalls=tuple(_smalls(point, named)),
    )


def _choice(title: str, series: Series, id: str, file: str, named: Names) -> Choice | None:
    found = pyramid(series)
    if found is None:
        return None
    window_ns = series.dimensions.window_ns or 1
    top = float(found.levels[0].high.max())
    kept, blocks = _packed(found, top, id)
    coarse = ""
    if kept:
        span = numbers.duration(found.levels[kept].span_ns)
        coarse = named.words.text("wire.coarse", span=span, file=file)
    shape = {
        "id": id,
        "begin": found.begin_ns,
        "top": top * 8e9 / window_ns,
        "levels": [
            {"span": level.span_ns, "points": len(level.mean), "parts": 1 if at == 0 else 3}
            for at, level in enumerate(found.levels)
        ],
        "from": kept,
    }
    return Choice(title, Markup(json.dumps(shape, separators=(",", ":"))), tuple(blocks), coarse)


def _packed(found: Pyramid, top: float, id: str) -> tuple[int, list[Block]]:
    """Compress as many scales as there is room for, from the coarsest; return the finest scale that was included."""
    room, kept, blocks = CHART_BYTES, len(found.levels) - 1, []
    for at in reversed(range(len(found.levels))):
        packed = list(_blocks(found.levels[at], at, top, id))
        size = sum(len(block.packed) for block in packed)
        if size > room and at < len(found.levels) - 1:
            break
        room, kept = room - size, at
        blocks += packed
    return kept, blocks


def _blocks(level: Level, at: int, top: float, id: str) -> Iterator[Block]:
    parts = (level.mean,) if at == 0 else (level.low, level.mean, level.high)
    for number, begin in enumerate(range(0, len(level.mean), BLOCK)):
        whole = np.concatenate([part[begin : begin + BLOCK] for part in parts]) * (LARGEST / max(top, 1e-9))
        raw = np.minimum(np.rint(whole), LARGEST).astype("<u2").tobytes()
        yield Block(f"{id}-{at}-{number}", base64.b64encode(zlib.compress(raw, 6)).decode())


def _smalls(point: WirePoint, named: Names) -> Iterator[Small]:
    words = named.words
    for title, bars, axis, unit in (
        (words.text("wire.gaps"), point.gaps, words.text("wire.gap_axis"), "ns"),
        (words.text("wire.trains"), point.trains, words.text("wire.train_axis"), ""),
        (words.text("wire.lengths"), point.lengths, words.text("wire.length_axis"), "ns"),
    ):
        if bars is not None:
            note = words.text("wire.together") if bars.together else ""
            yield Small(title, _bars(bars, axis, unit, words.text("wire.count_axis"), title), note)
    if point.curve is not None:
        title = words.text("wire.sigma")
        yield Small(
            title,
            _curve(point.curve, words.text("wire.rate_axis"), words.text("wire.depth_axis"), title),
            point.holds,
        )


def _bars(bars: Bars, axis: str, unit: str, count: str, alt: str) -> Markup:
    """Return a bar chart of counts over a logarithmic axis.

    The counts' axis is logarithmic too and starts below one.
    """
    across = _Log(float(bars.edges[0]), float(bars.edges[-1]))
    top = max(float(bars.counts.max()), 10.0)
    up = _Log(0.5, top * 1.2)
    shapes = []
    for begin, end, value in zip(bars.edges[:-1], bars.edges[1:], bars.counts, strict=True):
        if value > 0:
            left, right = _x(across.share(begin)), _x(across.share(end))
            height = (HEIGHT - TOP - BOTTOM) * up.share(value)
            shapes.append(
                f'<rect x="{left:.1f}" y="{HEIGHT - BOTTOM - height:.1f}" width="{max(right - left - 0.5, 0.8):.1f}"'
                f' height="{height:.1f}"/>'
            )
    return _svg("".join(shapes), _ticks_across(across, unit), _ticks_up(up, ""), (axis, count), alt)


def _curve(curve: Curve, axis: str, depth: str, alt: str) -> Markup:
    known = curve.depths_bytes > 0
    rates, depths = curve.rates_bps[known], curve.depths_bytes[known]
    if not len(rates):
        return Markup("")
    across = _Log(float(rates[0]), float(rates[-1]))
    up = _Log(float(depths.min()) / 2, float(depths.max()) * 2)
    points = " ".join(
        f"{_x(across.share(rate)):.1f},{_y(up.share(size)):.1f}"
        for rate, size in zip(rates.tolist(), depths.tolist(), strict=True)
    )
    return _svg(
        f'<path class="w-line" d="M{points.replace(" ", "L")}"/>',
        _ticks_across(across, "bit/s"),
        _ticks_up(up, "byte"),
        (axis, depth),
        alt,
    )


@dataclass(frozen=True, slots=True)
class _Log:
    """A logarithmic axis."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        span = math.log(self.high / self.low)
        return min(max(math.log(max(value, self.low) / self.low) / span, 0.0), 1.0) if span > 0 else 0.5

    def decades(self, most: int) -> list[float]:
        """Return powers of ten on the axis, up to a maximum number."""
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        step = max(1, -(-(last - first + 1) // most))
        return [10.0**power for power in range(first, last + 1, step)]


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * share


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _ticks_across(axis: _Log, unit: str) -> str:
    return "".join(
        f'<text x="{_x(axis.share(value)):.1f}" y="{HEIGHT - BOTTOM + 13}" text-anchor="middle">'
        f"{_label(value, unit)}</text>"
        f'<path class="w-grid" d="M{_x(axis.share(value)):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        for value in axis.decades(5)
    )


def _ticks_up(axis: _Log, unit: str) -> str:
    return "".join(
        f'<text x="{LEFT - 4}" y="{_y(axis.share(value)) + 4:.1f}" text-anchor="end">{_label(value, unit)}</text>'
        f'<path class="w-grid" d="M{LEFT} {_y(axis.share(value)):.1f}H{WIDTH - RIGHT}"/>'
        for value in axis.decades(4)
    )


def _label(value: float, unit: str) -> str:
    match unit:
        case "ns":
            return numbers.duration(round(value))
        case "bit/s":
            return format_bits_per_second(value, 1)
        case "byte":
            return format_bytes(value, 1)
        case _:
            return f"{value:g}" if value < 1e4 else f"{value:.0e}".replace("e+0", "e")


def _svg(shapes: str, across: str, up: str, axes: tuple[str, str], alt: str) -> Markup:
    middle = (LEFT + WIDTH - RIGHT) / 2
    return Markup(
        f'<svg class="wire-small" role="img" aria-label="{alt}" viewBox="0 0 {WIDTH} {HEIGHT}">{across}{up}{shapes}'
        f'<text class="w-axis" x="{middle:.0f}" y="{HEIGHT - 3}" text-anchor="middle">{axes[0]}</text></svg>'
    )
