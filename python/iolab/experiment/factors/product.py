"""Enumerate the cells of an experiment: the product of its factors and sub-factors, filtered by `only` and `except`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from math import prod
from typing import Any

from iolab.experiment.experiment import Cell, Experiment, Factor, Level, Selector
from iolab.experiment.reading.document import Table, line_of, written
from iolab.experiment.reading.problems import Problems, compact, did_you_mean, listed
from iolab.locale import Phrase

MOST_CELLS = 10_000_000
"""Maximum number of cells. No run can measure this many: a year has 31 million one-second trials."""

MOST_LOOKS = 100_000
"""Maximum number of cells to examine when checking whether any cell matches a selector."""

MOST_FACTORS = 100
"""Maximum number of factors in one cell."""

ANY: Selector = {}
"""Selector that accepts every cell."""


def cells(experiment: Experiment) -> Iterator[Cell]:
    """Yield every cell; the last factor changes fastest."""
    found = _expand(experiment.factors, {}, experiment.only or (ANY,))
    return selected(found, experiment.only, experiment.excluded)


def expand(factors: tuple[Factor, ...]) -> Iterator[dict[str, str]]:
    """Yield every combination of levels."""
    return _expand(factors, {}, (ANY,))


def _expand(
    factors: tuple[Factor, ...], chosen: dict[str, str], only: Sequence[Selector]
) -> Iterator[dict[str, str]]:
    """Yield the combinations that at least one selector may accept; skip a branch that no selector accepts."""
    if not factors:
        yield dict(chosen)
        return
    first, rest = factors[0], factors[1:]
    for level in first.levels:
        left = [one for one in only if first.name not in one or level.label in one[first.name]]
        if not left:
            continue
        chosen[first.name] = level.label
        yield from _expand((*level.factors, *rest), chosen, left)
    chosen.pop(first.name, None)


def count(factors: Sequence[Factor]) -> int:
    """Return the number of combinations that `expand` yields, without enumerating them."""
    return prod(sum(count(level.factors) for level in factor.levels) for factor in factors)


def selected(
    found: Iterator[dict[str, str]], only: Sequence[Selector], excluded: Sequence[Selector]
) -> Iterator[dict[str, str]]:
    """Yield the cells that pass `only` (if given) and `except`."""
    if not only and not excluded:
        return found
    return (cell for cell in found if chosen(cell, only, excluded))


def chosen(cell: Cell, only: Sequence[Selector], excluded: Sequence[Selector]) -> bool:
    """Whether a cell is measured."""
    # Loops instead of generators: planning calls this function for every cell and selector, and half of the planning
    # time is spent in it.
    for selector in excluded:
        if matches(cell, selector):
            return False
    for selector in only:
        if matches(cell, selector):
            return True
    return not only


def matches(cell: Cell, selector: Selector) -> bool:
    """Whether a cell has an accepted label for each factor in the selector; an absent factor does not match."""
    for name, labels in selector.items():  # noqa: SIM110  # a generator costs twice as much, half a million times
        if cell.get(name) not in labels:
            return False
    return True


def both(one: Selector, other: Selector) -> Selector:
    """Return the selector that accepts the cells that both selectors accept."""
    joined = dict(one)
    for name, labels in other.items():
        joined[name] = tuple(label for label in one.get(name, labels) if label in labels)
    return joined


def any_cell(experiment: Experiment, selector: Selector) -> bool:
    """Whether at least one cell matches a selector; after `MOST_LOOKS` cells without a match, return True."""
    looks = 0
    for only in experiment.only or ({},):
        wanted = both(only, selector)
        for cell in expand(_restricted(experiment.factors, wanted)):
            if matches(cell, wanted) and chosen(cell, experiment.only, experiment.excluded):
                return True
            looks += 1
            if looks > MOST_LOOKS:
                return True
    return False


def _restricted(factors: Sequence[Factor], wanted: Selector) -> tuple[Factor, ...]:
    """Return the factors with only the levels that the selector accepts."""
    found = []
    for factor in factors:
        labels = wanted.get(factor.name)
        levels = [level for level in factor.levels if labels is None or level.label in labels]
        inner = (Level(level.label, level.sets, _restricted(level.factors, wanted)) for level in levels)
        found.append(Factor(factor.name, tuple(inner)))
    return tuple(found)


def names(factors: Sequence[Factor]) -> dict[str, tuple[str, ...]]:
    """Return the name of every factor and sub-factor, with its labels, in order of first appearance."""
    found: dict[str, dict[str, None]] = {}
    for factor in factors:
        labels = found.setdefault(factor.name, {})
        labels.update(dict.fromkeys(level.label for level in factor.levels))
        for level in factor.levels:
            for name, inner in names(level.factors).items():
                found.setdefault(name, {}).update(dict.fromkeys(inner))
    return {name: tuple(labels) for name, labels in found.items()}


def every_level(factors: Sequence[Factor]) -> Iterator[Level]:
    """Yield every level; the levels of sub-factors follow their parent level."""
    for factor in factors:
        for level in factor.levels:
            yield level
            yield from every_level(level.factors)


def prune(factors: Sequence[Factor], wanted: Collection[str]) -> tuple[Factor, ...]:
    """Return the wanted factors, and the factors under whose levels the wanted factors exist."""
    kept = []
    for factor in factors:
        levels = tuple(
            Level(level.label, level.sets, prune(level.factors, wanted)) for level in factor.levels
        )
        if factor.name in wanted or any(level.factors for level in levels):
            kept.append(Factor(factor.name, levels))
    return tuple(kept)


def sample(experiment: Experiment, wanted: Collection[str], limit: int) -> Iterator[dict[str, str]]:
    """Yield the distinct combinations of the wanted factors' levels among the cells, at most `limit`.

    If there are more than `limit` combinations, first yield every level once, with the other factors at their first
    level, and then the first combinations in product order. Factors in selectors are included, so that excluded cells
    are not yielded.
    """
    named = {name for selector in (*experiment.only, *experiment.excluded) for name in selector}
    kept = prune(experiment.factors, {*wanted, *named})
    found = _expand(kept, {}, experiment.only or (ANY,))
    if count(kept) > limit:
        found = chain(_one_at_a_time(Completion(kept), kept, {}), islice(found, 20 * limit))
    return islice(selected(found, experiment.only, experiment.excluded), limit)


class Completion:
    """Function object that completes a cell that lacks factors."""

    def __init__(self, factors: Sequence[Factor]) -> None:
        self._factors = [
            (
                factor.name,
                factor.levels[0].label,
                {level.label: Completion(level.factors) for level in factor.levels},
            )
            for factor in factors
        ]

    def __call__(self, cell: Cell) -> dict[str, str]:
        """Return the cell with every absent factor set to its first level."""
        whole: dict[str, str] = {}
        for name, first, levels in self._factors:
            label = cell.get(name, first)
            label = label if label in levels else first
            whole[name] = label
            whole |= levels[label](cell)
        return whole


def _one_at_a_time(complete: Completion, factors: Sequence[Factor], above: Cell) -> Iterator[dict[str, str]]:
    for factor in factors:
        for level in factor.levels:
            here = {**above, factor.name: level.label}
            yield complete(here)
            yield from _one_at_a_time(complete, level.factors, here)


def label_of(value: object) -> str:
    """Return a value as a level label."""
    return compact(value, budget=10_000)


ONE_ALLOWED = Phrase("check.mapping-of-factor-to-label")


@dataclass
class SelectorReader:
    """Reader for the selectors of one experiment."""

    factors: Sequence[Factor]
    """Factors that selectors may name."""
    dropped: frozenset[str]
    """Keys of invalid factors: they are already reported, so a selector that names one is not a second problem."""
    problems: Problems
    """Collection to which problems are added."""
    known: Mapping[str, tuple[str, ...]] = field(init=False)
    """Labels of each factor, by factor name."""

    def __post_init__(self) -> None:
        self.known = names(self.factors)

    def read(self, document: Table, key: str) -> tuple[Selector, ...]:
        """Return the selectors under `only` or `except`: one mapping, or a list of mappings."""
        content, line = document.get(key), line_of(document, key)
        if content is None:
            return ()
        if isinstance(content, Mapping):
            return (self._selector(content, line, key),) if content else ()
        if not isinstance(content, list):
            self.problems.add(
                line,
                Phrase("check.reading", place=key),
                content,
                Phrase("check.or-list-of-such-mappings", allowed=ONE_ALLOWED),
            )
            return ()
        found = []
        for index, item in enumerate(content):
            at = line_of(content, index, line)
            if isinstance(item, Mapping) and item:
                found.append(self._selector(item, at, f"{key}.{index}"))
            else:
                self.problems.add(at, Phrase("check.reading-part", place=key, part=index), item, ONE_ALLOWED)
        return tuple(found)

    def baseline(self, document: Table) -> dict[str, str]:
        """Return a mapping from each factor to the label with which its other labels are compared."""
        content, line = document.get("baseline"), line_of(document, "baseline")
        if content is None:
            return {}
        if not isinstance(content, Mapping):
            allowed = Phrase("check.mapping-of-factor-to-one")
            self.problems.add(line, Phrase("check.reading-baseline"), content, allowed)
            return {}
        single = {}
        for name, labels in self._selector(content, line, "baseline").items():
            value = content[name]
            if isinstance(value, list):
                self.problems.add(
                    line_of(content, name, line),
                    Phrase("check.reading-baseline-name", name=name),
                    value,
                    Phrase("check.one-label"),
                )
            elif labels:
                single[name] = labels[0]
        return single

    def _selector(self, content: Mapping[str, Any], line: int, within: str) -> dict[str, tuple[str, ...]]:
        found = {}
        for name in content:
            at = line_of(content, name, line)
            if name in self.known:
                found[name] = self._labels(content, name, at, within)
            elif name not in self.dropped:
                near = did_you_mean(name, self.known)
                self.problems.add(
                    at,
                    Phrase("check.reading", place=within),
                    name,
                    Phrase("check.a-factor-of", factors=listed(self.known)),
                    near,
                )
        return found

    def _labels(self, content: Mapping[str, Any], name: str, line: int, within: str) -> tuple[str, ...]:
        value, known = content[name], self.known[name]
        several = isinstance(value, list)
        seen = [written(value, index) for index in range(len(value))] if several else [written(content, name)]
        labels = [label_of(one) for one in seen]
        if not labels:
            self.problems.add(
                line,
                Phrase("check.reading-part", place=within, part=name),
                value,
                Phrase("check.one-label-or-more"),
            )
        for label in labels:
            if label not in known and label not in self.dropped:
                near = did_you_mean(label, known)
                allowed = Phrase("check.a-level-of", factor=name, levels=listed(known))
                self.problems.add(
                    line, Phrase("check.reading-part", place=within, part=name), label, allowed, near
                )
        return tuple(label for label in labels if label in known)
