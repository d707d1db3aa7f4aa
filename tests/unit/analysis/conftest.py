"""Make runs with known truth: a plan over any factors, and records whose metrics come from a function."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.records import metrics

from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.results.trial import Status, TrialResult
from iolab.store.records import TrialRecord

Levels = tuple[int, ...]
DIRECTIONS = {"one-way": "one-way", "both-ways": "both-ways", "uni": "one-way", "bidi": "both-ways"}
"""Meaning of direction levels, whatever their labels."""
Values = Mapping[str, tuple[float, str] | tuple[float, str, str] | tuple[float, str, str, str]]


def make_record(
    key: str, measure: str, block: int, values: Values, status: Status = Status.OK, direction: str = ""
) -> TrialRecord:
    """Return one record of a run."""
    result = TrialResult(status=status, metrics=metrics(values), begin_ns=0, end_ns=2, measured_ns=1)
    return TrialRecord(
        key=key,
        measure=measure,
        direction=direction,
        block=block,
        cell={},
        wall="2026-01-01T00:00:00+00:00",
        result=result,
    )


def make_run(
    factors: Mapping[str, Sequence[str]],
    blocks: int,
    value: Callable[[str, Levels, int], Values],
    *,
    measures: Sequence[str] = ("tcp",),
    baseline: Mapping[str, str] | None = None,
    grouping: Sequence[str] = (),
    exists: Callable[[Levels], bool] = lambda levels: True,
    cells: Sequence[Levels] | None = None,
    sets_each_load: bool = False,
) -> tuple[list[TrialRecord], Plan]:
    """Return a run with every cell in every block; `value(measure, levels, block)` gives the metrics of a trial."""
    planned = tuple(PlannedFactor(name, tuple(labels)) for name, labels in factors.items())
    every = cells or [
        own for own in itertools.product(*(range(len(f.labels)) for f in planned)) if exists(own)
    ]
    expensive = [index for index, factor in enumerate(planned) if factor.name in grouping]
    plots: dict[Levels, int] = {}
    steps, records = [], []
    for block, measure, levels in itertools.product(range(1, blocks + 1), measures, every):
        key = f"{measure}/{levels}/{block}"
        plot = plots.setdefault(tuple(levels[index] for index in expensive), len(plots))
        steps.append(Step(key, measure, block, plot, levels))
        labels = {factor.name: factor.labels[level] for factor, level in zip(planned, levels, strict=True)}
        direction = DIRECTIONS.get(labels.get("*.direction", ""), "")
        record = make_record(key, measure, block, value(measure, levels, block), direction=direction)
        records.append(replace(record, sets_each_load=sets_each_load))
    plan = Plan(
        title="simulated",
        factors=planned,
        measures=tuple(measures),
        baseline=baseline or {},
        grouping=tuple(grouping),
        seed=1,
        blocks=blocks,
        steps=tuple(steps),
        unsupported=(),
        estimate_ns=0,
        digest="",
    )
    return records, plan


@pytest.fixture(name="make_run")
def _make_run() -> Callable[..., tuple[list[TrialRecord], Plan]]:
    return make_run


@pytest.fixture(name="make_record")
def _make_record() -> Callable[..., TrialRecord]:
    return make_record


@pytest.fixture
def random() -> np.random.Generator:
    """Return a generator with the same random numbers in every test run."""
    return np.random.default_rng(7)
