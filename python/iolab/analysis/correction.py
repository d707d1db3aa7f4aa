"""Correction of p-values for the number of comparisons made."""

import numpy as np
from numpy.typing import NDArray


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values, in the order given; NaN (not compared) stays NaN and is not
    counted.

    Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6:65-70.
    """
    adjusted = np.full(p_values.shape, np.nan)
    compared = np.flatnonzero(~np.isnan(p_values))
    order = compared[np.argsort(p_values[compared], kind="stable")]
    steps = (len(order) - np.arange(len(order))) * p_values[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
