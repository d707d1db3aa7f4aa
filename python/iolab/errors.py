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
    doing: str
    """What was being read or decided."""
    seen: str
    """The offending value."""
    allowed: str
    """What would have been accepted."""
    advice: str = ""
    """What to do next; the nearest valid word where there is one."""

    def __str__(self) -> str:
        text = f"{self.where}: {self.doing}: saw {self.seen}; allowed: {self.allowed}"
        return f"{text}; {self.advice}" if self.advice else text


class IolabError(Exception):
    """Everything that iolab reports on purpose."""

    exit_code: ExitCode = ExitCode.HOST_CANNOT


class InputError(IolabError):
    """The experiment file, an option or a run folder's content is wrong."""

    exit_code = ExitCode.INPUT_WRONG

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


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
