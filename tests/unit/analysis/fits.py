"""What tests compare a fit by with other programs."""

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.linear_model import Fit


def standard_errors(fit: Fit) -> NDArray[np.float64]:
    """Of the coefficients; 0 where dropped."""
    errors = np.zeros(len(fit.coefficients))
    errors[fit.kept] = np.sqrt(fit.variance * (fit.root**2).sum(axis=1))
    return errors
