"""Factors of a measure -> columns of a linear model. Treatment coding against the reference level; no
fitting.

A factor that is absent in a cell (a sub-factor of another level) stands at its reference there: its columns
are 0, and the step to the parent level that owns it is in the parent's own column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.ratios import ABSENT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int8]

MOST_COLUMNS = 160
"""Bound of the model: seven factors of three levels take 98; 100 000 trials in 160 columns take half a second.
Interactions beyond it stay in the residual."""


@dataclass(frozen=True, slots=True)
class Term:
    """One column: a level, or a pair of levels of two factors."""

    factors: tuple[int, ...]
    """Indices of the factors."""
    levels: tuple[int, ...]
    """Index of the level, per factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A linear model without its blocks."""

    references: Mapping[int, int]
    """Factor index to its reference level, for the factors that vary."""
    terms: tuple[Term, ...]
    """What each column stands for: main effects first."""
    matrix: Codes
    """Treatment-coded, 0 or 1; shape (cell, column)."""
    omitted: tuple[tuple[int, int], ...]
    """Pairs of factors whose interaction was left out to stay within MOST_COLUMNS."""


def design_of(levels: Ints, baseline: Mapping[int, int]) -> Design | None:
    """Code the cells' levels (cell, factor); None where the main effects alone are too many columns."""
    present = {factor: _present(levels[:, factor]) for factor in range(levels.shape[1])}
    varied = {factor: own for factor, own in present.items() if len(own) > 1}
    references = {
        factor: baseline[factor] if baseline.get(factor) in own else own[0] for factor, own in varied.items()
    }
    others = {
        factor: [level for level in own if level != references[factor]] for factor, own in varied.items()
    }
    terms = [Term((factor,), (level,)) for factor, own in others.items() for level in own]
    if len(terms) > MOST_COLUMNS:
        return None
    omitted = []
    for first, second in combinations(others, 2):
        pairs = [Term((first, second), (one, two)) for one in others[first] for two in others[second]]
        if len(terms) + len(pairs) > MOST_COLUMNS:
            omitted.append((first, second))
        else:
            terms += [term for term in pairs if _indicator(levels, term).any()]
    matrix = np.zeros((len(levels), len(terms)), dtype=np.int8)
    for column, term in enumerate(terms):
        matrix[:, column] = _indicator(levels, term)
    return Design(references=references, terms=tuple(terms), matrix=matrix, omitted=tuple(omitted))


def _present(levels: Ints) -> list[int]:
    return [int(level) for level in np.unique(levels) if level != ABSENT]


def _indicator(levels: Ints, term: Term) -> NDArray[np.bool_]:
    return np.asarray((levels[:, list(term.factors)] == list(term.levels)).all(axis=1))


def matched_difference(design: Design, levels: Ints, factor: int, level: int) -> Floats | None:
    """Weights of 'level against the reference level of factor', averaged evenly over the other factors.

    Cells are matched: those at either level whose other factors (the ones that exist on both sides) are equal. A
    combination that only one side has is left out. None where nothing matches.
    """
    sides = [np.flatnonzero(levels[:, factor] == at) for at in (level, design.references[factor])]
    if not len(sides[0]) or not len(sides[1]):
        return None
    present = [(levels[side] != ABSENT).any(axis=0) for side in sides]
    shared = np.flatnonzero(present[0] & present[1])
    code = codes(levels, shared[shared != factor])
    names, means = zip(*(_means_by(code[side], design.matrix[side]) for side in sides), strict=True)
    _, first, second = np.intersect1d(names[0], names[1], assume_unique=True, return_indices=True)
    if not len(first):
        return None
    return np.asarray(means[0][first].mean(axis=0) - means[1][second].mean(axis=0))


def codes(levels: Ints, factors: Ints) -> Ints:
    """Number the distinct combinations of the factors' levels; shape (cell,)."""
    code = np.zeros(len(levels), dtype=np.int64)
    for factor in factors.tolist():
        own = levels[:, factor] - ABSENT
        code = np.unique(code * (own.max(initial=0) + 1) + own, return_inverse=True)[1].reshape(-1)
    return code


def _means_by(codes: Ints, rows: Codes) -> tuple[Ints, Floats | Codes]:
    """Distinct codes, ascending, and the mean row of each."""
    distinct, position, count = np.unique(codes, return_inverse=True, return_counts=True)
    if len(distinct) == len(codes):
        return distinct, rows[np.argsort(codes)]
    sums = np.zeros((len(distinct), rows.shape[1]))
    np.add.at(sums, position.reshape(-1), rows)
    return distinct, sums / count[:, None]
