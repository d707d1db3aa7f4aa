"""Values by which a fit is compared with other programs."""

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.linear_model import Fit


def standard_errors(fit: Fit) -> NDArray[np.float64]:
    """Return the standard errors of the coefficients; 0 for dropped ones."""
    errors = np.zeros(len(fit.coefficients))
    errors[fit.kept] = np.sqrt(fit.variance * (fit.root**2).sum(axis=1))
    return errors
