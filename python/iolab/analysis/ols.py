"""Ordinary least squares in numpy: QR of a design given in blocks, aliased columns dropped, contrasts with
errors.

Knows nothing of factors. Rows may come in any number of chunks; only a triangle of (columns + 1)^2 is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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
