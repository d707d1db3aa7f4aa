"""Trials that failed for a reason that is stated."""

from iolab.errors import TrialFailed
from iolab.messages.failures import Failure, OtherFailure


class Failed(TrialFailed):
    """The trial could not be carried out; what is recorded is a statement."""

    def __init__(self, failure: Failure) -> None:
        parameters = ", ".join(f"{name}={value}" for name, value in failure.parameters.items())
        super().__init__(f"{failure.code}: {parameters}" if parameters else failure.code)
        self.failure = failure
        """Why."""


class LabUnusable(Failed):
    """As `Failed`, and the lab cannot be measured on again: it is taken down as it is, without being read back."""

    def __init__(self, failure: Failure, hung: frozenset[str] = frozenset()) -> None:
        super().__init__(failure)
        self.hung = hung
        """Kernels of guests on which something waits for ever: nothing is undone there, they are powered off."""


def failure_of(error: Exception) -> Failure:
    """Return why a trial failed: what the error states, else its words."""
    return error.failure if isinstance(error, Failed) else OtherFailure(said=str(error))
