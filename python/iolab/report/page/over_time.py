"""Series of trials on the page: folded small charts as SVG without scripts.

The total size is limited: the first trial of each cell is drawn first, until the limit is reached.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from iolab.analysis.thinning import Thinned
from iolab.report import numbers, over_time
from iolab.report.names import Names
from iolab.results.series import Series, Values
from iolab.results.trial import Status
from iolab.store.records import SAMPLES, SERIES, TrialRecord

COLUMNS = 100
"""Number of columns of a chart, which is the number of points in a trial of 10 s."""
MOST_PANELS = 16
"""Maximum number of panels per quantity."""
MOST_BYTES = 2_000_000
"""Maximum size of all pictures and their text."""
WIDTH, HEIGHT = 400, 100
"""Size of a picture, in SVG units."""
PANEL_BYTES = 420
"""Size of the page's markup around the lines of a picture."""

ReadSeries = Callable[[str], Sequence[Series]]
"""Function that returns the series of a trial for the trial's key; empty if none are stored."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A panel that is drawn as a picture."""

    title: str
    """Dimensions of the series."""
    figures: str
    """Minimum, mean, maximum."""
    alt: str
    """Alternative text."""
    line: str
    """SVG path of the means."""
    band: str
    """SVG path of minima and maxima; empty if each column has one point."""


@dataclass(frozen=True, slots=True)
class Row:
    """The pictures of one quantity."""

    title: str
    """Name of the quantity."""
    scale: str
    """Description of the common scale."""
    drawings: tuple[Drawing, ...]
    """Pictures, in order."""
    left_out: str
    """Note with the number of omitted pictures; empty: no picture is omitted."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The pictures of one trial."""

    title: str
    """Name of the trial."""
    about: str
    """Key and duration of the trial."""
    rows: tuple[Row, ...]
    """One row of pictures per quantity."""
    more: str
    """Note on where all points are stored."""
    bytes: int
    """Approximate size of the pictures on the page."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """The part of the page with all series."""

    trials: tuple[Drawn, ...]
    """Trials, in run order."""
    notes: tuple[str, ...]
    """Explanations, and notes on omitted trials."""


def drawn_trials(
    trials: Sequence[TrialRecord], read: ReadSeries, named: Names, most_bytes: int = MOST_BYTES
) -> OverTime:
    """Return pictures of the trials that have series, as many as fit on the page."""
    words = named.words
    shown: dict[str, Drawn] = {}
    room, full = most_bytes, False
    for trial in by_cells(trials):
        laid = over_time.panels(trial, read(trial.key), named, COLUMNS, MOST_PANELS)
        if laid is None:
            continue
        drawn = _drawn(laid, named)
        if drawn.bytes > room:
            full = True
            break
        room -= drawn.bytes
        shown[trial.key] = drawn
    notes = list(words.each("over_time.note", "over_time.thinned")) if shown else []
    if full:
        limit = numbers.quantity(most_bytes, numbers.Scale(1e-6, "MB"), 0, named.words)
        total = sum(trial.result.status is Status.OK for trial in trials)
        notes.append(words.text("over_time.shown", shown=len(shown), total=total, limit=limit))
    in_order = (shown[trial.key] for trial in trials if trial.key in shown)
    return OverTime(tuple(in_order), tuple(notes))


def by_cells(trials: Sequence[TrialRecord]) -> Iterator[TrialRecord]:
    """Yield the successful trials: the first of every cell, then the second of every cell, and so on."""
    seen: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
    turns: list[list[TrialRecord]] = []
    for trial in trials:
        if trial.result.status is not Status.OK:
            continue
        cell = (trial.measure, frozenset(trial.cell.items()))
        turn = seen.get(cell, 0)
        seen[cell] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(trial)
    for each in turns:
        yield from each


def _drawn(laid: over_time.TrialPanels, named: Names) -> Drawn:
    words = named.words
    rows = tuple(
        Row(
            title=group.title,
            scale=words.text("over_time.scale", top=group.top_text),
            drawings=tuple(_drawing(panel, group, named) for panel in group.panels),
            left_out=words.text("over_time.left_out", count=group.left_out) if group.left_out else "",
        )
        for group in laid.groups
    )
    size = sum(
        PANEL_BYTES + len(each.line) + len(each.band) + len(each.alt) for row in rows for each in row.drawings
    )
    return Drawn(
        title=laid.title,
        about=words.text("over_time.key", key=laid.key, duration=laid.duration),
        rows=rows,
        more=words.text("over_time.more", file=f"{SAMPLES}/{laid.key}{SERIES}"),
        bytes=size,
    )


def _drawing(panel: over_time.Panel, group: over_time.Group, named: Names) -> Drawing:
    alt = named.words.text("over_time.alt", name=group.title, of=panel.title, figures=panel.figures)
    columns = panel.columns
    line = _line(columns.mean, group.top)
    return Drawing(
        panel.title, panel.figures, alt, line, _band(columns, group.top) if columns.thinned else ""
    )


def _line(values: Values, top: float) -> str:
    """Return the SVG path of values; unknown values interrupt the line."""
    return "".join(f"M{points[0]}L{' '.join(points[1:] or points)}" for points in _runs(_points(values, top)))


def _band(columns: Thinned, top: float) -> str:
    """Return the SVG path of the area between two rows of values."""
    above, below = (
        _runs(_points(columns.high, top)),
        _runs(_points(columns.low, top)),
    )
    return "".join(
        f"M{upper[0]}L{' '.join((*upper[1:], *reversed(lower)))}Z"
        for upper, lower in zip(above, below, strict=True)
    )


def _points(values: Values, top: float) -> Iterator[str | None]:
    step = WIDTH / max(len(values), 1)
    for at, value in enumerate(values.tolist()):
        if math.isfinite(value):
            share = min(max(value / top, 0.0), 1.0) if top > 0 else 0.0
            yield f"{(at + 0.5) * step:.0f},{HEIGHT * (1 - share):.0f}"
        else:
            yield None


def _runs(points: Iterable[str | None]) -> list[list[str]]:
    """Return the parts into which unknown values divide a line."""
    found: list[list[str]] = [[]]
    for point in points:
        if point is not None:
            found[-1].append(point)
        elif found[-1]:
            found.append([])
    return [each for each in found if each]
