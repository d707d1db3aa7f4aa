"""What was decided before anything runs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import groupby

from iolab.experiment.experiment import Summary
from iolab.frozen import frozen
from iolab.lab.hosts.readiness import Computer
from iolab.messages.unmet import UnmetRequirement

PLAN_SCHEMA = 4
"""Version of plan.json."""


@frozen
class PlannedFactor:
    """A factor and its labels, sub-factors included (in order of first appearance)."""

    name: str
    """The key in the experiment file."""
    labels: tuple[str, ...]
    """Level labels in the order written."""


@frozen
class Step:
    """One trial to be done."""

    key: str
    """Identity: digest of the resolved lab, the measure and the block."""
    measure: str
    """Name of the measure."""
    block: int
    """From 1."""
    plot: int
    """Whole plot within the block, from 0: steps of one plot share their expensive levels."""
    levels: tuple[int, ...]
    """Per planned factor the index of its label; -1 where the factor does not exist or does not touch this measure."""


@frozen
class Unsupported:
    """Steps that this host cannot do."""

    measure: str
    """Name of the measure."""
    cell: Mapping[str, str]
    """Factor to label."""
    reason: UnmetRequirement
    """What is lacking."""


@frozen(kw_only=True)
class Plan:
    """An experiment with every choice made."""

    title: str
    """One line for people."""
    factors: tuple[PlannedFactor, ...]
    """All factors, sub-factors included."""
    measures: tuple[str, ...]
    """Names, in the order written."""
    baseline: Mapping[str, str]
    """Factor to label."""
    together: Mapping[str, str] = field(default_factory=dict)
    """Measures that are taken at once with others, each with what takes them."""
    grouping: tuple[str, ...]
    """Factors that are expensive to change; their levels change slowest (split-plot)."""
    seed: int
    """Of the order."""
    blocks: int
    """How often every cell is measured."""
    only: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    """Selectors given beside the experiment file (`--only`); part of the digest."""
    summaries: tuple[Summary, ...] = ()
    """What is shown over the levels of a factor; not part of the digest."""
    steps: tuple[Step, ...]
    """In the order they are done."""
    unsupported: tuple[Unsupported, ...]
    """What was left out, with reasons."""
    estimate_ns: int
    """Expected duration of all steps [ns]."""
    estimate_factor: float = 1.0
    """The duration lies within the estimate divided and multiplied by this, as earlier runs on the host tell."""
    computers: Mapping[str, Computer] = field(default_factory=dict)
    """What decides on which CPUs the parts of the labs run, by the kernel's name; this computer's is empty."""
    digest: str
    """sha256 over experiment, order and seed; not over the host's facts."""
    older_digests: tuple[str, ...] = field(default=(), compare=False)
    """What older versions gave the same plan as its digest; not stored."""

    def is_same_as(self, stored: "Plan") -> bool:
        """Whether a stored plan is this one, which was made just now."""
        return stored.digest in (self.digest, *self.older_digests)

    def cell(self, step: Step) -> dict[str, str]:
        """Return factor -> label of a step, without the factors that do not touch it."""
        pairs = zip(self.factors, step.levels, strict=True)
        return {factor.name: factor.labels[level] for factor, level in pairs if level >= 0}

    def at_once(self, steps: Iterable[Step]) -> Iterator[tuple[Step, ...]]:
        """Yield steps as they are done: those that are taken at once stand one after the other in a plan."""
        for _, group in groupby(steps, self.turn):
            yield tuple(group)

    def turn(self, step: Step) -> tuple[object, ...]:
        """Return what is equal for steps that are taken at once, and for no others."""
        taker = self.together.get(step.measure)
        return (step.key,) if taker is None else (taker, step.block, step.levels)

    def fixed(self) -> dict[str, str]:
        """Return factor -> label of what is the same in every step that has the factor; empty where everything is."""
        used = [{step.levels[index] for step in self.steps} - {-1} for index in range(len(self.factors))]
        if all(len(levels) <= 1 for levels in used):
            return {}
        pairs = zip(self.factors, used, strict=True)
        return {factor.name: factor.labels[min(levels)] for factor, levels in pairs if len(levels) == 1}

    def in_order(self, cells: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Sort cells as the experiment file lists their levels: the last factor changes fastest."""
        places = [(each.name, {label: at for at, label in enumerate(each.labels)}) for each in self.factors]
        return sorted(cells, key=lambda cell: [at.get(cell.get(name, ""), -1) for name, at in places])


@frozen
class UnsupportedCells:
    """Cells of one measure that were not tried, for one reason."""

    measure: str
    """Name of the measure."""
    cell: Mapping[str, str]
    """The first of them."""
    reason: UnmetRequirement
    """What is lacking."""
    count: int
    """How many."""


def unsupported(plan: Plan) -> list[UnsupportedCells]:
    """Group what this host cannot do by measure and reason."""
    groups: dict[tuple[str, UnmetRequirement], UnsupportedCells] = {}
    for each in plan.unsupported:
        key = (each.measure, each.reason)
        known = groups.get(key)
        count = known.count + 1 if known else 1
        groups[key] = UnsupportedCells(each.measure, known.cell if known else each.cell, each.reason, count)
    return list(groups.values())
