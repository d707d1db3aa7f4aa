"""Onset of loss in a sweep of the offered load; arithmetic consequences are left out."""

from collections.abc import Mapping

import numpy as np
import pytest
from tests.unit.analysis.conftest import Levels, Values, make_run

from iolab.analysis import analyse
from iolab.analysis.types import Analysis

RATES = ("100Mbit", "500Mbit", "1Gbit", "2Gbit", "4Gbit")
LOSS = (0.0, 0.0, 0.0002, 0.031, 0.398)
GBPS = (0.1, 0.5, 1.0, 2.0, 4.0)


def sweep(later: Mapping[int, tuple[float, ...]]) -> Analysis:
    """Return an analysis of UDP over five offered loads and two MTUs, each with its own loss."""
    random = np.random.default_rng(1)

    def value(_: str, levels: Levels, block: int) -> Values:
        loss = later.get(levels[1], LOSS)[levels[0]]
        rate = GBPS[levels[0]] * 1e9 * (1 - loss) * random.normal(1, 1e-4 if loss < 0.01 else 0.2)
        return {"received_bps": (rate, "bit/s"), "loss_ratio": (loss, "ratio")}

    return analyse(
        *make_run({"udp.rate": RATES, "links.lan.mtu": ("1500", "9000")}, 3, value, measures=("udp",))
    )


def test_loss_onset_is_reported_and_rate_changes_between_loads_are_not_findings() -> None:
    """Report the onset at 2 Gbit/s, and 39.8 % loss at 4; not that 500 Mbit/s is five times 100."""
    analysis = sweep({})
    (found,) = analysis.onsets
    assert (found.level, found.largest, found.conditions) == ("2Gbit", "4Gbit", {})
    assert (*found.loss, *found.loss_at_largest) == pytest.approx((0.031, 0.031, 0.398, 0.398))
    assert {finding.factor for finding in analysis.findings} == {"links.lan.mtu"}


def test_loss_onset_that_differs_between_conditions_is_reported_per_condition() -> None:
    """Report no loss with MTU 9000."""
    found = {each.conditions["links.lan.mtu"]: each.level for each in sweep({1: (0.0,) * 5}).onsets}
    assert found == {"1500": "2Gbit", "9000": None}


def test_loss_that_disappears_at_a_higher_load_has_no_onset() -> None:
    """Report nothing, because no load exists from which on frames are lost."""
    assert sweep({1: (0.0, 0.2, 0.0, 0.0, 0.3)}).onsets == ()


@pytest.mark.parametrize("labels", [("one-way", "both-ways"), ("uni", "bidi")])
@pytest.mark.parametrize(("ratio", "told"), [(2.0, False), (1.5, True)])
def test_both_ways_rate_that_is_twice_the_one_way_rate_is_not_a_finding(
    ratio: float, told: bool, labels: tuple[str, str]
) -> None:
    """Report a direction effect only beyond the sum."""
    random = np.random.default_rng(2)

    def value(_: str, levels: Levels, block: int) -> Values:
        return {"received_bps": (5e8 * (1, ratio)[levels[0]] * random.normal(1, 1e-4), "bit/s")}

    factors = {"*.direction": labels, "links.lan.mtu": ("1500", "9000")}
    found = analyse(*make_run(factors, 3, value, measures=("udp",))).findings
    assert ("*.direction" in {each.factor for each in found}) is told


def udp_both_ways(baseline: str, lost: tuple[float, float]) -> Analysis:
    """Return an analysis of UDP at 500 Mbit/s in each direction, with losses both ways, by MTU."""
    random = np.random.default_rng(3)

    def value(_: str, levels: Levels, block: int) -> Values:
        both, mtu = levels
        rate = 5e8 * (2 * (1 - lost[mtu]) if both else 1) * random.normal(1, 2e-3)
        return {"received_bps": (rate, "bit/s")}

    factors = {"*.direction": ("one-way", "both-ways"), "links.lan.mtu": ("1500", "9000")}
    against = {"*.direction": baseline, "links.lan.mtu": "1500"}
    return analyse(
        *make_run(factors, 3, value, measures=("udp",), baseline=against, sets_each_load=True),
    )


@pytest.mark.parametrize("baseline", ["one-way", "both-ways"])
def test_with_a_configured_load_per_direction_the_rates_per_direction_are_compared(
    baseline: str,
) -> None:
    """Report losses of 3.5 and 5 %, not that both ways carries almost twice as much."""
    found = [each for each in udp_both_ways(baseline, (0.035, 0.05)).findings if each.factor == "*.direction"]
    assert found
    for each in found:
        assert each.each_direction
        assert each.shown
        lost = 1 - (each.ratio if baseline == "one-way" else 1 / each.ratio)
        assert 0.03 < lost < 0.055


def test_direction_effect_below_2_percent_is_not_reported() -> None:
    """Leave the sum of intended rates to the table."""
    found = udp_both_ways("one-way", (0.001, 0.012)).findings
    assert "*.direction" not in {each.factor for each in found}
