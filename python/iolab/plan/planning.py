"""Experiment + facts -> Plan: cells, seeded order, keys, what this host cannot do, time estimate, digest. Pure.

A measure is a task once per cell *projected* on the factors that touch it, and a step in each block. Within a block,
whole plots (combinations of the levels that are expensive to change) come in random order, and the steps of a plot in
random order. Order is decided by hashing (`rank`), so it is the same everywhere, and cells that are added do not move
the others.
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
from iolab.messages.unmet import UnmetRequirement
from iolab.plan.durations import Estimate, Expected, Learned, grouping, kind_of, start_ns
from iolab.plan.support import Support, located, refused
from iolab.plan.types import Plan, PlannedFactor, Step, Unsupported

DIGEST_VERSIONS = (3, 2, 1)
"""A part of what a plan's digest is made of, the newest first: until 3 it was the schema of plan.json. A plan of any of
these digests is the same plan: `resume` continues it."""
MOST_TRIALS = 2_000_000
"""Of a run; twice as many as its report takes a minute for."""


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


def make_plan(
    experiment: Experiment,
    facts: Facts,
    *,
    seed: int | None = None,
    blocks: int | None = None,
    only: tuple[Selector, ...] = (),
    learned: Learned | None = None,
) -> Plan:
    """Decide everything about a run; a cell is measured when it matches one of `only` (where given).

    `learned` is what earlier runs on this host took: it decides the estimate alone.

    The digest is over the experiment, seed, blocks, `only`, and the keys of all steps in order, those that this
    host cannot do included: the same file and seed give the same digest on every host.

    Raises:
        InputError: no cell is left, the baseline is left out, or a cell makes no sense.
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
    """Tell whether an experiment gives this plan, as far as the stored facts allow to tell."""
    hello = facts.get("hello")
    try:
        known = decode_facts(hello if isinstance(hello, Mapping) else {}, facts)
    except AgentError:
        return True  # facts of another version: nothing is known against it
    try:
        again = make_plan(experiment, known, seed=plan.seed, blocks=plan.blocks, only=plan.only)
    except InputError:  # its parts no longer fit together
        return False
    return again.is_same_as(plan)


def missing_steps(plan: Plan, done_keys: Collection[str]) -> tuple[Step, ...]:
    """Return the steps of a plan that have no trial yet, in order; with one, all that are taken at once with it."""
    done = frozenset(done_keys)
    missing = {plan.turn(step) for step in plan.steps if step.key not in done}
    return tuple(step for step in plan.steps if plan.turn(step) in missing)


def step_key(task: Task, block: int) -> str:
    """Return a step's identity: the same for the same lab, measure and block, whatever their labels."""
    return blake2b(f"{task.identity} {block}".encode(), digest_size=16).hexdigest()


def ordered(tasks: list[Task], seed: int, block: int) -> list[tuple[int, Task]]:
    """Return one block's tasks in their random order, each with the number of its whole plot."""
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
    """Return where something stands in the random order: compare as bytes.

    It depends on nothing but the seed and the name: the same on every platform and in every version.
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
        seen = "no remaining cell"
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
