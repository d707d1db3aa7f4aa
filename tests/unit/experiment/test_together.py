"""Keys of concurrent measures."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, parse

LAB = """
title: At once
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
measure:
  up: {kind: stream, from: near, to: far, duration: 2s, watch: [lan]}
  down: {kind: stream, from: far, to: near, duration: 2s}
  probe: {kind: command, on: near, run: [sleep, 1]}
  frames: {kind: latency, from: near, to: far, rate: 1kpps}
"""
MISTAKES = {
    "  both: {kind: together}": "of",
    "  both: {kind: together, of: [up]}": "of",
    "  both: {kind: together, of: [up, up, down]}": "of",
    "  both: {kind: together, of: {up: 0s, down: 1}}": "did you mean 1s",
    "  both: {kind: together, of: {up: 0s, down: --1s}}": "-5s",
    "  both: {kind: together, of: [up, dwon]}": "did you mean 'down'",
    "  both: {kind: together, of: [up, frames]}": "in both, which runs several measures in parallel",
    "  both: {kind: together, of: [up, down], watch: [lan]}": "`watch` on only one of the measures up and down",
    "  both: {kind: together, of: [up, down], sample: 1s}": "`sample` on only one of the measures up and down",
    "  both: {kind: together, of: [up, down]}\n  more: {kind: together, of: [up, probe]}": "more already runs",
    "  both: {kind: together, of: [up, down]}\n  more: {kind: together, of: [both, probe]}": "runs other measures",
    "  both: {kind: together, of: [up, other]}\n  other: {kind: stream, from: far, to: near, watch: [lan]}":
        "which the measure up observes at the same time",
    "  both: {kind: together, of: [up, down]}\nfactors: {both.of: {a: [up, down], b: [up, probe]}}":
        "the same measures in all cells",
}  # fmt: skip


@pytest.mark.parametrize(("measures", "said"), MISTAKES.items())
def test_mistake_in_a_together_measure_is_reported_with_its_line_and_the_allowed_values(
    measures: str, said: str
) -> None:
    """Refuse it before the run."""
    with pytest.raises(InputError) as caught:
        parse(LAB + measures, "at-once.yaml")
    assert said in str(caught.value)
    assert "at-once.yaml:1" in str(caught.value)


def test_measures_within_a_together_measure_are_not_measured_separately() -> None:
    """Exclude them from the list of measures."""
    resolver = Resolver(parse(LAB + "  both: {kind: together, of: {up: 0s, probe: -5s}}", "at-once.yaml"))
    assert resolver.measures == ("up", "down", "probe", "frames")
    assert resolver.companions("probe") == ("up", "probe")
    assert resolver.companions("down") == ("down",)


def test_concurrent_streams_get_different_ports() -> None:
    """Keep ports that the file sets."""
    text = LAB + "  both: {kind: together, of: [up, down, probe]}"
    measures = Resolver(parse(text, "at-once.yaml")).setup({}).measures
    assert [getattr(measures[name], "port", None) for name in ("up", "down")] == [5201, 5401]


def test_change_of_one_concurrent_measure_changes_the_keys_of_all() -> None:
    """Include the other measures, because they run at the same time."""
    text = LAB + "  both: {kind: together, of: [up, probe]}\nfactors: {up.parallel: [1, 2]}"
    resolver = Resolver(parse(text, "at-once.yaml"))
    cells = {"up.parallel": "1"}, {"up.parallel": "2"}
    assert len({resolver.measure_key(cell, "probe") for cell in cells}) == 2
    assert len({resolver.measure_key(cell, "down") for cell in cells}) == 1
    assert resolver.touches("up.parallel", "probe")
    assert not resolver.touches("up.parallel", "down")
