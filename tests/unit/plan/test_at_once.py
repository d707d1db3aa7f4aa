"""Measures that are taken at once, as a plan has them."""

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
    """The plan of the experiment."""
    return make_plan(EXPERIMENT, facts)


def test_they_stand_one_after_the_other_in_every_block(plan: Plan) -> None:
    """So a run takes them as one turn."""
    turns = [tuple(step.measure for step in turn) for turn in plan.at_once(plan.steps)]
    assert turns.count(("load", "probe")) == 12
    assert turns.count(("other",)) == 6
    assert len(turns) == 18


def test_they_begin_as_they_were_written_the_first_at_once() -> None:
    """Nothing begins before the beginning."""
    setup = Resolver(EXPERIMENT).setup({"links.lan.mtu": "1500", "load.parallel": "1"})
    assert parts_of(setup, "probe") == {"load": 5_000_000_000, "probe": 0}
    assert parts_of(setup, "other") == {"other": 0}


def test_the_time_of_all_is_counted_once(plan: Plan) -> None:
    """The longest decides: 12 times 20 s, and 6 times 1 s."""
    assert 246e9 < plan.estimate_ns < 270e9


def test_where_one_has_no_trial_all_are_taken_again(plan: Plan) -> None:
    """Figures of different times are not of what happened at once."""
    turn = next(turn for turn in plan.at_once(plan.steps) if len(turn) == 2)
    done = {step.key for step in plan.steps} - {turn[1].key}
    assert missing_steps(plan, done) == turn


def test_a_part_that_a_cell_does_not_have_leaves_the_others(facts: Facts) -> None:
    """A level without load is what the probe is compared with."""
    text = TEXT.replace("load.parallel: [1, 2]", "both.of.load: [none, 0s]")
    plan = make_plan(parse(text, "at-once.yaml"), facts)
    turns = [tuple(step.measure for step in turn) for turn in plan.at_once(plan.steps)]
    assert turns.count(("load", "probe")) == turns.count(("probe",)) == 6


def test_a_plan_is_read_back_with_what_is_taken_at_once(plan: Plan) -> None:
    """Whatever resumes it needs that."""
    assert decode_plan(encode_plan(plan)) == plan
