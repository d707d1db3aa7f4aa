"""Selecting cells on the command line."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment, LevelRatio, Summary
from iolab.lab.hosts.facts import Facts
from iolab.plan.planning import make_plan
from iolab.plan.selection import asked_summaries, selection, selector
from iolab.plan.types import Plan, PlannedFactor


def test_a_selector_names_factors_and_their_levels(experiment: Experiment, facts: Facts) -> None:
    """From an experiment or from a plan; spaces do not matter."""
    wanted = {"links.lan.mtu": ("1500", "9000"), "tcp.window": ("64K",)}
    for of in (experiment, make_plan(experiment, facts)):
        assert selector("links.lan.mtu=1500|9000, tcp.window = 64K", of) == wanted


def test_a_label_may_hold_a_comma(text: str) -> None:
    """What follows a comma without an equals sign belongs to the label."""
    factor = "network: {no vlan: {}, 'no vlan, tx checksum off': {links.lan.offload.tx_checksum: off}}"
    experiment = parse(text.replace("tcp.window: [64K, 1M]", factor), "x.yaml")
    found = selector("network=no vlan|no vlan, tx checksum off,links.lan.mtu=1500", experiment)
    assert found == {"network": ("no vlan", "no vlan, tx checksum off"), "links.lan.mtu": ("1500",)}


def test_every_unknown_word_is_told_with_the_nearest(experiment: Experiment) -> None:
    """One message for a wrong factor and two wrong levels."""
    with pytest.raises(InputError) as caught:
        selector("links.lan.mut=1500,tcp.window=64k|2M", experiment)
    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == 3
    assert "did you mean links.lan.mtu?" in told[0]
    assert "did you mean 64K?" in told[1]
    assert "allowed: 64K, 1M" in told[2]


def test_what_is_no_selection_is_told_with_its_form(experiment: Experiment) -> None:
    """Without an equals sign there is nothing to select."""
    with pytest.raises(InputError, match=r"factor=level\|level"):
        selector("1500", experiment)


def test_a_quick_run_is_what_the_file_calls_quick(text: str, facts: Facts) -> None:
    """The plan holds those cells and no others."""
    experiment = parse(text + "quick: {links.lan.mtu: 9000}\n", "x.yaml")
    chosen = selection((), experiment, quick=True)
    plan = make_plan(experiment, facts, only=chosen)
    assert {plan.cell(step)["links.lan.mtu"] for step in plan.steps} == {"9000"}


def test_a_quick_run_may_have_a_level_that_the_whole_run_has_not(text: str, facts: Facts) -> None:
    """Short trials, as an example; what `except` takes away stays away."""
    factor = "trials: {full: {}, short: {tcp.duration: 1s}}"
    chosen = "only: {trials: full}\nquick: {trials: short}\nexcept: {links.lan.mtu: 4500}\n"
    experiment = parse(text.replace("tcp.window: [64K, 1M]", factor) + chosen, "x.yaml")
    for quick, trials in ((False, {"full"}), (True, {"short"})):
        plan = make_plan(experiment, facts, only=selection((), experiment, quick=quick))
        cells = [plan.cell(step) for step in plan.steps if step.measure == "tcp"]
        assert {cell["trials"] for cell in cells} == trials
        assert {cell["links.lan.mtu"] for cell in cells} == {"1500", "9000"}


def test_a_quick_run_needs_a_file_that_says_so(experiment: Experiment) -> None:
    """Told with what to write."""
    with pytest.raises(InputError, match="no key `quick`"):
        selection((), experiment, quick=True)


def test_some_of_the_quick_cells_can_be_chosen(text: str, facts: Facts) -> None:
    """--only beside --quick: a cell has to be among both."""
    factor = "trials: {full: {}, short: {tcp.duration: 1s}}"
    chosen = "only: {trials: full}\nquick: {trials: short, links.lan.mtu: [1500, 9000]}\n"
    experiment = parse(text.replace("tcp.window: [64K, 1M]", factor) + chosen, "x.yaml")
    both = selection(["links.lan.mtu=9000"], experiment, quick=True)
    cells = [plan.cell(step) for plan in [make_plan(experiment, facts, only=both)] for step in plan.steps]
    assert {cell["links.lan.mtu"] for cell in cells} == {"9000"}
    assert {cell["trials"] for cell in cells if "trials" in cell} == {"short"}
    with pytest.raises(InputError, match="no cell that --quick and --only both select"):
        selection(["trials=full"], experiment, quick=True)


def test_what_is_the_same_in_every_step_is_told_apart(experiment: Experiment, facts: Facts) -> None:
    """One MTU is left, two windows are; where everything is the same nothing stands out."""
    one_mtu = make_plan(experiment, facts, only=({"links.lan.mtu": ("9000",)},))
    assert one_mtu.fixed() == {"links.lan.mtu": "9000"}
    one_cell = {"links.lan.mtu": ("9000",), "tcp.window": ("64K",), "machines.b.forward": ("none",)}
    assert make_plan(experiment, facts, only=(one_cell,)).fixed() == {}
    assert make_plan(experiment, facts).fixed() == {}


def test_summaries_are_asked_for_by_factor_and_levels() -> None:
    """A stroke within a label is understood, since only whole labels are levels."""
    plan = plan_with({"path": ("iSCSI", "iSCSI/VM"), "size": ("64", "1518")})
    assert asked_summaries(["size"], ["path=iSCSI/VM/iSCSI"], plan) == (
        Summary("size", ratios=(LevelRatio("path", "iSCSI/VM", "iSCSI"),)),
    )


@pytest.mark.parametrize(
    ("overs", "ratios", "said"),
    [
        (["sise"], [], "did you mean size?"),
        (["size"], ["path=iSCSI/NFS"], "two levels of path, level/level: iSCSI, iSCSI/VM"),
        (["size"], ["size=64/1518"], "another factor than that of --over"),
        (["size"], ["path"], "factor=level/level"),
        ([], ["path=iSCSI/VM/iSCSI"], "--over FACTOR beside it"),
    ],
)
def test_a_summary_of_what_the_run_has_not_is_refused_in_words(
    overs: list[str], ratios: list[str], said: str
) -> None:
    """With what is allowed."""
    plan = plan_with({"path": ("iSCSI", "iSCSI/VM"), "size": ("64", "1518")})
    with pytest.raises(InputError) as caught:
        asked_summaries(overs, ratios, plan)
    assert said in str(caught.value)


def plan_with(factors: dict[str, tuple[str, ...]]) -> Plan:
    """A plan that has nothing but factors."""
    return Plan(
        title="", factors=tuple(PlannedFactor(*factor) for factor in factors.items()), measures=(), baseline={},
        grouping=(), seed=1, blocks=1, steps=(), unsupported=(), estimate_ns=0, digest="",
    )  # fmt: skip
