"""The exception tree, with the exit status of the command line for each class.

IolabError
|-- InputError         2  the input is invalid (contains all problems)
|-- UnsupportedError   3  this host cannot run the experiment
|-- AgentError         3  an agent could not be started, or was lost
|   `-- Refused        3  an agent answered with an error
|-- LabError           3  the lab could not be built or taken down
|-- TrialFailed        1  a trial could not be run; the run records it and continues
|-- StoreError         3  the run folder cannot be read or written
`-- InterruptedRun     4  the run was stopped before its end and can be resumed
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from iolab.locale import ENGLISH, Phrase, Text, say


class ExitCode(IntEnum):
    """Exit statuses of the process."""

    DONE = 0
    TRIALS_FAILED = 1
    INPUT_WRONG = 2
    HOST_CANNOT = 3
    INTERRUPTED = 4
    NOT_MET = 5
    NOT_DECIDED = 6


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with the input, and the information that the user needs to correct it."""

    where: str
    """Place of the problem as file:line, or the name of an option."""
    doing: Text
    """The action during which the problem was detected."""
    seen: Text
    """The invalid value."""
    allowed: Text
    """Description of valid values."""
    advice: Text = ""
    """What the user can do next, for example use the closest valid word."""

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
    """Base class of all errors that iolab reports."""

    exit_code: ExitCode = ExitCode.HOST_CANNOT

    def say(self, language: str = ENGLISH) -> str:
        """Return the error message in a language."""
        return say(self.args[0], language) if self.args else ""


class InputError(IolabError):
    """The experiment file, an option or the content of a run folder is invalid."""

    exit_code = ExitCode.INPUT_WRONG

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(*self.problems)

    def say(self, language: str = ENGLISH) -> str:
        """Return the problems in a language, one per line."""
        return "\n".join(problem.say(language) for problem in self.problems)

    def __str__(self) -> str:
        return self.say()


class UnsupportedError(IolabError):
    """This host cannot build or measure the experiment."""


class AgentError(IolabError):
    """An agent could not be started, rejected a request, or was lost."""


class Refused(AgentError):
    """The agent answered with an error."""

    def __init__(self, method: str, code: int, message: str, data: object) -> None:
        super().__init__(message or Phrase("errors.method-failed", method=method, code=code))
        self.method = method
        self.code = code
        self.data = data

    @property
    def is_busy(self) -> bool:
        """Whether a different agent, or changes left by a dead agent, block the request (contract, error -32003)."""
        return self.code == -32003

    @property
    def is_deadline(self) -> bool:
        """Whether a time limit was exceeded (contract, error -32002)."""
        return self.code == -32002


class LabError(IolabError):
    """The lab could not be built or taken down; the message contains the command and its output."""


class TrialFailed(IolabError):
    """The trial could not be run; the message is the recorded reason."""

    exit_code = ExitCode.TRIALS_FAILED


class StoreError(IolabError):
    """The run folder could not be read or written."""


class InterruptedRun(IolabError):
    """The run was stopped before its end and can be resumed."""

    exit_code = ExitCode.INTERRUPTED
