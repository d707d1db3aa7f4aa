"""Selecting cells on the command line."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment, LevelRatio, Summary
from iolab.lab.hosts.facts import Facts
from iolab.plan.planning import make_plan
from iolab.plan.selection import asked_summaries, selection, selector
from iolab.plan.types import Plan, PlannedFactor


def test_selector_refers_to_factors_and_levels_by_name(experiment: Experiment, facts: Facts) -> None:
    """Accept an experiment or a plan; ignore spaces."""
    wanted = {"links.lan.mtu": ("1500", "9000"), "tcp.window": ("64K",)}
    for of in (experiment, make_plan(experiment, facts)):
        assert selector("links.lan.mtu=1500|9000, tcp.window = 64K", of) == wanted


def test_selector_accepts_labels_that_contain_a_comma(text: str) -> None:
    """Assign text after a comma without an equals sign to the label."""
    factor = "network: {no vlan: {}, 'no vlan, tx checksum off': {links.lan.offload.tx_checksum: off}}"
    experiment = parse(text.replace("tcp.window: [64K, 1M]", factor), "x.yaml")
    found = selector("network=no vlan|no vlan, tx checksum off,links.lan.mtu=1500", experiment)
    assert found == {"network": ("no vlan", "no vlan, tx checksum off"), "links.lan.mtu": ("1500",)}


def test_every_unknown_word_of_a_selector_is_reported_with_the_nearest_valid_word(
    experiment: Experiment,
) -> None:
    """Report a wrong factor and two wrong levels in one message."""
    with pytest.raises(InputError) as caught:
        selector("links.lan.mut=1500,tcp.window=64k|2M", experiment)
    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == 3
    assert "did you mean links.lan.mtu?" in told[0]
    assert "did you mean 64K?" in told[1]
    assert "allowed: 64K, 1M" in told[2]


def test_selector_without_an_equals_sign_is_refused_with_the_expected_form(experiment: Experiment) -> None:
    """Refuse it, because it selects nothing."""
    with pytest.raises(InputError, match=r"factor=level\|level"):
        selector("1500", experiment)


def test_quick_run_contains_only_the_quick_cells(text: str, facts: Facts) -> None:
    """Plan those cells and no others."""
    experiment = parse(text + "quick: {links.lan.mtu: 9000}\n", "x.yaml")
    chosen = selection((), experiment, quick=True)
    plan = make_plan(experiment, facts, only=chosen)
    assert {plan.cell(step)["links.lan.mtu"] for step in plan.steps} == {"9000"}


def test_quick_run_may_use_a_level_that_the_full_run_excludes(text: str, facts: Facts) -> None:
    """Shorten trials, as an example; still apply `except`."""
    factor = "trials: {full: {}, short: {tcp.duration: 1s}}"
    chosen = "only: {trials: full}\nquick: {trials: short}\nexcept: {links.lan.mtu: 4500}\n"
    experiment = parse(text.replace("tcp.window: [64K, 1M]", factor) + chosen, "x.yaml")
    for quick, trials in ((False, {"full"}), (True, {"short"})):
        plan = make_plan(experiment, facts, only=selection((), experiment, quick=quick))
        cells = [plan.cell(step) for step in plan.steps if step.measure == "tcp"]
        assert {cell["trials"] for cell in cells} == trials
        assert {cell["links.lan.mtu"] for cell in cells} == {"1500", "9000"}


def test_quick_run_without_a_quick_key_is_refused(experiment: Experiment) -> None:
    """Report the text to write."""
    with pytest.raises(InputError, match="no key `quick`"):
        selection((), experiment, quick=True)


def test_key_only_selects_among_the_quick_cells(text: str, facts: Facts) -> None:
    """Require that --only and --quick both select a cell."""
    factor = "trials: {full: {}, short: {tcp.duration: 1s}}"
    chosen = "only: {trials: full}\nquick: {trials: short, links.lan.mtu: [1500, 9000]}\n"
    experiment = parse(text.replace("tcp.window: [64K, 1M]", factor) + chosen, "x.yaml")
    both = selection(["links.lan.mtu=9000"], experiment, quick=True)
    cells = [plan.cell(step) for plan in [make_plan(experiment, facts, only=both)] for step in plan.steps]
    assert {cell["links.lan.mtu"] for cell in cells} == {"9000"}
    assert {cell["trials"] for cell in cells if "trials" in cell} == {"short"}
    with pytest.raises(InputError, match="no cell that both --quick and --only select"):
        selection(["trials=full"], experiment, quick=True)


def test_factors_with_one_remaining_level_are_listed_as_fixed(experiment: Experiment, facts: Facts) -> None:
    """List one remaining MTU, not two remaining windows; list nothing for a single cell."""
    one_mtu = make_plan(experiment, facts, only=({"links.lan.mtu": ("9000",)},))
    assert one_mtu.fixed() == {"links.lan.mtu": "9000"}
    one_cell = {"links.lan.mtu": ("9000",), "tcp.window": ("64K",), "machines.b.forward": ("none",)}
    assert make_plan(experiment, facts, only=(one_cell,)).fixed() == {}
    assert make_plan(experiment, facts).fixed() == {}


def test_summaries_on_the_command_line_name_factors_and_levels() -> None:
    """Accept a slash within a label, because only whole labels are levels."""
    plan = plan_with({"path": ("iSCSI", "iSCSI/VM"), "size": ("64", "1518")})
    assert asked_summaries(["size"], ["path=iSCSI/VM/iSCSI"], plan) == (
        Summary("size", ratios=(LevelRatio("path", "iSCSI/VM", "iSCSI"),)),
    )


@pytest.mark.parametrize(
    ("overs", "ratios", "said"),
    [
        (["sise"], [], "did you mean size?"),
        (["size"], ["path=iSCSI/NFS"], "two levels of path, level/level: iSCSI, iSCSI/VM"),
        (["size"], ["size=64/1518"], "a factor other than the factor of --over"),
        (["size"], ["path"], "factor=level/level"),
        ([], ["path=iSCSI/VM/iSCSI"], "--over FACTOR together with --ratio"),
    ],
)
def test_summary_of_an_unknown_factor_or_level_is_refused(
    overs: list[str], ratios: list[str], said: str
) -> None:
    """List the allowed names."""
    plan = plan_with({"path": ("iSCSI", "iSCSI/VM"), "size": ("64", "1518")})
    with pytest.raises(InputError) as caught:
        asked_summaries(overs, ratios, plan)
    assert said in str(caught.value)


def plan_with(factors: dict[str, tuple[str, ...]]) -> Plan:
    """Return a plan that has only factors."""
    return Plan(
        title="", factors=tuple(PlannedFactor(*factor) for factor in factors.items()), measures=(), baseline={},
        grouping=(), seed=1, blocks=1, steps=(), unsupported=(), estimate_ns=0, digest="",
    )  # fmt: skip
