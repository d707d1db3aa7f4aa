"""What a run tells while it goes on; the command line shows it, tests record it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from iolab.plan.types import Plan, Step
from iolab.store.records import TrialRecord


class Observer(Protocol):
    """Someone who watches a run."""

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """`steps` trials are to be done, `already` are stored."""

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """A trial begins; all that is left takes about `left_ns`."""

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """A trial is stored; all that is left takes about `left_ns`."""

    def guests_start(self, names: Sequence[str]) -> None:
        """Guests are about to be started, which takes seconds to minutes."""
