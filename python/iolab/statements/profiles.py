"""What is stated of profiles: that some of it is missing, or what it cost. Types only."""

from iolab.statements.computers import Computer
from iolab.statements.failures import Failure
from iolab.statements.statement import Quoted
from iolab.statements.warnings import Warning


class ProfileFailed(Failure):
    """A profiler could not begin, or ended by itself."""

    host: Computer
    said: Quoted


class ProfileLost(Warning):
    """Samples were lost."""

    host: Computer
    lost_samples: int
    kept_samples: int


class ProfileCut(Warning):
    """The profiler's file was full before the trial ended."""

    host: Computer
    limit_bytes: int


class ProfileHidden(Warning):
    """Functions of the kernel have no names: it hides its symbols."""

    host: Computer
    hidden_ratio: float
    """Of the samples in the kernel."""


class ProfileCostly(Warning):
    """The profiler itself used CPU time."""

    host: Computer
    cpu_ratio: float
    """Of one CPU."""


class LocksUnseen(Warning):
    """The kernel does not tell of contended locks."""

    host: Computer
    said: Quoted
