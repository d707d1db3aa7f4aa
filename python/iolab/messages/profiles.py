"""What is stated of profiles: that some of it is missing, or what it cost. Types only."""

from iolab.messages.failures import Failure
from iolab.messages.hosts import Computer
from iolab.messages.statement import Quoted
from iolab.messages.warnings import TrialWarning


class ProfileFailed(Failure):
    """A profiler could not begin, or ended by itself."""

    host: Computer
    said: Quoted


class ProfileLost(TrialWarning):
    """Samples were lost."""

    host: Computer
    lost_samples: int
    kept_samples: int


class ProfileCut(TrialWarning):
    """The profiler's file was full before the trial ended."""

    host: Computer
    limit_bytes: int


class ProfileHidden(TrialWarning):
    """Functions of the kernel have no names: it hides its symbols."""

    host: Computer
    hidden_ratio: float
    """Of the samples in the kernel."""


class ProfileCostly(TrialWarning):
    """The profiler itself used CPU time."""

    host: Computer
    cpu_ratio: float
    """Of one CPU."""


class LocksUnseen(TrialWarning):
    """The kernel does not tell of contended locks."""

    host: Computer
    said: Quoted
