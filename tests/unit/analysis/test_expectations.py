"""Expectations: met, not met and not decided, by bounds, ratios, equivalence and verdicts."""

import math

import numpy as np
import pytest
from tests.unit.analysis.conftest import Levels, make_run

from iolab.analysis.expectations import Judged, Result, judge, overall
from iolab.experiment.experiment import Expectation, LevelRatio
from iolab.results.metric import Quantity

RATE = Quantity("received_bps")
RATIO = LevelRatio("mtu", "9000", "1500")


def judged(one: Expectation, blocks: int = 12, step: float = 1.2, noise: float = 0.01) -> tuple[Judged, ...]:
    """Judge one expectation on 1 Gbit/s at MTU 1500, and `step` times that at 9000."""
    random = np.random.default_rng(5)

    def value(_: str, levels: Levels, __: int) -> dict[str, tuple[float, str]]:
        return {
            "received_bps": (1e9 * (step if levels[0] else 1.0) * math.exp(random.normal(0, noise)), "bit/s")
        }

    trials, plan = make_run({"mtu": ["1500", "9000"]}, blocks, value)
    return judge([one], trials, plan, {"tcp": RATE})


@pytest.mark.parametrize(
    ("one", "results"),
    [
        (Expectation(line=1, measure="tcp", min=0.9e9, unit="bit/s"), ["met", "met"]),
        (Expectation(line=1, measure="tcp", min=1.1e9), ["not-met", "met"]),
        (Expectation(line=1, measure="tcp", min=0.9e9, max=1.1e9), ["met", "not-met"]),
        (Expectation(line=1, measure="tcp", max=1.0e9), ["not-decided", "not-met"]),
        (Expectation(line=1, measure="tcp", ratio=RATIO, min=1.1), ["met"]),
        (Expectation(line=1, measure="tcp", ratio=RATIO, min=1.3), ["not-met"]),
        (Expectation(line=1, measure="tcp", ratio=RATIO, equivalent=0.3), ["met"]),
        (Expectation(line=1, measure="tcp", ratio=RATIO, equivalent=0.1), ["not-met"]),
        (Expectation(line=1, measure="tcp", cells=({"mtu": ("9000",)},), min=1.1e9), ["met"]),
        (Expectation(line=1, measure="tcp", min=1.0, unit="ns"), ["not-decided", "not-decided"]),
        (Expectation(line=1, measure="udp", min=1.0), ["not-decided"]),
        (Expectation(line=1, measure="tcp", metric="nothing", min=1.0), ["not-decided", "not-decided"]),
        (Expectation(line=1, measure="tcp", verdicts=("cpu",)), ["not-decided", "not-decided"]),
    ],
)
def test_expectation_is_judged_by_the_confidence_interval(one: Expectation, results: list[str]) -> None:
    """Check a known rate with 1 % noise over 12 blocks: 1 Gbit/s at 1500, 1.2 Gbit/s at 9000."""
    assert [each.result.value for each in judged(one)] == results


def test_expectation_with_few_blocks_is_undecided_and_states_how_many_are_needed() -> None:
    """Check 3 blocks; with the stated number of blocks, the expectation is decided."""
    one = Expectation(line=1, measure="tcp", ratio=RATIO, min=1.1)
    early = judged(one, blocks=3)[0]
    assert early.result is Result.NOT_DECIDED
    assert early.needed is not None
    assert judged(one, blocks=3 + early.needed + 2)[0].result is Result.MET
    assert overall([early, *judged(one)]) is Result.NOT_DECIDED


def test_overall_result_of_expectations_is_the_worst_single_result() -> None:
    """Check that one unmet expectation decides, and that no expectation is met."""
    met = judged(Expectation(line=1, measure="tcp", min=0.9e9))
    unmet = judged(Expectation(line=2, measure="tcp", max=0.9e9))
    assert overall([*met, *unmet]) is Result.NOT_MET
    assert overall([]) is Result.MET
