"""Trials that failed for a reason that is stated."""

from iolab.errors import TrialFailed
from iolab.statements.failures import Failure, OtherFailure


class Failed(TrialFailed):
    """The trial could not be carried out; what is recorded is a statement."""

    def __init__(self, failure: Failure) -> None:
        parameters = ", ".join(f"{name}={value}" for name, value in failure)
        super().__init__(f"{failure.code}: {parameters}" if parameters else failure.code)
        self.failure = failure
        """Why."""


def failure_of(error: Exception) -> Failure:
    """Return why a trial failed: what the error states, else its words."""
    return error.failure if isinstance(error, Failed) else OtherFailure(said=str(error))
