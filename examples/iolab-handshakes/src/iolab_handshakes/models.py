"""What can be written in an experiment file."""

from typing import Literal

from pydantic import Field

from iolab.plugin import Measure, Period, SomeWholeSeconds, WithInstrument


class Handshakes(Measure):
    """TCP connections that one client opens and closes, one after the other."""

    kind: Literal["handshakes"]
    """What is measured."""
    src: str = Field(alias="from")
    """Client: a machine, or machine.port."""
    dst: str = Field(alias="to")
    """Server: a machine, or machine.port."""
    duration: SomeWholeSeconds = 5_000_000_000
    """Of the measurement."""


class Switches(WithInstrument):
    """How often this computer's CPUs change from one thread to another."""

    kind: Literal["switches"] = "switches"
    """What stands beside the measure."""
    period: Period = 100_000_000
    """From one reading to the next."""
