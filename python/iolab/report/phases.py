"""Tables of measures with several figures per cell: phases of a disk program, functions of a profile, watches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iolab.analysis.types import Analysis, CellKey, Estimate, cell_key
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.report.selection import Shown, is_baseline
from iolab.report.tables import Grid, columns, head
from iolab.report.watches import Passed, passed_by
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

PROFILES = ("profile_self_ratio", "lock_wait_ns")
"""Metrics of a profiler: one by function, and one by the place of lock waits."""
MOST_PLACES = 10
OPENLY: Mapping[str, tuple[str, ...]] = {
    "disk_operations_per_s": ("disk_latency_p50_ns", "disk_latency_p99_ns")
}
"""Metrics that are shown with the leading metric: operations per second and latency for random access."""
Figures = Mapping[Quantity, Mapping[CellKey, Estimate]]


def phase_grids(shown: Shown, run: StoredRun, analysis: Analysis, names: Names, most: int) -> list[Grid]:
    """Return a table per metric with several phases: a row per phase, a column per cell.

    The first table has the leading metric and the metrics shown with it; the other tables are folded.
    """
    by_name: dict[str, dict[Quantity, Mapping[CellKey, Estimate]]] = {}
    for quantity, estimates in analysis.estimates.of_measure(shown.measure).items():
        of = quantity.dimensions
        # Metrics of wire monitors have a direction.
        if of.part is not None and of.direction is None and quantity.name not in PROFILES:
            own = {cell_key(each.cell): each for each in estimates}
            by_name.setdefault(quantity.name, {})[quantity] = own
    leading = shown.metric.name
    open_names = (leading, *OPENLY.get(leading, ()))
    order = sorted(
        by_name, key=lambda name: open_names.index(name) if name in open_names else len(open_names)
    )
    return [
        _grid(by_name[name], shown, run, names, most, folded=name not in open_names)
        for name in order
        if len(by_name[name]) > 1
    ]


def profile_grids(shown: Shown, run: StoredRun, analysis: Analysis, names: Names, most: int) -> list[Grid]:
    """Return the tables of a profiler: a row per function or place of a wait, a column per cell; rows with the largest
    figures are first."""
    every = analysis.estimates.of_measure(shown.measure)
    grids = []
    for name, caption in zip(
        PROFILES, (names.words.text("profile.functions"), names.words.text("profile.waits")), strict=True
    ):
        own = {
            of: {cell_key(one.cell): one for one in found} for of, found in every.items() if of.name == name
        }
        ranked = sorted(own, key=lambda of: -max(one.mean for one in own[of].values()))
        kept = {of: own[of] for of in ranked if of.dimensions.part is not None}
        if kept:
            largest = dict(list(kept.items())[:MOST_PLACES])
            written = _grid(largest, shown, run, names, most, folded=False, caption=caption)
            grids.append(replace(written, heads=(names.words.text("profile.place"), *written.heads[1:])))
    return grids


def _grid(
    found: Figures, shown: Shown, run: StoredRun, names: Names, most: int, *, folded: bool, caption: str = ""
) -> Grid:
    words = names.words
    every = [each for own in found.values() for each in own.values()]
    cells = run.plan.in_order({cell_key(each.cell): each.cell for each in every}.values())[:most]
    quantity = next(iter(found))
    by = numbers.scale(quantity.name, every[0].unit, [each.mean for each in every])
    rows = []
    for of, own in list(found.items())[:most]:
        texts = (_figure(own.get(cell_key(cell)), by, run, words) for cell in cells)
        rows.append((names.component(of.dimensions), *texts))
    metric = head(names.metric(Quantity(quantity.name)), by.unit, words)
    left = len(found) - len(rows)
    return Grid(
        caption=(caption or words.text("table.phases")).format(
            measure=names.measure(shown.measure), metric=metric
        ),
        heads=(
            words.text("table.phase"),
            *(names.cell(cell) or names.measure(shown.measure) for cell in cells),
        ),
        rows=tuple(rows),
        labels=1,
        folded=folded,
        notes=(
            *((words.text("table.phases_left_out", shown=len(rows), total=len(found)),) if left else ()),
            *(_definitions(found, words) if not folded else ()),
        ),
    )


def _definitions(found: Figures, words: Words) -> Iterator[str]:
    """Return notes on phases that were defined differently in 2006; fio's phases, which have a queue depth, get no
    note."""
    own = (of.dimensions for of in found if of.dimensions.depth is None and of.dimensions.block_bytes)
    phases = {one.part for one in own}
    for phase, text in words.table("table.definitions").items():
        if phase in phases:
            yield text


def _figure(estimate: Estimate | None, by: numbers.Scale, run: StoredRun, words: Words) -> str:
    """Return a mean with its change against the baseline in brackets."""
    if estimate is None:
        return words.text("none")
    text = numbers.mean(estimate, by, words)
    code = estimate.apart
    if code:
        return words.text(
            "table.with_change", figure=text, change=words.name("table.incomparable_names", code)
        )
    if is_baseline(estimate.cell, run.plan.baseline) or estimate.ratio is None:
        return text
    return words.text("table.with_change", figure=text, change=numbers.judged_estimate(estimate, words))


def short_grids(grids: Sequence[Grid]) -> list[Grid]:
    """Return the tables that are not folded, for short formats."""
    return [grid for grid in grids if not grid.folded]


def watch_grids(measure: str, run: StoredRun, analysis: Analysis, names: Names, most: int) -> list[Grid]:
    """Return the tables of watches: a row per cell and direction; empty without a watch."""
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
    """Return the columns that contain figures, with their titles."""
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
