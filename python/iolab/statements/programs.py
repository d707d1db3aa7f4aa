"""What is said of programs of the user's own: what limited them. Types only."""

from iolab.statements.clauses import Clause
from iolab.statements.doubts import Doubt
from iolab.statements.statement import Name


class OfProgram(Clause, kind=True):
    """What a program did on its CPUs."""

    program: Name
    machine: Name


class OwnThreadRan(OfProgram):
    """How much of the time the busiest thread of a program ran, and waited for a CPU."""

    busy_ratio: float
    wait_ratio: float


class OwnProgramRan(OfProgram):
    """CPU time of a program and what it started, for each second: more than 1 where several ran at once."""

    cpus_ratio: float


class OwnCpusFull(OfProgram):
    """The only CPUs that a program may run on had no time left."""

    cpus: tuple[int, ...]
    busy_ratio: float


class NothingFull(Clause):
    """No thread, no CPU and no link of known rate was seen at its limit."""


class OneAfterTheOther(Doubt):
    """Its processes were too short to be seen: they may have run one after the other, or not."""


PROGRAM_CODES = frozenset({OwnThreadRan.code, OwnProgramRan.code, OwnCpusFull.code, NothingFull.code})
"""Of what a verdict on programs of the user's own says first."""
