"""What a watch saw, as a table: a row per cell and direction."""

from collections.abc import Sequence

from iolab.analysis.types import Analysis, Estimate, cell_key
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.report.tables import Grid, columns
from iolab.report.watches import Passed, passed_by
from iolab.store.records import StoredRun


def watch_grids(measure: str, run: StoredRun, analysis: Analysis, names: Names, most: int) -> list[Grid]:
    """Write what passed each watched direction: a row per cell and direction; no watch gives no table."""
    words = names.words
    passed = list(passed_by(measure, analysis))
    if not passed:
        return []
    order = {cell_key(cell): at for at, cell in enumerate(run.plan.in_order([one.cell for one in passed]))}
    passed.sort(key=lambda one: (one.direction, order[cell_key(one.cell)]))
    factors = columns([one.frames for one in passed if one.frames is not None], run)
    found = _columns(passed, words)
    shown = passed[:most]
    rows = [
        (
            one.direction.replace("->", " → "),
            *(one.cell.get(factor, "") for factor in factors),
            *(texts[at] for _, texts in found),
        )
        for at, one in enumerate(shown)
    ]
    left = (words.text("table.phases_left_out", shown=len(rows), total=len(passed)),)
    return [
        Grid(
            caption=words.text("wire.saw_caption", measure=names.measure(measure)),
            heads=(words.text("wire.direction"), *map(names.factor, factors), *(head for head, _ in found)),
            rows=tuple(rows),
            labels=1 + len(factors),
            notes=left if len(rows) < len(passed) else (),
        )
    ]


def _columns(passed: Sequence[Passed], words: Words) -> list[tuple[str, list[str]]]:
    """Return the columns of figures that have any, with heads."""
    of: tuple[tuple[str, list[Estimate | None]], ...] = (
        (words.text("wire.burst_p50"), [one.frames for one in passed]),
        (words.text("wire.burst_p99"), [one.frames_p99 for one in passed]),
        (words.text("wire.interval_p50"), [one.interval for one in passed]),
        (words.text("wire.gap_p50"), [one.gap for one in passed]),
        (words.text("wire.busiest"), [one.busiest for one in passed]),
        (words.text("wire.idle"), [one.idle for one in passed]),
    )
    return [_column(head, estimates, words) for head, estimates in of if any(estimates)]


def _column(head: str, estimates: Sequence[Estimate | None], words: Words) -> tuple[str, list[str]]:
    known = [one for one in estimates if one is not None]
    by = numbers.scale(known[0].metric.name, known[0].unit, [one.mean for one in known])
    window_ns = known[0].metric.dimensions.window_ns
    name = head.format(window="" if window_ns is None else numbers.duration(window_ns))
    titled = f"{name} [{by.unit}]" if by.unit else name
    return titled, [words.text("none") if one is None else numbers.mean(one, by, words) for one in estimates]
