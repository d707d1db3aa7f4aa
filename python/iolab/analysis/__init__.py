"""Trials -> estimates with intervals -> conclusions. Pure: no I/O, no clock; randomness (bootstrap) from a
fixed seed."""

from iolab.analysis.analyse import analyse
from iolab.analysis.compare import compare

__all__ = ["analyse", "compare"]
