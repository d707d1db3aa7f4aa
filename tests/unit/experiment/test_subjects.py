"""The experiment of a gate: the factor `subject` is added to a file of any layout, and nothing else changes."""

from dataclasses import replace

import pytest

from iolab.errors import InputError
from iolab.experiment import cells, parse
from iolab.experiment.subjects import assigned, differences, with_subject

LAB = """# A comment that stays.
title: Example
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0], mtu: 9000}}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
"""
BLOCK, FLOW = "factors:\n  tcp.parallel: [1, 2]\nseed: 4\n", "factors: {tcp.parallel: [1, 2]}\n"


@pytest.mark.parametrize("factors", ["", BLOCK, FLOW])
def test_factor_subject_is_added_to_an_experiment_file_of_any_layout(factors: str) -> None:
    """Check block style, flow style, and a file without factors: each cell exists for both subjects."""
    before = parse(LAB + factors, "f.yaml")
    text = with_subject(before, {"links.lan.mtu": 1500})
    after = parse(text, "f.yaml")
    assert "# A comment that stays." in text
    assert after.tree == before.tree
    assert after.seed == before.seed
    found = [dict(cell) for cell in cells(after)]
    rest = [{name: label for name, label in cell.items() if name != "subject"} for cell in found]
    assert [cell["subject"] for cell in found].count("base") == len(found) / 2
    assert {tuple(cell.items()) for cell in rest} == {tuple(cell.items()) for cell in cells(before)}


def test_base_that_does_not_differ_from_the_candidate_is_measured_too() -> None:
    """Check A/A: the level `base` sets a value that the candidate has, outside the other factors."""
    after = parse(with_subject(parse(LAB + FLOW, "f.yaml"), {}), "f.yaml")
    subject = next(factor for factor in after.factors if factor.name == "subject")
    sets = {level.label: dict(level.sets) for level in subject.levels}
    assert sets["candidate"] == {}
    ((path, value),) = sets["base"].items()
    assert value == after.tree["measure"]["tcp"][path.removeprefix("tcp.")]


def test_applying_the_reported_differences_to_the_candidate_gives_the_base() -> None:
    """Check a changed, a removed and an added key."""
    candidate = parse(LAB, "new.yaml")
    base = parse(LAB.replace(", mtu: 9000", ", vlan: 100").replace("1s", "2s"), "old.yaml")
    assert differences(candidate, base) == {
        "links.lan.mtu": None,
        "links.lan.vlan": 100,
        "tcp.duration": "2s",
    }
    assert differences(candidate, candidate) == {}


def test_base_with_different_factors_is_refused() -> None:
    """Refuse a base whose cells have no pairs."""
    with pytest.raises(InputError, match="whose factors differ"):
        differences(parse(LAB, "f.yaml"), parse(LAB + FLOW, "old.yaml"))


def test_value_of_an_assignment_is_parsed_as_yaml() -> None:
    """Check a number, a mapping, a value with an equals sign, and invalid YAML."""
    assert assigned("links.lan.mtu=1500") == ("links.lan.mtu", 1500)
    assert assigned("links.lan.offload={tso: off}") == ("links.lan.offload", {"tso": "off"})
    assert assigned("a.b=c=d") == ("a.b", "c=d")
    with pytest.raises(InputError, match="PATH=VALUE"):
        assigned("a.b={")


def test_file_that_already_has_a_factor_named_subject_is_refused() -> None:
    """Refuse instead of overwriting the user's factor."""
    own = parse(LAB + "factors: {subject: {a: {}, b: {links.lan.mtu: 1400}}}\n", "f.yaml")
    with pytest.raises(InputError, match="names other than `subject`"):
        with_subject(own, {})
    with pytest.raises(InputError):
        with_subject(replace(own, text="lab: ["), {})
