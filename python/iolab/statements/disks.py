"""What limited a disk program. Types only."""

from iolab.statements.clauses import Clause
from iolab.statements.places import Place
from iolab.statements.statement import Name


class AtDisk(Place):
    """A disk of a machine, by its volume."""

    volume: Name
    machine: Name


class BytesThrottled(Clause):
    """A phase moved as many bytes as the disk's throttle lets through."""

    phase: Name
    passed_ratio: float
    """Of what the throttle lets through."""
    most_bytes: int
    """In a second."""


class OperationsThrottled(Clause):
    """A phase did as many reads and writes as the disk's throttle lets through."""

    phase: Name
    passed_ratio: float
    most: int
    """In a second."""


class OperationsOffered(Clause):
    """As many reads and writes were begun as were asked for."""

    reached_per_s: int
    offered_per_s: int


class DepthHeld(Clause):
    """A phase did more with more reads and writes under way."""

    phase: Name
    block_bytes: int
    """Of one read or write."""
    depth: int
    deeper: int
    """Under way, in the phase that did more."""
    gain: float
    """What it did, of what this one did."""
