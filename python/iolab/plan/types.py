"""Types of plans: all decisions before a run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import groupby

from iolab.experiment.experiment import Summary
from iolab.frozen import frozen
from iolab.lab.hosts.readiness import Computer
from iolab.messages.unmet import UnmetRequirement

PLAN_SCHEMA = 4
"""Schema version of plan.json."""


@frozen
class PlannedFactor:
    """A factor and its labels, including sub-factors (in order of first appearance)."""

    name: str
    """Key in the experiment file."""
    labels: tuple[str, ...]
    """Level labels in file order."""


@frozen
class Step:
    """One planned trial."""

    key: str
    """Identity: digest of the resolved lab, the measure and the block."""
    measure: str
    """Measure name."""
    block: int
    """Block number, from 1."""
    plot: int
    """Number of the whole plot within the block, from 0: steps of one plot share the levels that are expensive to
    change."""
    levels: tuple[int, ...]
    """Label index per planned factor; -1 if the factor does not exist in the cell or does not affect this measure."""


@frozen
class Unsupported:
    """A cell of a measure that this host cannot run."""

    measure: str
    """Measure name."""
    cell: Mapping[str, str]
    """Level label by factor."""
    reason: UnmetRequirement
    """Unmet requirement."""


@frozen(kw_only=True)
class Plan:
    """An experiment with all decisions made."""

    title: str
    """One-line title."""
    factors: tuple[PlannedFactor, ...]
    """All factors, including sub-factors."""
    measures: tuple[str, ...]
    """Measure names in file order."""
    baseline: Mapping[str, str]
    """Baseline label by factor."""
    together: Mapping[str, str] = field(default_factory=dict)
    """Parallel measures, each with the measure that runs it."""
    grouping: tuple[str, ...]
    """Factors that are expensive to change; their levels change least often (split-plot design)."""
    seed: int
    """Seed of the random order."""
    blocks: int
    """Number of trials per cell."""
    only: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    """Selectors from the command line (`--only`); part of the digest."""
    summaries: tuple[Summary, ...] = ()
    """Summaries over the levels of a factor; not part of the digest."""
    steps: tuple[Step, ...]
    """Steps in execution order."""
    unsupported: tuple[Unsupported, ...]
    """Excluded cells, with reasons."""
    estimate_ns: int
    """Expected duration of all steps [ns]."""
    estimate_factor: float = 1.0
    """Uncertainty factor f: the duration is expected between estimate / f and estimate x f."""
    computers: Mapping[str, Computer] = field(default_factory=dict)
    """CPU information by kernel name; it determines the CPUs on which the parts of a lab run. The local host's name is
    empty."""
    digest: str
    """SHA-256 over experiment, order and seed; host facts are not part of it."""
    older_digests: tuple[str, ...] = field(default=(), compare=False)
    """Digests of the same plan in older versions; not stored."""

    def is_same_as(self, stored: "Plan") -> bool:
        """Whether a stored plan is the same as this newly made plan."""
        return stored.digest in (self.digest, *self.older_digests)

    def cell(self, step: Step) -> dict[str, str]:
        """Return the labels of a step by factor, without the factors that do not affect the step."""
        pairs = zip(self.factors, step.levels, strict=True)
        return {factor.name: factor.labels[level] for factor, level in pairs if level >= 0}

    def at_once(self, steps: Iterable[Step]) -> Iterator[tuple[Step, ...]]:
        """Yield groups of parallel steps, which are adjacent in a plan."""
        for _, group in groupby(steps, self.turn):
            yield tuple(group)

    def turn(self, step: Step) -> tuple[object, ...]:
        """Return a key that is equal only for steps that run in parallel."""
        taker = self.together.get(step.measure)
        return (step.key,) if taker is None else (taker, step.block, step.levels)

    def fixed(self) -> dict[str, str]:
        """Return the labels of the factors that have one label in all steps, by factor; empty if no factor varies."""
        used = [{step.levels[index] for step in self.steps} - {-1} for index in range(len(self.factors))]
        if all(len(levels) <= 1 for levels in used):
            return {}
        pairs = zip(self.factors, used, strict=True)
        return {factor.name: factor.labels[min(levels)] for factor, levels in pairs if len(levels) == 1}

    def in_order(self, cells: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Sort cells in file order of their levels: the last factor changes fastest."""
        places = [(each.name, {label: at for at, label in enumerate(each.labels)}) for each in self.factors]
        return sorted(cells, key=lambda cell: [at.get(cell.get(name, ""), -1) for name, at in places])


@frozen
class UnsupportedCells:
    """Excluded cells of one measure with the same reason."""

    measure: str
    """Measure name."""
    cell: Mapping[str, str]
    """The first of these cells."""
    reason: UnmetRequirement
    """Unmet requirement."""
    count: int
    """Number of cells."""


def unsupported(plan: Plan) -> list[UnsupportedCells]:
    """Group the cells that this host cannot run by measure and reason."""
    groups: dict[tuple[str, UnmetRequirement], UnsupportedCells] = {}
    for each in plan.unsupported:
        key = (each.measure, each.reason)
        known = groups.get(key)
        count = known.count + 1 if known else 1
        groups[key] = UnsupportedCells(each.measure, known.cell if known else each.cell, each.reason, count)
    return list(groups.values())
