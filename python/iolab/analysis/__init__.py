"""Statistical analysis: compute estimates with intervals from trials, and draw conclusions from the estimates.

The package is pure: no I/O, no clock, no randomness.
"""

from iolab.analysis.analyse import analyse
from iolab.analysis.compare import compare

__all__ = ["analyse", "compare"]
