"""The exception tree; each class has the exit code that the command line ends with.

IolabError
|-- InputError         2  what the user wrote is wrong (carries every problem found)
|-- UnsupportedError   3  this host cannot do what is asked
|-- AgentError         3  an agent is missing or broke off
|   `-- Refused        3  an agent answered with an error
|-- LabError           3  the lab could not be brought about or taken down
|-- TrialFailed        1  a trial could not be carried out; the run records it and goes on
|-- StoreError         3  the run folder cannot be read or written
`-- InterruptedRun     4  stopped before the end; the run can be resumed
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from iolab.locale import ENGLISH, Phrase, Text, say


class ExitCode(IntEnum):
    """What the process tells its caller."""

    DONE = 0
    TRIALS_FAILED = 1
    INPUT_WRONG = 2
    HOST_CANNOT = 3
    INTERRUPTED = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the input, said so that it can be mended at once."""

    where: str
    """Place as file:line, or the option's name."""
    doing: Text
    """What was being read or decided."""
    seen: Text
    """The offending value."""
    allowed: Text
    """What would have been accepted."""
    advice: Text = ""
    """What to do next; the nearest valid word where there is one."""

    def say(self, language: str = ENGLISH) -> str:
        """Return the problem as one line in a language."""
        problem = Phrase(
            "errors.problem", where=self.where, doing=self.doing, seen=self.seen, allowed=self.allowed
        )
        if self.advice:
            problem = Phrase("errors.with-advice", problem=problem, advice=self.advice)
        return problem.say(language)

    def __str__(self) -> str:
        return self.say()


class IolabError(Exception):
    """Everything that iolab reports on purpose."""

    exit_code: ExitCode = ExitCode.HOST_CANNOT

    def say(self, language: str = ENGLISH) -> str:
        """Return what went wrong in a language."""
        return say(self.args[0], language) if self.args else ""


class InputError(IolabError):
    """The experiment file, an option or a run folder's content is wrong."""

    exit_code = ExitCode.INPUT_WRONG

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(*self.problems)

    def say(self, language: str = ENGLISH) -> str:
        """Return the problems in a language, one a line."""
        return "\n".join(problem.say(language) for problem in self.problems)

    def __str__(self) -> str:
        return self.say()


class UnsupportedError(IolabError):
    """This host cannot build or measure what the experiment asks for."""


class AgentError(IolabError):
    """An agent could not be started, refused a request, or went away."""


class Refused(AgentError):
    """The agent answered with an error."""

    def __init__(self, method: str, code: int, message: str, data: object) -> None:
        super().__init__(message or f"{method}: error {code}")
        self.method = method
        self.code = code
        self.data = data

    @property
    def is_busy(self) -> bool:
        """Whether another agent, or what a dead one left, stands in the way (contract, error -32003)."""
        return self.code == -32003

    @property
    def is_deadline(self) -> bool:
        """Whether a time that was given is over (contract, error -32002)."""
        return self.code == -32002


class LabError(IolabError):
    """The lab could not be brought about or taken down; the message names the command and what it said."""


class TrialFailed(IolabError):
    """The trial could not be carried out; the message is the reason that is recorded."""

    exit_code = ExitCode.TRIALS_FAILED


class StoreError(IolabError):
    """The run folder could not be read or written."""


class InterruptedRun(IolabError):
    """The run was stopped before its end and can be resumed."""

    exit_code = ExitCode.INTERRUPTED
