"""Pairs of a gate on a fake host: each side rebuilt, in the order of the coin, until the decision."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.plan.conftest import facts
from tests.unit.run.session_bench import LAB, Bench, netns_made

from iolab.clock import VirtualClock
from iolab.experiment import parse
from iolab.experiment.subjects import with_subject
from iolab.lab.hosts.facts import Facts
from iolab.plan.planning import make_plan
from iolab.run import pairs
from iolab.run.pairs import sides

__all__ = ["facts"]


def test_lab_is_rebuilt_for_each_side_of_a_pair(
    facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run 3 of 6 pairs of two cells: six labs, twelve trials."""
    text = with_subject(parse(LAB, "lab.yaml"), {"links.lan.mtu": 1400})
    programs = dict.fromkeys(("iperf3", "ip", "tc", "ethtool"), "1")
    bench = Bench(replace(facts, programs=programs), tmp_path, monkeypatch, blocks=6, lab=text)
    collected = pairs._Collected(bench.watched)
    monkeypatch.setattr(bench.session, "_observer", collected)
    clock = VirtualClock()
    found = [
        pairs._pair(bench.session, collected, bench.plan, clock, "subject", block) for block in (1, 2, 3)
    ]
    assert netns_made(bench) == 6
    assert [sorted(pair.records) for pair in found] == [["base", "candidate"]] * 3
    assert all(len(records) == 2 for pair in found for records in pair.records.values())


def test_order_within_a_pair_is_random_and_depends_only_on_seed_and_pair(facts: Facts) -> None:
    """Count 400 pairs: between 160 and 240 begin with the base; the same seed gives the same order."""
    experiment = parse(with_subject(parse(LAB, "lab.yaml"), {"links.lan.mtu": 1400}), "lab.yaml")
    plan = make_plan(experiment, facts, blocks=400, seed=7)
    first = [sides(plan, "subject", block)[0][0] for block in range(1, 401)]
    assert 160 <= first.count("base") <= 240
    shorter = make_plan(experiment, facts, blocks=10, seed=7)
    assert [sides(shorter, "subject", block)[0][0] for block in range(1, 11)] == first[:10]
