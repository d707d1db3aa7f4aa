"""Planning: steps, their order, and the digest."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment.experiment import Experiment
from iolab.lab.hosts.facts import ONLINE_CPUS, Facts
from iolab.plan.planning import gives_plan, make_plan, missing_steps, rank
from iolab.plan.types import Plan, Step

Read = Callable[..., Experiment]


def cells(plan: Plan, steps: tuple[Step, ...] | list[Step]) -> list[tuple[str, ...]]:
    """Return measure and labels of steps."""
    return [(step.measure, *plan.cell(step).values()) for step in steps]


def test_measure_has_one_step_per_level_of_the_factors_that_affect_it(
    experiment: Experiment, facts: Facts
) -> None:
    """Plan TCP in 3 x 2 x 2 cells, and UDP, which the window does not affect, in 3 x 2; three blocks each."""
    plan = make_plan(experiment, facts)
    assert Counter((step.measure, step.block) for step in plan.steps) == {
        (measure, block): count for measure, count in (("tcp", 12), ("udp", 6)) for block in (1, 2, 3)
    }
    assert len({step.key for step in plan.steps}) == len(plan.steps) == 54
    assert all("tcp.window" not in plan.cell(step) for step in plan.steps if step.measure == "udp")
    assert (plan.unsupported, plan.grouping) == ((), ("machines.b.forward",))


def test_every_block_contains_every_cell_in_a_different_order(experiment: Experiment, facts: Facts) -> None:
    """Keep blocks in sequence, with equal contents."""
    plan = make_plan(experiment, facts)
    blocks = [list(steps) for _, steps in groupby(plan.steps, key=lambda step: step.block)]
    assert [steps[0].block for steps in blocks] == [1, 2, 3]
    orders = [cells(plan, steps) for steps in blocks]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert orders[0] != orders[1] != orders[2]


def test_too_many_trials_are_refused_before_planning(
    experiment: Experiment, facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check 18 measures of cells per block against exactly the limit and one less."""
    monkeypatch.setattr("iolab.plan.planning.MOST_TRIALS", 36)
    assert len(make_plan(experiment, facts, blocks=2).steps) == 36
    monkeypatch.setattr("iolab.plan.planning.MOST_TRIALS", 35)
    with pytest.raises(
        InputError, match=r"more than 17 combinations of .* in 2 blocks; allowed: at most 35 trials"
    ):
        make_plan(experiment, facts, blocks=2)


def test_steps_of_a_whole_plot_are_consecutive(experiment: Experiment, facts: Facts) -> None:
    """Change the expensive level once per block, in random order."""
    plan = make_plan(experiment, facts, blocks=16)
    firsts = set()
    for _, steps in groupby(plan.steps, key=lambda step: step.block):
        plots = [(step.plot, plan.cell(step)["machines.b.forward"]) for step in steps]
        runs = [plot for plot, _ in groupby(plots)]
        assert [number for number, _ in runs] == [0, 1]
        firsts.add(runs[0][1])
    assert firsts == {"none", "route"}


def test_order_of_steps_for_a_seed_is_stable_across_versions(experiment: Experiment, facts: Facts) -> None:
    """Compare with a stored order, on every platform."""
    assert rank(7, "1 plot ('none',)").hex() == "a14f6625046fcc1852e25dd7fe6ac77c"
    plan = make_plan(experiment, facts)
    assert cells(plan, plan.steps[:4]) == [
        ("tcp", "9000", "64K", "route"),
        ("udp", "1500", "route"),
        ("tcp", "1500", "64K", "route"),
        ("tcp", "1500", "1M", "route"),
    ]
    assert plan.steps[0].key == "ea97430f21879cf36ece3a31fb6790fd"


def test_plan_digest_depends_on_everything_that_determines_the_trials(
    read: Read, experiment: Experiment, facts: Facts
) -> None:
    """Include seed, blocks, selection, duration and levels; exclude title and host."""
    digest = make_plan(experiment, facts).digest
    only = ({"links.lan.mtu": ("1500", "9000")},)
    others = [
        make_plan(experiment, facts, seed=8),
        make_plan(experiment, facts, blocks=4),
        make_plan(experiment, facts, only=only),
        make_plan(read("duration: 2s", "duration: 3s"), facts),
        make_plan(read("[1500, 4500, 9000]", "[1500, 4500]"), facts),
        make_plan(read("baseline: {links.lan.mtu: 1500}", "baseline: {links.lan.mtu: 9000}"), facts),
    ]
    assert len({digest, *(plan.digest for plan in others)}) == 7
    assert make_plan(read("title: Small", "title: Other"), facts).digest == digest
    assert make_plan(read(), replace(facts, hostname="pc7", programs={"tc": None})).digest == digest


def test_added_levels_keep_the_order_of_existing_steps(read: Read, facts: Facts) -> None:
    """Keep keys and the order among old steps, so that a run can be extended."""
    small = make_plan(read("[1500, 4500, 9000]", "[1500, 9000]"), facts)
    large = make_plan(read(), facts)
    kept = [step.key for step in large.steps if step.key in {step.key for step in small.steps}]
    assert kept == [step.key for step in small.steps]
    assert len(missing_steps(large, kept)) == len(large.steps) - len(small.steps) == 18
    more = make_plan(read(), facts, blocks=5)
    assert [step.key for step in more.steps][: len(large.steps)] == [step.key for step in large.steps]


def test_trials_keep_their_keys_when_level_labels_are_renamed(read: Read, facts: Facts) -> None:
    """Use the content, not the labels."""
    levels, baseline = "{small: 1500, mid: 4500, jumbo: 9000}", "baseline: {links.lan.mtu: small}"
    renamed = read("[1500, 4500, 9000]", levels, "baseline: {links.lan.mtu: 1500}", baseline)
    plan, before = make_plan(renamed, facts), make_plan(read(), facts)
    assert {step.key for step in plan.steps} == {step.key for step in before.steps}
    assert plan.digest != before.digest


def test_two_levels_with_equal_content_are_both_measured(read: Read, facts: Facts) -> None:
    """Plan an A/A comparison with separate trials."""
    twins = read("machines.b.forward: [none, route]", "twin: {one: {}, other: {links.wan.mtu: 1500}}")
    plan = make_plan(twins, facts, blocks=1)
    assert len({step.key for step in plan.steps}) == len(plan.steps)
    assert Counter(plan.cell(step)["twin"] for step in plan.steps) == {"one": 9, "other": 9}


def test_unsupported_cells_are_listed_once_with_their_reason(read: Read, facts: Facts) -> None:
    """List them per measure and cell, not per block; keep the order of the others."""
    tagged = read("[1500, 4500, 9000]", "[1500, 9000]\n  links.wan.vlan: [none, 100]")
    plan = make_plan(tagged, facts)
    able = make_plan(tagged, replace(facts, features={}))
    assert {one.cell["links.wan.vlan"] for one in plan.unsupported} == {"100"}
    assert len(plan.unsupported) == 12
    reasons = {in_words(one.reason) for one in plan.unsupported}
    assert all(
        "8021q is not available" in one and "load the module, or put b and c in a VM" in one
        for one in reasons
    )
    assert plan.digest == able.digest
    here = {step.key for step in plan.steps}
    assert [step for step in able.steps if step.key in here] == list(plan.steps)
    assert len(able.steps) == 2 * len(plan.steps)


def test_selection_keeps_only_the_named_cells(experiment: Experiment, facts: Facts) -> None:
    """Combine several selectors; store the selection in the plan."""
    only = ({"links.lan.mtu": ("1500",)}, {"links.lan.mtu": ("9000",), "tcp.window": ("1M",)})
    plan = make_plan(experiment, facts, only=only)
    found = {(plan.cell(step)["links.lan.mtu"], plan.cell(step).get("tcp.window")) for step in plan.steps}
    assert found == {("1500", "64K"), ("1500", "1M"), ("1500", None), ("9000", "1M"), ("9000", None)}
    assert plan.only == only


def test_selection_may_exclude_the_baseline_but_not_every_cell(experiment: Experiment, facts: Facts) -> None:
    """Omit percentages without the baseline; refuse an empty selection."""
    plan = make_plan(experiment, facts, only=({"links.lan.mtu": ("9000",)},))
    assert {plan.cell(step)["links.lan.mtu"] for step in plan.steps} == {"9000"}
    with pytest.raises(InputError, match="no remaining cell"):
        make_plan(experiment, facts, only=({"links.lan.mtu": ("9000",), "tcp.window": ("none",)},))


def test_estimate_is_measuring_time_plus_set_up_and_read_back(experiment: Experiment, facts: Facts) -> None:
    """Expect 90 s for 36 trials of 2 s and 18 of 1 s; set-up and read-back add less than half a second each."""
    estimate_s = make_plan(experiment, facts).estimate_ns / 1e9
    assert 90 + 54 * 0.05 < estimate_s < 90 + 54 * 0.5


@given(st.integers(0, 2**63), st.text(max_size=20))
def test_random_rank_depends_only_on_seed_and_name(seed: int, name: str) -> None:
    """Give equal ranks for equal inputs, and a different rank for a different seed."""
    assert rank(seed, name) == rank(seed, name)
    assert rank(seed, name) != rank(seed + 1, name)


def test_edited_experiment_does_not_match_the_stored_plan(
    experiment: Experiment, read: Read, facts: Facts
) -> None:
    """Ignore a comment; detect a different level; accept no unreadable facts."""
    plan, stored = make_plan(experiment, facts), asdict(facts)
    assert gives_plan(experiment, plan, stored)
    assert not gives_plan(read("4500", "4600"), plan, stored)
    assert gives_plan(read("4500", "4600"), plan, {"kernel": "6.1"})


def test_requirements_of_levels_that_differ_only_in_program_cpus_are_checked_separately(
    read: Read, facts: Facts
) -> None:
    """Run programs on the first of two CPUs, and refuse the hundredth."""
    experiment = read("  machines.b.forward: [none, route]", "  machines.b.program_cpus: [[0], [99]]")
    plan = make_plan(experiment, replace(facts, settings={ONLINE_CPUS: "0-1\n"}))
    assert {one.cell["machines.b.program_cpus"] for one in plan.unsupported} == {"[99]"}
