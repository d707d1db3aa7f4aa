"""Planned and executed commands agree: every command of the labs in namespaces, on a real kernel."""

import json
from pathlib import Path

import pytest
from tests.planned import differences, executed, planned

from iolab.experiment import load
from iolab.plan.commands import Labs
from iolab.plan.plan_json import describe
from iolab.plan.planning import make_plan
from iolab.report.stated import stated
from iolab.results.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import read_facts
from iolab.run.lab.standing_lab import StandingLab
from iolab.store.codec import encode_command

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("unchanged_host")]


@pytest.mark.parametrize(
    "name",
    [
        "quickstart",
        "forwarding",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("window", "rate-control")),
    ],
)
def test_namespace_labs_are_created_with_exactly_the_planned_commands(name: str) -> None:
    """Compare every transition of one block, and the end."""
    experiment = load(ROOT / "labs" / f"{name}.yaml")
    log: list[CommandRecord] = []
    with open_agent() as agent:
        facts, _ = read_facts(agent)
        plan = make_plan(experiment, facts, blocks=1)
        labs, standing = Labs(experiment, plan), StandingLab(Agents(agent), log.extend)
        for step in plan.steps:
            standing.change_to(labs.of(step).resources)
            assert standing.mismatches() == []
        standing.take_down()
    document = json.loads(json.dumps(describe(Labs(experiment, plan), stated)))
    assert list(differences(planned(document), executed([encode_command(one) for one in log]))) == []
