"""What a file may say of a program of the user's own."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse

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
    "  it: {kind: command, on: near}": "neither run nor shell",
    "  it: {kind: command, on: near, run: [ls], shell: ls}": "both run and shell",
    "  it: {kind: command, on: nowhere, run: [ls]}": "saw nowhere",
    "  it: {kind: command, on: near, run: [ls], folder: www}": "a path from the root",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s}}}": "0 of them",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s, path: $.a, column: a}}}": "2 of them",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s, path: '$.a['}}}": "end of query",
    "  it: {kind: command, on: near, run: [ls], metrics: {a: {unit: s, pattern: 'a'}}}": "0 groups",
    "  it: {kind: command, on: near, run: [ls], metrics: {A: {unit: s, column: a}}}": "metrics",
    "  it: {kind: command, on: near, run: [ls], metrics: {elapsed_s: {unit: s, column: a}}}": "another name",
    "  it: {kind: command, on: near, run: [ls], servers: {w: {on: gone, run: [ls]}}}": "saw gone",
    "  it: {kind: command, on: near, run: [ls], servers: {w: {on: far, run: [ls], ready: {listens: 0}}}}": "0",
    "  it: {kind: command, on: near, run: [ls], servers: {w: {on: far, run: [ls], ready: {listens: 1, prints: a}}}}":
        "one of listens, prints, succeeds",
}  # fmt: skip


@pytest.mark.parametrize(("measure", "said"), MISTAKES.items())
def test_a_mistake_is_answered_with_its_line_and_what_is_allowed(measure: str, said: str) -> None:
    """Before anything runs."""
    with pytest.raises(InputError) as caught:
        parse(LAB + measure, "commands.yaml")
    (problem, *_) = caught.value.problems
    assert said in str(problem)
    assert "commands.yaml:10" in str(problem)


def test_numbers_among_the_words_are_taken_as_they_are_written() -> None:
    """Nobody has to quote them; a factor may change the words."""
    text = (
        LAB
        + "  it: {kind: command, on: near, run: [sleep, 0.50]}\nfactors:\n  it.run: {a: [ls, 1], b: [ls, 2]}\n"
    )
    assert parse(text, "commands.yaml").factors[0].levels[0].label == "a"
