"""Linear models: code the factors of a measure as columns, and fit them by least squares (QR of a design in chunks).

Factors are treatment-coded against their reference level. A factor that is absent in a cell (a sub-factor of a
different level) counts as its reference level: its columns are 0, and the column of the parent level covers the whole
difference. Aliased columns are dropped. Each contrast has a standard error. Rows may be supplied in any number of
chunks; only a triangle of (columns + 1)^2 is kept.
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
"""Maximum number of columns; further interactions stay in the residual.

Seven factors of three levels need 98 columns; 100 000 trials with 160 columns take half a second.
"""
ALIAS_TOLERANCE = 1e-9
"""Relative length below which the part of a column that is orthogonal to the previous columns counts as 0: the column
is aliased."""
ROWS_AT_ONCE = 4096
"""Number of rows that are gathered before each QR step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted linear model."""

    kept: NDArray[np.int64]
    """Columns of the design that were fitted, ascending."""
    dropped: NDArray[np.int64]
    """Columns aliased with previous columns; their coefficients are 0."""
    coefficients: Floats
    """One coefficient per column of the design."""
    root: Floats
    """Inverse of the triangle R of the kept columns: covariance = root root' variance."""
    alias: Floats
    """Dropped columns as combinations of the kept columns; shape (kept, dropped)."""
    squares: float
    """Sum of squared residuals."""
    freedom: int
    """Degrees of freedom of the residual."""

    @property
    def variance(self) -> float:
        """Return the residual variance; NaN without degrees of freedom."""
        return self.squares / self.freedom if self.freedom > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class Contrast:
    """A linear combination of coefficients."""

    value: float
    """Estimate of the combination."""
    leverage: float
    """Variance in units of the residual variance."""


@dataclass(frozen=True, slots=True)
class Term:
    """One column: a level, or a pair of levels of two factors."""

    factors: tuple[int, ...]
    """Factor indices."""
    levels: tuple[int, ...]
    """Level index, per factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A linear model without its blocks."""

    references: Mapping[int, int]
    """Reference level by factor index, for the factors that vary."""
    terms: tuple[Term, ...]
    """Term of each column, main effects first."""
    matrix: Codes
    """Treatment-coded matrix of 0 and 1; shape (cell, column)."""
    omitted: tuple[tuple[int, int], ...]
    """Pairs of factors whose interaction was left out because of MOST_COLUMNS."""


def design_of(levels: Ints, baseline: Mapping[int, int]) -> Design | None:
    """Return the design for the cells' levels (cell, factor); None if the main effects alone exceed MOST_COLUMNS."""
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
    """Return the weights of the difference between a level and its factor's reference, averaged evenly over the other
    factors.

    Cells are matched if their other factors (those that exist on both sides) are equal. Combinations that exist on
    only one side are left out. Return None if no cells match.
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
    """Return the distinct codes, ascending, and the mean row of each code."""
    distinct, position, count = np.unique(codes, return_inverse=True, return_counts=True)
    if len(distinct) == len(codes):
        return distinct, rows[np.argsort(codes)]
    sums = np.zeros((len(distinct), rows.shape[1]))
    np.add.at(sums, position.reshape(-1), rows)
    return distinct, sums / count[:, None]


def fit(chunks: Iterable[tuple[Floats, Floats]], columns: int) -> Fit:
    """Fit the response to the design, given in chunks of (design (row, column), response (row,))."""
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
    """Estimate the contrast weights . coefficients; return None if the design cannot estimate it."""
    own = weights[model.kept]
    implied = own @ model.alias
    if not np.allclose(implied, weights[model.dropped], atol=1e-6):
        return None
    along = own @ model.root
    return Contrast(float(own @ model.coefficients[model.kept]), float(along @ along))


def _triangle(chunks: Iterable[tuple[Floats, Floats]], columns: int) -> tuple[Floats, int]:
    """Return the factor R of the QR of [design | response], and the number of rows."""
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
    return cast("Floats", np.linalg.qr(rows, mode="r"))  # numpy's types declare a pair for mode "r"


def _independent(columns: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split unit columns into independent columns, in order, and columns aliased with previous ones."""
    basis = np.zeros((columns.shape[0], min(columns.shape)))
    kept: list[int] = []
    dropped: list[int] = []
    for index in range(columns.shape[1]):
        rest = columns[:, index]
        for _ in range(2):  # two passes are enough for orthogonality (Giraud et al. 2005)
            rest = rest - basis[:, : len(kept)] @ (basis[:, : len(kept)].T @ rest)
        length = float(np.sqrt(rest @ rest))
        if length > ALIAS_TOLERANCE and len(kept) < basis.shape[1]:
            basis[:, len(kept)] = rest / length
            kept.append(index)
        else:
            dropped.append(index)
    return np.array(kept, dtype=np.int64), np.array(dropped, dtype=np.int64)
