"""Make a plan from an experiment and host facts: cells, seeded order, keys, unsupported steps, time estimate, digest.
Pure.

A measure is one task per cell *projected* on the factors that affect it, and one step of the task in each block. Within
a block, whole plots (combinations of levels that are expensive to change) are in random order, and so are the steps of
a plot. Hashing (`rank`) determines the order: the order is the same on every platform, and additional cells do not
reorder existing cells.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b, sha256

from iolab.errors import AgentError, InputError, Problem
from iolab.experiment import Resolver, cells, resolver_of
from iolab.experiment.experiment import Cell, Experiment, Factor, Selector
from iolab.experiment.factors.product import matches, names
from iolab.frozen import frozen
from iolab.lab.hosts.facts import Facts, decode_facts
from iolab.lab.hosts.readiness import computers_of
from iolab.locale import Phrase, Text
from iolab.messages.unmet import UnmetRequirement
from iolab.plan.durations import Estimate, Expected, Learned, grouping, kind_of, start_ns
from iolab.plan.support import Support, located, refused
from iolab.plan.types import Plan, PlannedFactor, Step, Unsupported

DIGEST_VERSIONS = (3, 2, 1)
"""Version numbers in a plan's digest, the newest first; up to 3 this was the schema version of plan.json.

Plans whose digests differ only in this number are the same plan, and `resume` continues them.
"""
MOST_TRIALS = 2_000_000
"""Maximum number of trials of a run; the report of a run with half as many trials takes a minute."""


@frozen
class Task:
    """A measure in a projected cell: one step in every block."""

    identity: str
    """Digest of lab and measure, without labels; for several tasks with equal content, a running number makes the
    digests different."""
    turn: str
    """Sort key within a block: the identity, or a key shared by tasks that run in parallel."""
    measure: str
    """Measure name."""
    levels: tuple[int, ...]
    """Level indices, as in `Step`."""
    expected: Expected
    """Properties that determine the duration."""
    reason: UnmetRequirement | None
    """Reason why this host cannot run the task; None if this host can run the task."""


def make_plan(
    experiment: Experiment,
    facts: Facts,
    *,
    seed: int | None = None,
    blocks: int | None = None,
    only: tuple[Selector, ...] = (),
    learned: Learned | None = None,
) -> Plan:
    """Make the plan of a run; a cell is measured if it matches a selector of `only`, or if there are none.

    `learned` holds durations of earlier runs on this host; it affects only the estimate.

    The digest covers the experiment, seed, blocks, `only`, and the keys of all steps in order, including steps that
    this host cannot run: the same file and seed have the same digest on every host.

    Raises:
        InputError: no cell is left, the baseline is excluded, or a cell is invalid.
    """
    seed = experiment.seed if seed is None else seed
    blocks = experiment.blocks if blocks is None else blocks
    resolver = resolver_of(experiment)
    factors = tuple(PlannedFactor(name, labels) for name, labels in names(experiment.factors).items())
    slow = grouping(experiment.factors)
    tasks = make_tasks(experiment, resolver, facts, factors, slow, only, blocks)
    content = _canonical(experiment, seed, blocks, only)
    digests = [sha256(_text({**content, "schema": version}).encode()) for version in DIGEST_VERSIONS]
    estimate = Estimate(learned, max(1.0, facts.load_1min_milli / 1000 / max(1, facts.cpus)))
    steps: list[Step] = []
    for block in range(1, blocks + 1):
        for plot, task in ordered(tasks, seed, block):
            key = step_key(task, block)
            for digest in digests:
                digest.update(key.encode())
            if task.reason is None:
                steps.append(Step(key, task.measure, block, plot, task.levels))
                estimate.add(task.expected)
    return Plan(
        title=experiment.title,
        factors=factors,
        measures=resolver.measures,
        together={part: taker for taker, parts in resolver.together.items() for part in parts},
        baseline=dict(experiment.baseline),
        grouping=slow,
        seed=seed,
        blocks=blocks,
        only=only,
        summaries=experiment.summaries,
        steps=tuple(steps),
        unsupported=tuple(_unsupported(tasks, factors)),
        estimate_ns=estimate.total_ns,
        estimate_factor=round(estimate.factor(), 2),
        computers=computers_of(facts),
        digest=digests[0].hexdigest(),
        older_digests=tuple(digest.hexdigest() for digest in digests[1:]),
    )


def gives_plan(experiment: Experiment, plan: Plan, facts: Mapping[str, object]) -> bool:
    """Whether an experiment results in this plan, as far as the stored facts allow a decision."""
    hello = facts.get("hello")
    try:
        known = decode_facts(hello if isinstance(hello, Mapping) else {}, facts)
    except AgentError:
        return True  # facts of a different version: no evidence against the plan
    try:
        again = make_plan(experiment, known, seed=plan.seed, blocks=plan.blocks, only=plan.only)
    except InputError:  # the experiment is no longer valid
        return False
    return again.is_same_as(plan)


def missing_steps(plan: Plan, done_keys: Collection[str]) -> tuple[Step, ...]:
    """Return the steps of a plan that have no trial, in order; parallel steps are returned together."""
    done = frozenset(done_keys)
    missing = {plan.turn(step) for step in plan.steps if step.key not in done}
    return tuple(step for step in plan.steps if plan.turn(step) in missing)


def step_key(task: Task, block: int) -> str:
    """Return a step's identity: the same for the same lab, measure and block, independent of labels."""
    return blake2b(f"{task.identity} {block}".encode(), digest_size=16).hexdigest()


def ordered(tasks: list[Task], seed: int, block: int) -> list[tuple[int, Task]]:
    """Return one block's tasks in random order, each with the number of its whole plot."""
    plots = sorted(
        {task.expected.plot for task in tasks}, key=lambda plot: (rank(seed, f"{block} plot {plot}"), plot)
    )
    numbers = {plot: number for number, plot in enumerate(plots)}
    placed = [
        (numbers[task.expected.plot], rank(seed, f"{block} {task.turn}"), index)
        for index, task in enumerate(tasks)
    ]
    return [(plot, tasks[index]) for plot, _, index in sorted(placed)]


def rank(seed: int, name: str) -> bytes:
    """Return a pseudo-random sort key as bytes.

    The key depends only on seed and name: it is the same on every platform and in every version.
    """
    return blake2b(f"{seed} {name}".encode(), digest_size=16).digest()


def _unsupported(tasks: list[Task], factors: tuple[PlannedFactor, ...]) -> Iterator[Unsupported]:
    for task in tasks:
        if task.reason is not None:
            pairs = zip(factors, task.levels, strict=True)
            cell = {factor.name: factor.labels[level] for factor, level in pairs if level >= 0}
            yield Unsupported(task.measure, cell, task.reason)


def _canonical(
    experiment: Experiment, seed: int, blocks: int, only: tuple[Selector, ...]
) -> dict[str, object]:
    return {
        "tree": experiment.tree,
        "factors": [_factor(factor) for factor in experiment.factors],
        "selected": [[dict(one) for one in some] for some in (experiment.only, experiment.excluded, only)],
        "baseline": dict(experiment.baseline),
        "seed": seed,
        "blocks": blocks,
    }


def _text(content: Mapping[str, object]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)


def _factor(factor: Factor) -> list[object]:
    levels = [[one.label, dict(one.sets), [_factor(inner) for inner in one.factors]] for one in factor.levels]
    return [factor.name, levels]


def make_tasks(
    experiment: Experiment,
    resolver: Resolver,
    facts: Facts,
    factors: tuple[PlannedFactor, ...],
    grouping: tuple[str, ...],
    only: tuple[Selector, ...],
    blocks: int,
) -> list[Task]:
    """Return one task per measure and distinct projected cell, in cell order.

    Raises:
        InputError: no cell is left, the baseline is excluded, a cell is invalid, or there are too many trials.
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
    """Return the reason why measures cannot run in parallel in a cell; None if they can."""
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
    """Yield the cells to measure; raise InputError at the end if there was no cell, or no cell of the baseline."""
    found = baseline = False
    # The file's `quick` cells need not match its `only`: a quick run may have separate levels.
    whole = replace(experiment, only=()) if _is_quick(only, experiment.quick) else experiment
    for cell in cells(whole):
        if only and not any(matches(cell, selector) for selector in only):
            continue
        found = True
        baseline = baseline or all(cell.get(name) == label for name, label in experiment.baseline.items())
        yield cell
    if not found:
        seen, allowed = Phrase("plan.no-remaining-cell"), Phrase("plan.selection-with-a-cell")
        raise InputError([_problem(experiment, only, Phrase("plan.choosing-cells"), seen, allowed)])
    if not baseline and not only:  # a selection of cells may exclude the baseline
        levels = [f"{name}={label}" for name, label in experiment.baseline.items()]
        seen, allowed = Phrase("plan.no-baseline-cell", levels=levels), Phrase("plan.selection-with-baseline")
        raise InputError([_problem(experiment, only, Phrase("plan.choosing-cells"), seen, allowed)])


def _is_quick(only: tuple[Selector, ...], quick: tuple[Selector, ...]) -> bool:
    """Whether all selected cells are among the file's `quick` cells."""
    return bool(only) and all(any(_is_within(one, other) for other in quick) for one in only)


def _is_within(one: Selector, other: Selector) -> bool:
    return all(name in one and set(one[name]) <= set(labels) for name, labels in other.items())


def _too_many(experiment: Experiment, blocks: int) -> InputError:
    seen = Phrase("plan.too-many-trials", count=MOST_TRIALS // blocks, blocks=blocks)
    allowed = Phrase("plan.at-most-trials", most=MOST_TRIALS)
    return InputError([_problem(experiment, (), Phrase("plan.counting-trials"), seen, allowed)])


def _problem(
    experiment: Experiment, only: tuple[Selector, ...], doing: Text, seen: Text, allowed: Text
) -> Problem:
    return Problem("--only" if only else f"{experiment.source}:1", doing, seen, allowed)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
