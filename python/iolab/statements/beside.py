"""What programs of others did to a trial that shares a computer with them. Types only."""

from iolab.statements.clauses import Clause
from iolab.statements.computers import Computer
from iolab.statements.warnings import Warning


class ProgramsWaited(Clause):
    """The program of the trial that waited most was ready for so much of its time, and had no CPU."""

    wait_ratio: float


class CpusIdle(Clause):
    """So little of the time of all CPUs was left over that what the kernel does for the trial waited too."""

    idle_ratio: float


class CpusTaken(Warning):
    """Programs that are not of the trial had CPUs that the trial needed."""

    comparable = False
    host: Computer
    cpus: float
    """As many CPUs they had on average, at least."""
    seen: tuple[Clause, ...]
    """How it is known that the trial needed them."""
