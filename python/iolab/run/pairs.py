"""Run the pairs of a gate until a decision: the lab of each subject is rebuilt for each run, and a fair coin decides
which subject runs first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from iolab.clock import Clock
from iolab.experiment.experiment import Experiment
from iolab.frozen import frozen
from iolab.plan.types import Plan, Step
from iolab.run.agents import Agents
from iolab.run.folder_work import host_of
from iolab.run.outcome import Observer
from iolab.run.session import Session
from iolab.store.folder import RunFolder
from iolab.store.read import load_run
from iolab.store.records import TrialRecord

SLOW_FACTOR = 2
"""A run that takes more than this multiple of its planned time makes its pair void."""


@frozen
class Pair:
    """One run of each subject."""

    block: int
    """Number of the pair, from 1."""
    first: str
    """Subject that was run first."""
    records: Mapping[str, tuple[TrialRecord, ...]]
    """Trials by subject."""
    slow: tuple[str, ...] = ()
    """Subjects whose run took too long, which makes the pair void."""


class _Collected:
    """An observer that keeps the trials of all pairs, and announces the start of the run only once."""

    def __init__(self, observer: Observer) -> None:
        self._observer, self._begun = observer, False
        self.records: list[TrialRecord] = []
        self._planned = 0
        self._each_ns = 0

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """See Observer."""
        if not self._begun:
            self._planned = len(plan.steps)
            self._each_ns = plan.estimate_ns // max(1, self._planned)
            self._observer.run_begins(plan, self._planned, 0)
        self._begun = True

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """See Observer."""
        self._observer.trial_begins(step, cell, self._left_ns())

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """See Observer."""
        self.records.append(record)
        self._observer.trial_ended(record, self._left_ns())

    def _left_ns(self) -> int:
        """Return the planned time until the end of the last pair; the session knows only the time until the end of one
        side."""
        return self._each_ns * (self._planned - len(self.records))

    def guests_start(self, names: Sequence[str]) -> None:
        """See Observer."""
        self._observer.guests_start(names)


def sides(plan: Plan, factor: str, block: int) -> list[tuple[str, tuple[Step, ...]]]:
    """Return the steps of a pair by subject, in the order of a coin toss that depends only on the seed and the pair."""
    found: dict[str, list[Step]] = {}
    for step in plan.steps:
        if step.block == block and (label := plan.cell(step).get(factor)) is not None:
            found.setdefault(label, []).append(step)
    coin = blake2b(f"{plan.seed} pair {block}".encode(), digest_size=1).digest()[0] & 1
    ordered = sorted(found.items(), reverse=bool(coin))
    return [(label, tuple(steps)) for label, steps in ordered]


def run_pairs(
    path: Path,
    experiment: Experiment,
    agents: Agents,
    clock: Clock,
    observer: Observer,
    factor: str,
    is_decided: Callable[[Sequence[Pair]], bool],
) -> tuple[Pair, ...]:
    """Run the pairs of a run folder's plan until `is_decided`; return them.

    The session undoes the lab at the end of each side, so the lab is rebuilt for the next side.

    Raises:
        AgentError: the agent is lost.
        StoreError: a trial could not be stored.
    """
    run = load_run(path)
    folder, watching = RunFolder(path), _Collected(observer)
    pairs: list[Pair] = []
    try:
        session = Session(experiment, run.plan, agents, folder, clock, watching, host_of(run.facts))
        with session:
            for block in range(1, run.plan.blocks + 1):
                pairs.append(_pair(session, watching, run.plan, clock, factor, block))
                if is_decided(pairs):
                    break
    finally:
        folder.close()
    return tuple(pairs)


def _pair(session: Session, watching: _Collected, plan: Plan, clock: Clock, factor: str, block: int) -> Pair:
    pair = Pair(block, "", {})
    each_ns = plan.estimate_ns / max(1, len(plan.steps)) * max(1.0, plan.estimate_factor)
    for label, steps in sides(plan, factor, block):
        before, begin_ns = len(watching.records), clock.now_ns()
        session.walk(steps, keep_going=True)
        is_slow = clock.now_ns() - begin_ns > SLOW_FACTOR * each_ns * len(steps)
        pair = replace(
            pair,
            first=pair.first or label,
            records={**pair.records, label: tuple(watching.records[before:])},
            slow=(*pair.slow, label) if is_slow else pair.slow,
        )
    return pair
