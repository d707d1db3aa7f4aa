"""Concurrent measures in a plan."""

import pytest

from iolab.experiment import Resolver, parse
from iolab.lab.hosts.facts import Facts
from iolab.plan.durations import parts_of
from iolab.plan.plan_file import decode_plan, encode_plan
from iolab.plan.planning import make_plan, missing_steps
from iolab.plan.types import Plan

TEXT = """
title: At once
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
measure:
  load: {kind: stream, from: near, to: far, duration: 10s}
  other: {kind: stream, from: near, to: far, duration: 1s}
  probe: {kind: command, on: near, run: [sleep, 1], duration: 20s}
  both: {kind: together, of: {load: 0s, probe: -5s}}
factors:
  links.lan.mtu: [1500, 9000]
  load.parallel: [1, 2]
blocks: 3
"""
EXPERIMENT = parse(TEXT, "at-once.yaml")


@pytest.fixture
def plan(facts: Facts) -> Plan:
    """Return the plan of the experiment."""
    return make_plan(EXPERIMENT, facts)


def test_concurrent_measures_are_consecutive_in_every_block(plan: Plan) -> None:
    """Let a run execute them as one turn."""
    turns = [tuple(step.measure for step in turn) for turn in plan.at_once(plan.steps)]
    assert turns.count(("load", "probe")) == 12
    assert turns.count(("other",)) == 6
    assert len(turns) == 18


def test_concurrent_measures_start_at_their_written_offsets() -> None:
    """Use the beginning of the first as the reference."""
    setup = Resolver(EXPERIMENT).setup({"links.lan.mtu": "1500", "load.parallel": "1"})
    assert parts_of(setup, "probe") == {"load": 5_000_000_000, "probe": 0}
    assert parts_of(setup, "other") == {"other": 0}


def test_estimate_counts_the_time_of_concurrent_measures_once(plan: Plan) -> None:
    """Count the longest: 12 times 20 s, and 6 times 1 s."""
    assert 246e9 < plan.estimate_ns < 270e9


def test_concurrent_measures_are_repeated_together_if_one_lacks_a_trial(plan: Plan) -> None:
    """Repeat all, because figures of different times do not belong together."""
    turn = next(turn for turn in plan.at_once(plan.steps) if len(turn) == 2)
    done = {step.key for step in plan.steps} - {turn[1].key}
    assert missing_steps(plan, done) == turn


def test_concurrent_measure_that_a_cell_lacks_is_left_out(facts: Facts) -> None:
    """Keep a level without load as the reference of the probe."""
    text = TEXT.replace("load.parallel: [1, 2]", "both.of.load: [none, 0s]")
    plan = make_plan(parse(text, "at-once.yaml"), facts)
    turns = [tuple(step.measure for step in turn) for turn in plan.at_once(plan.steps)]
    assert turns.count(("load", "probe")) == turns.count(("probe",)) == 6


def test_plan_with_concurrent_measures_is_read_back(plan: Plan) -> None:
    """Store the data that a resumed run needs."""
    assert decode_plan(encode_plan(plan)) == plan
