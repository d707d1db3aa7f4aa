"""Trials -> estimates with intervals -> conclusions. Pure: no I/O, no clock, no randomness."""

from iolab.analysis.analyse import analyse
from iolab.analysis.compare import compare

__all__ = ["analyse", "compare"]
