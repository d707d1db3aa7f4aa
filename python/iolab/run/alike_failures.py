"""Labs that cannot be made: after a few in a row that fail alike, the others would too."""

from iolab.errors import LabError
from iolab.messages.failures import Failure

MOST_ALIKE = 3
"""Labs in a row that fail alike before a run stops."""


class LabsUnmade(LabError):
    """Several labs in a row could not be made, all for one reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"making the lab: {MOST_ALIKE} in a row failed alike: {failure.code}")
        self.failure = failure
        """Why."""


class AlikeFailures:
    """The failures of labs that could not be made, since the last one that could."""

    def __init__(self) -> None:
        self._last: Failure | None = None
        self._count = 0

    def made(self) -> None:
        """Note a lab that was made."""
        self._last, self._count = None, 0

    def failed(self, failure: Failure) -> None:
        """Note a lab that could not be made."""
        self._count = self._count + 1 if failure == self._last else 1
        self._last = failure

    def stop_if_hopeless(self) -> None:
        """Raise if so many labs in a row failed alike.

        Raises:
            LabsUnmade: with the reason.
        """
        if self._last is not None and self._count >= MOST_ALIKE:
            raise LabsUnmade(self._last)
