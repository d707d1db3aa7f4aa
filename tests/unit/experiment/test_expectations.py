"""Read `expect` and `margin` of an experiment file: units, levels, and one message per mistake."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.experiment import LevelRatio

FILE = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
factors: {tcp.parallel: [1, 2]}
margin: 3%
expect:
  - {measure: tcp, min: 1Gbit, max: 10Gbit}
  - {measure: tcp, metric: retransmits, max: 5}
  - {measure: tcp, ratio: {tcp.parallel: [2, 1]}, equivalent: 5%}
  - {measure: tcp, cell: {tcp.parallel: 2}, verdict: cpu}
"""


def test_expectations_are_read_with_units_levels_and_lines() -> None:
    """Check one entry of each kind."""
    experiment = parse(FILE, "f.yaml")
    rate, count, equal, limit = experiment.expectations
    assert (rate.line, rate.min, rate.max, rate.unit) == (10, 1e9, 1e10, "bit/s")
    assert (count.metric, count.max, count.unit) == ("retransmits", 5.0, "")
    assert (equal.ratio, equal.equivalent) == (LevelRatio("tcp.parallel", "2", "1"), 0.05)
    assert (limit.cells, limit.verdicts) == (({"tcp.parallel": ("2",)},), ("cpu",))
    assert experiment.margin == 0.03
    assert parse(FILE.partition("margin")[0], "f.yaml").margin == 0.02


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("min: 1Gbit", "min: fast", "f.yaml:10: reading expect.0.min: saw fast"),
        ("min: 1Gbit", "min: -1", "f.yaml:10: reading expect.0.min: saw -1"),
        ("min: 1Gbit", "min: 1us", "f.yaml:10: reading expect.0.max: saw 10Gbit"),
        ("min: 1Gbit", "mni: 1Gbit", "did you mean 'min'?"),
        ("min: 1Gbit", "equivalent: 5%, min: 1Gbit", "f.yaml:10: reading expect.0: saw the keys"),
        ("metric: retransmits", "metric: [x]", "f.yaml:11: reading expect.1.metric"),
        ("[2, 1]}, equ", "[2, 3]}, equ", "f.yaml:12: reading expect.2.ratio: saw {tcp.parallel: [2, 3]}"),
        ("equivalent: 5%", "equivalent: 70%", "f.yaml:12: reading expect.2.equivalent: saw 70%"),
        ("verdict: cpu", "verdict: cup", "did you mean 'cpu'?"),
        ("verdict: cpu", "verdict: [[cpu]]", "f.yaml:13: reading expect.3.verdict"),
        ("margin: 3%", "margin: 0", "f.yaml:8: reading margin: saw 0"),
        ("  - {measure: tcp, min", "  - {measure: udp, min", "f.yaml:10: reading expect.0: saw udp"),
    ],
)
def test_wrong_expectation_is_reported_once_with_its_line(right: str, wrong: str, said: str) -> None:
    """Make one mistake per case."""
    assert right in FILE
    with pytest.raises(InputError) as error:
        parse(FILE.replace(right, wrong, 1), "f.yaml")
    assert said in str(error.value)
    assert len(error.value.problems) == 1
