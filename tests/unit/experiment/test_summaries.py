"""`summarise`: figures over the levels of a factor."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.experiment import LevelRatio, Summary

BASE = """\
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {lan: {ends: [a.eth0, b.eth0]}}
measure:
  rate: {kind: forwarding, from: a.eth0, to: b.eth0}
factors:
  rate.frame_size: [64, 512, 1518]
  rate.direction: [one-way, both-ways]
  links.lan.mtu: [1500]
"""


def problems(text: str) -> list[str]:
    """Return the problems of a text."""
    with pytest.raises(InputError) as caught:
        parse(BASE + text, "f.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_summarise_entry_is_read_with_ratios_and_defaults() -> None:
    """Read numbers as labels; show mean, min and max by default."""
    text = "summarise: {over: rate.direction, ratio: {rate.frame_size: [1518, 64]}}"
    assert parse(BASE + text, "f.yaml").summaries == (
        Summary("rate.direction", ("mean", "min", "max"), (LevelRatio("rate.frame_size", "1518", "64"),)),
    )


def test_summarise_accepts_a_list_of_entries() -> None:
    """Compute separate figures for each entry."""
    text = "summarise: [{over: rate.frame_size, show: [max, median]}, {over: rate.direction}]"
    found = parse(BASE + text, "f.yaml").summaries
    assert [(each.over, each.show) for each in found] == [
        ("rate.frame_size", ("max", "median")), ("rate.direction", ("mean", "min", "max")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("summarise: rate.frame_size", "f.yaml:10: reading summarise: saw rate.frame_size"),
        ("summarise:\n  over: rate.frame_sise", "f.yaml:11: reading summarise.over: saw rate.frame_sise"),
        ("summarise:\n  over: rate.frame_sise", "did you mean 'rate.frame_size'?"),
        ("summarise: {over: links.lan.mtu}", "a factor with at least two levels: rate.frame_size, rate.direction"),
        ("summarise: {show: [mean]}", "saw no key `over`; allowed: over: FACTOR"),
        ("summarise:\n  over: rate.frame_size\n  show:\n  - mean\n  - men", "f.yaml:14: reading summarise.show"),
        ("summarise: {over: rate.frame_size, show: mean}", "saw mean; allowed: a list of statistics: mean, min, max"),
        ("summarise: {over: rate.frame_size, ratios: {}}", "did you mean 'ratio'?"),
        (
            "summarise: {over: rate.frame_size, ratio: {rate.direction: [both-way, one-way]}}",
            "saw both-way; allowed: a level of rate.direction: one-way, both-ways; did you mean 'both-ways'?",
        ),
        ("summarise: {over: rate.frame_size, ratio: {rate.direction: [one-way]}}", "[level, level]"),
        ("summarise: {over: rate.frame_size, ratio: {rate.direction: [one-way, one-way]}}", "two different levels"),
        ("summarise: {over: rate.frame_size, ratio: {rate.frame_size: [64, 512]}}", "other than the one in `over`"),
        ("summarise: [{over: rate.direction}, 3]", "reading summarise.1: saw 3"),
    ],
)  # fmt: skip
def test_invalid_summarise_entry_is_refused_with_its_line(text: str, said: str) -> None:
    """List the allowed values."""
    assert any(said in problem for problem in problems(text)), problems(text)
