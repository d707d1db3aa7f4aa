"""The cells of an experiment: the product of its factors and sub-factors, less what `only` and `except` leave out."""

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
"""More cells than anyone can measure: a year of one-second trials holds 31 million."""

MOST_LOOKS = 100_000
"""Cells looked at to find one that is left."""

MOST_FACTORS = 100
"""Factors that may exist in one cell."""

ANY: Selector = {}
"""Accepts every cell."""


def cells(experiment: Experiment) -> Iterator[Cell]:
    """Yield every cell, the last factor changing fastest."""
    found = _expand(experiment.factors, {}, experiment.only or (ANY,))
    return selected(found, experiment.only, experiment.excluded)


def expand(factors: tuple[Factor, ...]) -> Iterator[dict[str, str]]:
    """Yield every combination of levels."""
    return _expand(factors, {}, (ANY,))


def _expand(
    factors: tuple[Factor, ...], chosen: dict[str, str], only: Sequence[Selector]
) -> Iterator[dict[str, str]]:
    """Yield the combinations that one of the selectors may accept: what none accepts is not walked into."""
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
    # Loops, not generators: planning asks this of every cell for every selector, half of its time.
    for selector in excluded:
        if matches(cell, selector):
            return False
    for selector in only:
        if matches(cell, selector):
            return True
    return not only


def matches(cell: Cell, selector: Selector) -> bool:
    """Tell whether a cell has one of the accepted labels for each factor named; an absent factor has none."""
    for name, labels in selector.items():  # noqa: SIM110  # a generator costs twice as much, half a million times
        if cell.get(name) not in labels:
            return False
    return True


def both(one: Selector, other: Selector) -> Selector:
    """Return the selector that accepts what both accept."""
    joined = dict(one)
    for name, labels in other.items():
        joined[name] = tuple(label for label in one.get(name, labels) if label in labels)
    return joined


def any_cell(experiment: Experiment, selector: Selector) -> bool:
    """Tell whether some cell matches a selector; after `MOST_LOOKS` cells it is taken for granted."""
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
    """Return the factors with only the wanted levels."""
    found = []
    for factor in factors:
        labels = wanted.get(factor.name)
        levels = [level for level in factor.levels if labels is None or level.label in labels]
        inner = (Level(level.label, level.sets, _restricted(level.factors, wanted)) for level in levels)
        found.append(Factor(factor.name, tuple(inner)))
    return tuple(found)


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


def every_level(factors: Sequence[Factor]) -> Iterator[Level]:
    """Yield every level, those of sub-factors after the one that they are under."""
    for factor in factors:
        for level in factor.levels:
            yield level
            yield from every_level(level.factors)


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
    """Yield the distinct combinations of the wanted factors among the cells, at most `limit`.

    Where there are more: first every level once with the others at their first, then those that come first.
    Factors that selectors name are walked along, so that what is left out stays out.
    """
    named = {name for selector in (*experiment.only, *experiment.excluded) for name in selector}
    kept = prune(experiment.factors, {*wanted, *named})
    found = _expand(kept, {}, experiment.only or (ANY,))
    if count(kept) > limit:
        found = chain(_one_at_a_time(Completion(kept), kept, {}), islice(found, 20 * limit))
    return islice(selected(found, experiment.only, experiment.excluded), limit)


class Completion:
    """Completes cells of some factors to cells of all."""

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
        """Return the cell with every absent factor at its first level."""
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
    """Return a value as a level's label."""
    return compact(value, budget=10_000)


ONE_ALLOWED = Phrase("check.mapping-of-factor-to-label")


@dataclass
class SelectorReader:
    """Reads selectors of one experiment."""

    factors: Sequence[Factor]
    """That they may name."""
    dropped: frozenset[str]
    """Words of factors that were wrong and are listed already: not to be missed here."""
    problems: Problems
    """Where what is wrong is noted."""
    known: Mapping[str, tuple[str, ...]] = field(init=False)
    """Factor to its labels."""

    def __post_init__(self) -> None:
        self.known = names(self.factors)

    def read(self, document: Table, key: str) -> tuple[Selector, ...]:
        """Return the selectors of `only` or `except`: one mapping, or a list of them."""
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
        """Return factor -> the label that others are compared with."""
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
