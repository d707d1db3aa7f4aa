"""The cells of an experiment: the product of its factors and sub-factors, less what `only` and `except` leave out."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from math import prod

from iolab.experiment.experiment import Cell, Experiment, Factor, Level, Selector

MOST_CELLS = 10_000_000
"""More cells than anyone can measure: a year of one-second trials holds 31 million."""
MOST_FACTORS = 100
"""Factors that may exist in one cell."""


def cells(experiment: Experiment) -> Iterator[Cell]:
    """Yield every cell, the last factor changing fastest."""
    return selected(expand(experiment.factors), experiment.only, experiment.excluded)


def expand(factors: tuple[Factor, ...]) -> Iterator[dict[str, str]]:
    """Yield every combination of levels."""
    return _expand(factors, {})


def _expand(factors: tuple[Factor, ...], chosen: dict[str, str]) -> Iterator[dict[str, str]]:
    if not factors:
        yield dict(chosen)
        return
    first, rest = factors[0], factors[1:]
    for level in first.levels:
        chosen[first.name] = level.label
        yield from _expand((*level.factors, *rest), chosen)
    chosen.pop(first.name, None)


def count(factors: Sequence[Factor]) -> int:
    """Return how many combinations `expand` yields, without walking them."""
    return prod(sum(count(level.factors) for level in factor.levels) for factor in factors)


def selected(
    found: Iterator[dict[str, str]], only: Sequence[Selector], excluded: Sequence[Selector]
) -> Iterator[dict[str, str]]:
    """Yield the cells that `only` (where given) and `except` leave."""
    if not only and not excluded:
        return found
    return (cell for cell in found if chosen(cell, only, excluded))


def chosen(cell: Cell, only: Sequence[Selector], excluded: Sequence[Selector]) -> bool:
    """Tell whether a cell is measured."""
    if only and not any(matches(cell, selector) for selector in only):
        return False
    return not any(matches(cell, selector) for selector in excluded)


def matches(cell: Cell, selector: Selector) -> bool:
    """Tell whether a cell has one of the accepted labels for each factor named; an absent factor has none."""
    return all(cell.get(name) in labels for name, labels in selector.items())


def names(factors: Sequence[Factor]) -> dict[str, tuple[str, ...]]:
    """Return every factor's name, sub-factors included, with its labels, in order of first appearance."""
    found: dict[str, dict[str, None]] = {}
    for factor in factors:
        labels = found.setdefault(factor.name, {})
        labels.update(dict.fromkeys(level.label for level in factor.levels))
        for level in factor.levels:
            for name, inner in names(level.factors).items():
                found.setdefault(name, {}).update(dict.fromkeys(inner))
    return {name: tuple(labels) for name, labels in found.items()}


def prune(factors: Sequence[Factor], wanted: Collection[str]) -> tuple[Factor, ...]:
    """Return only the wanted factors, and those under whose levels they exist."""
    kept = []
    for factor in factors:
        levels = tuple(
            Level(level.label, level.sets, prune(level.factors, wanted)) for level in factor.levels
        )
        if factor.name in wanted or any(level.factors for level in levels):
            kept.append(Factor(factor.name, levels))
    return tuple(kept)


def sample(experiment: Experiment, wanted: Collection[str], limit: int) -> Iterator[dict[str, str]]:
    """Yield the distinct combinations of the wanted factors among the cells.

    Where there are more than `limit`: every level once with the others at their first, and then the first `limit`.
    Factors that selectors name are walked along, so that what is left out stays out.
    """
    named = {name for selector in (*experiment.only, *experiment.excluded) for name in selector}
    kept = prune(experiment.factors, {*wanted, *named})
    found = expand(kept)
    if count(kept) > limit:
        yield from selected(_one_at_a_time(kept, kept), experiment.only, experiment.excluded)
        found = islice(found, 20 * limit)
    yield from islice(selected(found, experiment.only, experiment.excluded), limit)


def completed(factors: Sequence[Factor], cell: Cell) -> dict[str, str]:
    """Return a cell of all factors: those not in `cell` at their first level."""
    whole: dict[str, str] = {}
    for factor in factors:
        level = next(
            (level for level in factor.levels if level.label == cell.get(factor.name)), factor.levels[0]
        )
        whole |= {factor.name: level.label} | completed(level.factors, cell)
    return whole


def _one_at_a_time(
    top: Sequence[Factor], factors: Sequence[Factor], above: Cell | None = None
) -> Iterator[dict[str, str]]:
    for factor in factors:
        for level in factor.levels:
            here = {**(above or {}), factor.name: level.label}
            yield completed(top, here)
            yield from _one_at_a_time(top, level.factors, here)
