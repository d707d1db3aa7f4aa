"""What was in effect when trials ended, as it was read back: which setting had which value, where, in which cells."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.report.names import Names
from iolab.report.tables import Grid
from iolab.results.in_effect import Effect
from iolab.results.trial import Status
from iolab.store.records import TrialRecord

SHORT = frozenset({Effect.CONGESTION, Effect.QDISC, Effect.OFFLOADS, Effect.MTU, Effect.GOVERNOR})
"""Settings that a terminal shows; the other formats have all."""
MOST_PLACES = 6
"""Places that are named for one value; the record has all."""
MOST_CELLS = 3
"""Cells that are named for one value."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a setting, at places where it was the same in the same trials."""

    measure: str
    """Of which trials."""
    setting: str
    """Its name, as `record.in_effect` has it."""
    value: str
    """As the kernel shows it."""
    places: tuple[str, ...]
    """Machines, ports or flows."""
    cells: tuple[Mapping[str, str], ...]
    """Cells whose trials had it; empty: all of the measure."""


def values(trials: Sequence[TrialRecord]) -> tuple[Value, ...]:
    """Return what was in effect in the trials that ended well, in the order of settings as they were read."""
    found: list[Value] = []
    measures = dict.fromkeys(trial.measure for trial in trials)
    for measure in measures:
        own = [one for one in trials if one.measure == measure and one.result.status is Status.OK]
        found += _of_measure(measure, own)
    return tuple(found)


def _of_measure(measure: str, trials: Sequence[TrialRecord]) -> Iterator[Value]:
    everywhere = list(dict.fromkeys(tuple(trial.cell.items()) for trial in trials))
    seen: dict[tuple[str, str, str], dict[tuple[tuple[str, str], ...], None]] = {}
    for trial in trials:
        cell = tuple(trial.cell.items())
        for place, settings in trial.result.in_effect.items():
            for setting, value in settings.items():
                seen.setdefault((setting, value, place), {})[cell] = None
    grouped: dict[tuple[str, str, tuple[tuple[tuple[str, str], ...], ...]], list[str]] = {}
    for (setting, value, place), cells in seen.items():
        which = () if len(cells) == len(everywhere) else tuple(cells)
        grouped.setdefault((setting, value, which), []).append(place)
    order = list(dict.fromkeys(setting for setting, *_ in grouped))
    for setting in order:
        for (name, value, which), places in grouped.items():
            if name == setting:
                yield Value(measure, setting, value, tuple(places), tuple(map(dict, which)))


def in_effect_grid(trials: Sequence[TrialRecord], named: Names) -> Grid | None:
    """Return the table of what was in effect; None where nothing was read."""
    found = values(trials)
    if not found:
        return None
    words = named.words
    several = len({each.measure for each in found}) > 1
    differ = any(each.cells for each in found)
    rows: list[tuple[str, ...]] = [
        (
            *((named.measure(each.measure),) if several else ()),
            words.name("in_effect.settings", each.setting),
            each.value,
            _listed(each.places, MOST_PLACES, named),
            *((_listed([named.cell(cell) for cell in each.cells], MOST_CELLS, named),) if differ else ()),
        )
        for each in found
    ]
    heads = (
        *((named.words.text("table.measure"),) if several else ()),
        *words.each("in_effect.setting", "in_effect.value", "in_effect.where"),
        *((words.text("in_effect.cells"),) if differ else ()),
    )
    return Grid(
        caption=words.text("in_effect.heading"),
        heads=heads,
        rows=tuple(rows),
        labels=len(heads),
        prose=True,
        folded=True,
    )


def _listed(items: Sequence[str], most: int, named: Names) -> str:
    shown = named.words.listed(items[:most])
    more = len(items) - most
    return shown if more <= 0 else named.words.text("in_effect.more", shown=shown, more=more)


def short_lines(trials: Sequence[TrialRecord], named: Names, settings: Collection[str]) -> Iterator[str]:
    """Yield what was in effect of some settings as a line for each; measures that had the same are named together."""
    words = named.words
    found = [one for one in values(trials) if one.setting in settings]
    alike: dict[tuple[str, str, str], dict[str, None]] = {}
    for each in found:
        where = _listed(each.places, MOST_PLACES, named)
        if len(each.cells) == 1:
            where = words.text("in_effect.in_cell", where=where, cell=named.cell(each.cells[0]))
        elif each.cells:
            where = words.text("in_effect.in_cells", where=where, count=len(each.cells))
        alike.setdefault((each.setting, each.value, where), {})[named.measure(each.measure)] = None
    every = {named.measure(each.measure) for each in found}
    lines: dict[str, list[str]] = {}
    for (setting, value, where), measures in alike.items():
        about = (
            where
            if every <= set(measures)
            else words.text("in_effect.of_measures", measures=words.listed(measures), where=where)
        )
        lines.setdefault(setting, []).append(words.text("in_effect.at", value=value, where=about))
    for setting, texts in lines.items():
        yield words.text(
            "in_effect.line", setting=words.name("in_effect.settings", setting), values="; ".join(texts)
        )
