"""Keys of a measure of a user's own program."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, parse
from iolab.experiment.experiment import Lab, Section
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.measures import CommandMeasure
from iolab.lab.topology import make_topology
from iolab.measures.command import COMMAND

LAB = """
title: Commands
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
measure:
"""
MISTAKES = {
    "  it: {kind: command, on: near}": "neither `run` nor `shell`",
    "  it: {kind: command, on: near, run: [ls], shell: ls}": "both of the keys run and shell",
    "  it: {kind: command, on: nowhere, run: [ls]}": "saw nowhere",
    "  it: {kind: command, on: near, run: [ls], folder: www}": "an absolute path",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s}}}": "0 of the alternative",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s, path: $.a, column: a}}}": "2 of the alternative",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s, path: '$.a['}}}": "end of query",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s, pattern: 'a'}}}": "0 groups",
    "  it: {kind: command, on: near, run: [ls], metrics: {A: {unit: s, column: a}}}": "metrics",
    "  it: {kind: command, on: near, run: [ls], metrics: {elapsed_s: {unit: s, column: a}}}": "a different name",
    "  it: {kind: command, on: near, run: [ls], servers: {w: {on: gone, run: [ls]}}}": "saw gone",
    "  it: {kind: command, on: near, run: [ls], servers: {w: {on: far, run: [ls], ready: {listens: 0}}}}": "0",
    "  it: {kind: command, on: near, run: [ls], servers: {w: {on: far, run: [ls], ready: {listens: 1, prints: a}}}}":
        "only one of `listens`, `prints` and `succeeds`",
}  # fmt: skip


@pytest.mark.parametrize(("measure", "said"), MISTAKES.items())
def test_mistake_in_a_command_measure_is_reported_with_its_line_and_the_allowed_values(
    measure: str, said: str
) -> None:
    """Refuse it before the run."""
    with pytest.raises(InputError) as caught:
        parse(LAB + measure, "commands.yaml")
    (problem, *_) = caught.value.problems
    assert said in str(problem)
    assert "commands.yaml:10" in str(problem)


def test_command_on_a_machine_without_links_runs_in_its_namespace() -> None:
    """Show the namespace in the plan."""
    lab = Lab({"near": Netns(kind="netns")}, {}, {})
    measure = CommandMeasure.model_validate({"kind": "command", "on": "near", "run": ["sleep", 1]})
    assert COMMAND.commands(measure, make_topology(lab)) == ("ip netns exec iolab-near sleep 1",)


def test_words_of_a_command_may_be_unquoted_numbers_and_vary_by_factor() -> None:
    """Read them like YAML."""
    text = (
        LAB
        + "  it: {kind: command, on: near, run: [ls]}\nfactors:\n  it.run: {a: [ls, 1], b: [sleep, 0.25, -n]}\n"
    )
    measure = Resolver(parse(text, "commands.yaml")).model(Section("measure", "it"), {"it.run": "b"})
    assert isinstance(measure, CommandMeasure)
    assert measure.run == ("sleep", "0.25", "-n")
