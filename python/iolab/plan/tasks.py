"""The measures of an experiment in each of their cells: what a block does once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from iolab.errors import InputError, Problem
from iolab.experiment import Resolver, cells
from iolab.experiment.experiment import Cell, Experiment, Selector
from iolab.experiment.factors.product import matches
from iolab.frozen import frozen
from iolab.lab.hosts.facts import Facts
from iolab.messages.unmet import UnmetRequirement
from iolab.plan.durations import Expected, kind_of, start_ns
from iolab.plan.feasibility import located, refused
from iolab.plan.support import Support
from iolab.plan.types import PlannedFactor


@frozen
class Task:
    """A measure in a projected cell: one step in every block."""

    identity: str
    """Digest of lab and measure, without their labels; of several with equal content each has its own."""
    turn: str
    """What decides its place in a block: the identity, or what it shares with those that are taken at once with it."""
    measure: str
    """Name of the measure."""
    levels: tuple[int, ...]
    """As in `Step`."""
    expected: Expected
    """What decides how long it takes."""
    reason: UnmetRequirement | None
    """Why this host cannot do it."""


MOST_TRIALS = 2_000_000
"""Of a run; twice as many as its report takes a minute for."""


def make_tasks(
    experiment: Experiment,
    resolver: Resolver,
    facts: Facts,
    factors: tuple[PlannedFactor, ...],
    grouping: tuple[str, ...],
    only: tuple[Selector, ...],
    blocks: int,
) -> list[Task]:
    """Return every measure in every cell that it distinguishes, in the order of the cells.

    Raises:
        InputError: no cell is left, the baseline is left out, a cell makes no sense, or there are too many trials.
    """
    support = Support(resolver, facts)
    masks = {
        measure: tuple(resolver.touches(factor.name, measure) for factor in factors)
        for measure in resolver.measures
    }
    indices = [(factor.name, {label: i for i, label in enumerate(factor.labels)}) for factor in factors]
    seen: set[tuple[str, tuple[int, ...]]] = set()
    starts: dict[tuple[str, ...], tuple[int, str]] = {}
    content: Counter[str] = Counter()
    tasks: list[Task] = []
    for cell in _chosen_cells(experiment, only):
        whole = tuple([index.get(cell.get(name, ""), -1) for name, index in indices])
        for measure, mask in masks.items():
            levels = tuple([level if touched else -1 for level, touched in zip(whole, mask, strict=True)])
            if (measure, levels) in seen:
                continue
            seen.add((measure, levels))
            measure_key = resolver.measure_key(cell, measure)
            if not measure_key:
                continue
            lab_key = resolver.lab_key(cell)
            plot = tuple([cell.get(name, "") for name in grouping])
            if plot not in starts:
                lab = resolver.setup(cell).lab
                starts[plot] = start_ns(lab), kind_of(lab)
            kind, duration_ns = support.measuring(cell, measure)
            expected = Expected(lab_key, plot, duration_ns, *starts[plot], kind)
            same = f"{lab_key} {measure} {measure_key}"
            content[same] += 1
            if len(tasks) == MOST_TRIALS // blocks:
                raise _too_many(experiment, blocks)
            identity = _digest(f"{same} {content[same]}")
            taker = resolver.taken_by(measure)
            companions = [each for each in resolver.companions(measure) if resolver.measure_key(cell, each)]
            together = f"{lab_key} {taker} {resolver.group_key(cell, taker)} {content[same]}" if taker else ""
            tasks.append(
                Task(
                    identity=identity,
                    turn=_digest(together) if together else identity,
                    measure=measure,
                    levels=levels,
                    expected=expected,
                    reason=_reason(support, experiment, cell, companions),
                )
            )
    return tasks


def _reason(
    support: Support, experiment: Experiment, cell: Cell, measures: Sequence[str]
) -> UnmetRequirement | None:
    """Return why measures cannot be taken at once in a cell; None where they can."""
    for measure in measures:
        try:
            reason = support.reason(cell, measure)
        except InputError as error:
            if experiment.site is None:
                raise located(error, experiment, measure) from None
            reason = refused(error, experiment.site)
        if reason is not None:
            return reason
    return None


def _chosen_cells(experiment: Experiment, only: tuple[Selector, ...]) -> Iterator[Cell]:
    """Yield the cells to be measured; complain at the end when none, or none of the baseline, was among them."""
    found = baseline = False
    # What the file calls quick need not be among what its `only` keeps: a quick run may have levels of its own.
    whole = replace(experiment, only=()) if _is_quick(only, experiment.quick) else experiment
    for cell in cells(whole):
        if only and not any(matches(cell, selector) for selector in only):
            continue
        found = True
        baseline = baseline or all(cell.get(name) == label for name, label in experiment.baseline.items())
        yield cell
    if not found:
        seen = "no cell is left"
        raise InputError(
            [_problem(experiment, only, "choosing cells", seen, "a selection that some cell matches")]
        )
    if not baseline and not only:  # who asks for some cells only may do without the comparison
        text = ", ".join(f"{name}={label}" for name, label in experiment.baseline.items())
        seen = f"every cell of the baseline ({text}) is left out"
        allowed = "a selection that holds the baseline, with which the others are compared"
        raise InputError([_problem(experiment, only, "choosing cells", seen, allowed)])


def _is_quick(only: tuple[Selector, ...], quick: tuple[Selector, ...]) -> bool:
    """Tell whether all that is selected is among what the file calls quick."""
    return bool(only) and all(any(_is_within(one, other) for other in quick) for one in only)


def _is_within(one: Selector, other: Selector) -> bool:
    return all(name in one and set(one[name]) <= set(labels) for name, labels in other.items())


def _too_many(experiment: Experiment, blocks: int) -> InputError:
    seen = f"more than {MOST_TRIALS // blocks} measures of cells, each in {blocks} blocks"
    allowed = f"at most {MOST_TRIALS} trials: fewer levels or blocks, or some cells by --only"
    return InputError([_problem(experiment, (), "counting trials", seen, allowed)])


def _problem(
    experiment: Experiment, only: tuple[Selector, ...], doing: str, seen: str, allowed: str
) -> Problem:
    return Problem("--only" if only else f"{experiment.source}:1", doing, seen, allowed)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
