"""Metrics: one measured figure each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured figure."""

    value: float
    """In `unit`."""
    unit: str
    """bit/s, ratio, s, count, ..."""
    limited_by: str = ""
    """What was the limit instead of the device (generator, receiver, line, load, time, host), so that the value is only
    a lower bound; empty: it was measured."""
