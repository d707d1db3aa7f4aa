"""Planning: what becomes a step, in which order, under which digest."""

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


def test_a_measure_is_a_step_once_per_level_of_what_touches_it(experiment: Experiment, facts: Facts) -> None:
    """TCP in 3 x 2 x 2 cells, UDP (which the window does not touch) in 3 x 2; three blocks of each."""
    plan = make_plan(experiment, facts)
    assert Counter((step.measure, step.block) for step in plan.steps) == {
        (measure, block): count for measure, count in (("tcp", 12), ("udp", 6)) for block in (1, 2, 3)
    }
    assert len({step.key for step in plan.steps}) == len(plan.steps) == 54
    assert all("tcp.window" not in plan.cell(step) for step in plan.steps if step.measure == "udp")
    assert (plan.unsupported, plan.grouping) == ((), ("machines.b.forward",))


def test_every_block_holds_every_cell_in_an_order_of_its_own(experiment: Experiment, facts: Facts) -> None:
    """Blocks come one after the other, with equal content and different order."""
    plan = make_plan(experiment, facts)
    blocks = [list(steps) for _, steps in groupby(plan.steps, key=lambda step: step.block)]
    assert [steps[0].block for steps in blocks] == [1, 2, 3]
    orders = [cells(plan, steps) for steps in blocks]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert orders[0] != orders[1] != orders[2]


def test_more_trials_than_a_run_may_have_are_refused_before_they_are_made(
    experiment: Experiment, facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """18 measures of cells a block: as many as are allowed, and one less."""
    monkeypatch.setattr("iolab.plan.planning.MOST_TRIALS", 36)
    assert len(make_plan(experiment, facts, blocks=2).steps) == 36
    monkeypatch.setattr("iolab.plan.planning.MOST_TRIALS", 35)
    with pytest.raises(InputError, match=r"more than 17 measures .* in 2 blocks; allowed: at most 35 trials"):
        make_plan(experiment, facts, blocks=2)


def test_steps_of_a_whole_plot_stay_together(experiment: Experiment, facts: Facts) -> None:
    """The level that is expensive to change changes once per block; which comes first is random."""
    plan = make_plan(experiment, facts, blocks=16)
    firsts = set()
    for _, steps in groupby(plan.steps, key=lambda step: step.block):
        plots = [(step.plot, plan.cell(step)["machines.b.forward"]) for step in steps]
        runs = [plot for plot, _ in groupby(plots)]
        assert [number for number, _ in runs] == [0, 1]
        firsts.add(runs[0][1])
    assert firsts == {"none", "route"}


def test_the_order_of_a_seed_never_changes(experiment: Experiment, facts: Facts) -> None:
    """Pinned: on every platform and in every version, this file and seed give this plan."""
    assert rank(7, "1 plot ('none',)").hex() == "a14f6625046fcc1852e25dd7fe6ac77c"
    plan = make_plan(experiment, facts)
    assert cells(plan, plan.steps[:4]) == [
        ("tcp", "9000", "64K", "route"),
        ("udp", "1500", "route"),
        ("tcp", "1500", "64K", "route"),
        ("tcp", "1500", "1M", "route"),
    ]
    assert plan.steps[0].key == "ea97430f21879cf36ece3a31fb6790fd"


def test_the_digest_tells_everything_that_decides_the_trials(
    read: Read, experiment: Experiment, facts: Facts
) -> None:
    """Seed, blocks, selection, duration and levels change it; the title and the host do not."""
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


def test_added_levels_do_not_move_the_steps_that_were_there(read: Read, facts: Facts) -> None:
    """Keys stay, and so does the order among the old ones: a run can be extended."""
    small = make_plan(read("[1500, 4500, 9000]", "[1500, 9000]"), facts)
    large = make_plan(read(), facts)
    kept = [step.key for step in large.steps if step.key in {step.key for step in small.steps}]
    assert kept == [step.key for step in small.steps]
    assert len(missing_steps(large, kept)) == len(large.steps) - len(small.steps) == 18
    more = make_plan(read(), facts, blocks=5)
    assert [step.key for step in more.steps][: len(large.steps)] == [step.key for step in large.steps]


def test_other_labels_for_the_same_content_keep_the_keys(read: Read, facts: Facts) -> None:
    """What was measured counts, not what it was called."""
    levels, baseline = "{small: 1500, mid: 4500, jumbo: 9000}", "baseline: {links.lan.mtu: small}"
    renamed = read("[1500, 4500, 9000]", levels, "baseline: {links.lan.mtu: 1500}", baseline)
    plan, before = make_plan(renamed, facts), make_plan(read(), facts)
    assert {step.key for step in plan.steps} == {step.key for step in before.steps}
    assert plan.digest != before.digest


def test_two_levels_of_equal_content_are_both_measured(read: Read, facts: Facts) -> None:
    """An A/A comparison: equal labs and measures, and still a trial of its own for each."""
    twins = read("machines.b.forward: [none, route]", "twin: {one: {}, other: {links.wan.mtu: 1500}}")
    plan = make_plan(twins, facts, blocks=1)
    assert len({step.key for step in plan.steps}) == len(plan.steps)
    assert Counter(plan.cell(step)["twin"] for step in plan.steps) == {"one": 9, "other": 9}


def test_what_this_host_cannot_do_is_listed_once_with_its_reason(read: Read, facts: Facts) -> None:
    """Per measure and cell, not per block; the rest is planned in the same order as anywhere."""
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


def test_a_selection_leaves_only_what_it_names(experiment: Experiment, facts: Facts) -> None:
    """Several selectors add up; the selection is part of the plan."""
    only = ({"links.lan.mtu": ("1500",)}, {"links.lan.mtu": ("9000",), "tcp.window": ("1M",)})
    plan = make_plan(experiment, facts, only=only)
    found = {(plan.cell(step)["links.lan.mtu"], plan.cell(step).get("tcp.window")) for step in plan.steps}
    assert found == {("1500", "64K"), ("1500", "1M"), ("1500", None), ("9000", "1M"), ("9000", None)}
    assert plan.only == only


def test_a_selection_may_leave_the_baseline_out_but_not_every_cell(
    experiment: Experiment, facts: Facts
) -> None:
    """Who asks for one cell gets it, without percentages; nothing at all is a mistake."""
    plan = make_plan(experiment, facts, only=({"links.lan.mtu": ("9000",)},))
    assert {plan.cell(step)["links.lan.mtu"] for step in plan.steps} == {"9000"}
    with pytest.raises(InputError, match="no remaining cell"):
        make_plan(experiment, facts, only=({"links.lan.mtu": ("9000",), "tcp.window": ("none",)},))


def test_the_estimate_is_measuring_plus_what_lies_between(experiment: Experiment, facts: Facts) -> None:
    """36 trials of 2 s and 18 of 1 s take 90 s; set-up and read-back add less than half of a second each."""
    estimate_s = make_plan(experiment, facts).estimate_ns / 1e9
    assert 90 + 54 * 0.05 < estimate_s < 90 + 54 * 0.5


@given(st.integers(0, 2**63), st.text(max_size=20))
def test_rank_depends_on_seed_and_name_only(seed: int, name: str) -> None:
    """Equal inputs, equal rank; another seed, another rank."""
    assert rank(seed, name) == rank(seed, name)
    assert rank(seed, name) != rank(seed + 1, name)


def test_an_edited_experiment_no_longer_gives_the_plan(
    experiment: Experiment, read: Read, facts: Facts
) -> None:
    """A comment changes nothing; another level does; facts that cannot be read are no evidence."""
    plan, stored = make_plan(experiment, facts), asdict(facts)
    assert gives_plan(experiment, plan, stored)
    assert not gives_plan(read("4500", "4600"), plan, stored)
    assert gives_plan(read("4500", "4600"), plan, {"kernel": "6.1"})


def test_levels_that_change_nothing_but_a_namespaces_cpus_are_told_apart(read: Read, facts: Facts) -> None:
    """A host with two CPUs runs programs on the first of them, and on no hundredth."""
    experiment = read("  machines.b.forward: [none, route]", "  machines.b.program_cpus: [[0], [99]]")
    plan = make_plan(experiment, replace(facts, settings={ONLINE_CPUS: "0-1\n"}))
    assert {one.cell["machines.b.program_cpus"] for one in plan.unsupported} == {"[99]"}
