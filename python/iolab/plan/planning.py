"""Experiment + facts -> Plan: cells, seeded order, keys, what this host cannot do, time estimate, digest. Pure.

A measure is a step once per cell *projected* on the factors that touch it. Within a block, whole plots (combinations
of the levels that are expensive to change) come in random order, and the steps of a plot in random order. Order is
decided by hashing (`rank`), so it is the same everywhere, and cells that are added do not move the others.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b, sha256

from iolab.errors import AgentError, InputError
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Factor, Selector
from iolab.experiment.factors.product import names
from iolab.lab.hosts.facts import Facts, decode_facts
from iolab.lab.hosts.readiness import computers_of
from iolab.plan.durations import Estimate, Learned, grouping
from iolab.plan.tasks import Task, make_tasks
from iolab.plan.types import Plan, PlannedFactor, Step, Unsupported

DIGEST_VERSIONS = (3, 2, 1)
"""A part of what a plan's digest is made of, the newest first: until 3 it was the schema of plan.json. A plan of any of
these digests is the same plan: `resume` continues it."""


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
