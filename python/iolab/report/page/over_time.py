"""Series of trials on the page: small multiples, folded, a picture each that needs no script.

Their size is bounded: trials are drawn, the first of each cell before others, until the page's share is full.
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
"""Of a chart, as many as a trial of 10 s has points."""
MOST_PANELS = 16
"""Of one quantity."""
MOST_BYTES = 2_000_000
"""Of all pictures and their texts."""
WIDTH, HEIGHT = 400, 100
"""Of a picture, in units of its own."""
PANEL_BYTES = 420
"""What the page writes around a picture's lines."""

ReadSeries = Callable[[str], Sequence[Series]]
"""Gives the series of a trial by its key; none where it stored none."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A panel as a picture."""

    title: str
    """What it is about."""
    figures: str
    """Least, mean, largest."""
    alt: str
    """What it shows."""
    line: str
    """Path of the means."""
    band: str
    """Path of least and largest; empty where each column has one point."""


@dataclass(frozen=True, slots=True)
class Row:
    """The pictures of one quantity."""

    title: str
    """Its name."""
    scale: str
    """The common axis."""
    drawings: tuple[Drawing, ...]
    """In order."""
    left_out: str
    """Says how many are not drawn; empty: all are."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One trial."""

    title: str
    """Which."""
    about: str
    """Its key and length."""
    rows: tuple[Row, ...]
    """One per quantity."""
    more: str
    """Where all points are."""
    bytes: int
    """What it takes of the page, about."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """All that the page shows of series."""

    trials: tuple[Drawn, ...]
    """In the order of the run."""
    notes: tuple[str, ...]
    """What the charts are, and what is left out."""


def drawn_trials(
    trials: Sequence[TrialRecord], read: ReadSeries, named: Names, most_bytes: int = MOST_BYTES
) -> OverTime:
    """Draw the trials of a run that stored series, as many as fit."""
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
    """Yield trials that ended well: the first of every cell, then the second of every cell, and so on."""
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
    """Write the path of a row of values; where one is not known the line is broken."""
    return "".join(f"M{points[0]}L{' '.join(points[1:] or points)}" for points in _runs(_points(values, top)))


def _band(columns: Thinned, top: float) -> str:
    """Write the area between two rows of values."""
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
    """Return the parts of a line between places where nothing is known."""
    found: list[list[str]] = [[]]
    for point in points:
        if point is not None:
            found[-1].append(point)
        elif found[-1]:
            found.append([])
    return [each for each in found if each]
