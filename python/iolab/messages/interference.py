"""What programs of others did to a trial that shares a computer with them. Types only."""

from iolab.messages.evidence import Evidence
from iolab.messages.hosts import Computer
from iolab.messages.warnings import TrialWarning


class ProgramsWaited(Evidence):
    """The program of the trial that waited most was ready for so much of its time, and had no CPU."""

    wait_ratio: float


class CpusIdle(Evidence):
    """So little of the time of all CPUs was left over that what the kernel does for the trial waited too."""

    idle_ratio: float


class CpusTaken(TrialWarning):
    """Programs that are not of the trial had CPUs that the trial needed."""

    comparable = False
    host: Computer
    cpus: float
    """As many CPUs they had on average, at least."""
    seen: tuple[Evidence, ...]
    """How it is known that the trial needed them."""
