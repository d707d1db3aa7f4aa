"""Linear models: factors of a measure as columns, and their fit by least squares (QR of a design given in blocks).

Treatment coding against the reference level. A factor that is absent in a cell (a sub-factor of another level) stands
at its reference there: its columns are 0, and the step to the parent level that owns it is in the parent's own column.
Aliased columns are dropped, contrasts have errors. Rows may come in any number of chunks; only a triangle of
(columns + 1)^2 is kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import cast

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.ratios import ABSENT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
MOST_COLUMNS = 160
"""Bound of the model: seven factors of three levels take 98; 100 000 trials in 160 columns take half a second.
Interactions beyond it stay in the residual."""
ALIAS_TOLERANCE = 1e-9
"""A column whose part that is new to the columns before it is shorter than this share of it, is aliased with
them."""
ROWS_AT_ONCE = 4096
"""Chunks are gathered up to so many rows before each QR step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted linear model."""

    kept: NDArray[np.int64]
    """Columns of the design that entered, ascending."""
    dropped: NDArray[np.int64]
    """Columns aliased with those before them; their coefficients are 0."""
    coefficients: Floats
    """One per column of the design."""
    root: Floats
    """Inverse of the triangle R of the kept columns: covariance = root root' variance."""
    alias: Floats
    """Dropped columns in terms of the kept ones; shape (kept, dropped)."""
    squares: float
    """Sum of squared residuals."""
    freedom: int
    """Degrees of freedom of the residual."""

    @property
    def variance(self) -> float:
        """Of the residual; NaN without degrees of freedom."""
        return self.squares / self.freedom if self.freedom > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class Contrast:
    """A linear combination of coefficients."""

    value: float
    """Its estimate."""
    leverage: float
    """Its variance in units of the residual variance."""


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


def fit(chunks: Iterable[tuple[Floats, Floats]], columns: int) -> Fit:
    """Fit response on design; chunks of (design (row, column), response (row,))."""
    triangle, rows = _triangle(chunks, columns)
    design, response = triangle[:, :columns], triangle[:, columns]
    scale = np.sqrt((design**2).sum(axis=0))
    scaled = design / np.where(scale > 0, scale, 1.0)
    kept, dropped = _independent(scaled)
    q, r = np.linalg.qr(scaled[:, kept])
    projected = q.T @ response
    inverse = np.linalg.solve(r, np.eye(len(kept))) if len(kept) else np.zeros((0, 0))
    coefficients = np.zeros(columns)
    coefficients[kept] = inverse @ projected / scale[kept]
    rest = response - q @ projected
    alias = (inverse @ (q.T @ design[:, dropped])) / scale[kept][:, None]
    return Fit(
        kept=kept,
        dropped=dropped,
        coefficients=coefficients,
        root=inverse / scale[kept][:, None],
        alias=alias,
        squares=float(rest @ rest),
        freedom=rows - len(kept),
    )


def contrast(model: Fit, weights: Floats) -> Contrast | None:
    """Estimate weights . coefficients; None where the design cannot tell it."""
    own = weights[model.kept]
    implied = own @ model.alias
    if not np.allclose(implied, weights[model.dropped], atol=1e-6):
        return None
    along = own @ model.root
    return Contrast(float(own @ model.coefficients[model.kept]), float(along @ along))


def _triangle(chunks: Iterable[tuple[Floats, Floats]], columns: int) -> tuple[Floats, int]:
    """R of the QR of [design | response], and the number of rows."""
    triangle = np.zeros((0, columns + 1))
    waiting: list[Floats] = []
    rows = held = 0
    for design, response in chunks:
        waiting.append(np.column_stack([design, response]))
        rows, held = rows + len(response), held + len(response)
        if held >= ROWS_AT_ONCE:
            triangle = _fold(triangle, waiting)
            waiting, held = [], 0
    if waiting:
        triangle = _fold(triangle, waiting)
    return triangle, rows


def _fold(triangle: Floats, waiting: list[Floats]) -> Floats:
    rows: Floats = np.vstack([triangle, *waiting])
    return cast("Floats", np.linalg.qr(rows, mode="r"))  # numpy types mode "r" as a pair


def _independent(columns: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split unit columns into those that bring something new, in order, and those aliased with the ones
    before."""
    basis = np.zeros((columns.shape[0], min(columns.shape)))
    kept: list[int] = []
    dropped: list[int] = []
    for index in range(columns.shape[1]):
        rest = columns[:, index]
        for _ in range(2):  # twice is enough for orthogonality (Giraud et al. 2005)
            rest = rest - basis[:, : len(kept)] @ (basis[:, : len(kept)].T @ rest)
        length = float(np.sqrt(rest @ rest))
        if length > ALIAS_TOLERANCE and len(kept) < basis.shape[1]:
            basis[:, len(kept)] = rest / length
            kept.append(index)
        else:
            dropped.append(index)
    return np.array(kept, dtype=np.int64), np.array(dropped, dtype=np.int64)
