"""Ratios to the same-block baseline trial."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from iolab.analysis import analyse
from iolab.analysis.types import Estimate
from iolab.plan.types import Plan
from iolab.results.metric import Quantity
from iolab.store.records import TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]
Table = dict[tuple[int, ...], list[float]]


def pick(estimates: Sequence[Estimate], **cell: str) -> Estimate:
    """Return the estimate of the leading metric of exactly this cell."""
    (found,) = [own for own in estimates if dict(own.cell) == cell and own.metric == Quantity("received_bps")]
    return found


def rates(table: Table) -> Callable[..., dict[str, tuple[float, str]]]:
    """Return the listed value per cell and block."""
    return lambda measure, levels, block: {"received_bps": (table[levels][block - 1], "bit/s")}


def test_ratio_is_the_geometric_mean_of_same_block_ratios(make_run: MakeRun) -> None:
    """Divide each trial by the baseline trial of its block, so that drift cancels out."""
    table: Table = {(0,): [100.0, 50.0, 200.0, 80.0], (1,): [110.0, 60.0, 220.0, 88.0]}
    run = make_run({"mtu": ["1500", "9000"]}, 4, rates(table), baseline={"mtu": "1500"})
    found = pick(analyse(*run).estimates, mtu="9000")
    logs = np.log([1.1, 1.2, 1.1, 1.1])
    low, high = stats.t.interval(0.95, 3, logs.mean(), stats.sem(logs))
    assert found.ratio == pytest.approx(np.exp(logs.mean()), rel=1e-12)
    assert found.ratio_ci is not None
    assert (found.ratio_ci.low, found.ratio_ci.high) == pytest.approx((np.exp(low), np.exp(high)), rel=1e-9)
    assert found.ratio_ci.method == "t on log ratios"
    assert found.p_value == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, rel=1e-9)


def test_baseline_has_ratio_1_without_an_interval(make_run: MakeRun) -> None:
    """Give no interval and no p-value, because the ratio is 1 by definition."""
    table: Table = {(0,): [100.0, 50.0, 200.0, 80.0], (1,): [110.0, 60.0, 220.0, 88.0]}
    run = make_run({"mtu": ["1500", "9000"]}, 4, rates(table), baseline={"mtu": "1500"})
    found = pick(analyse(*run).estimates, mtu="1500")
    assert (found.ratio, found.ratio_ci, found.p_value) == (1.0, None, None)


def test_three_blocks_give_a_ratio_without_an_interval(make_run: MakeRun) -> None:
    """Give only the ratio below four pairs."""
    table: Table = {(0,): [1.0, 1.0, 1.0], (1,): [2.0, 2.0, 2.1]}
    found = pick(analyse(*make_run({"a": "xy"}, 3, rates(table), baseline={"a": "x"})).estimates, a="y")
    assert found.ratio == pytest.approx((2 * 2 * 2.1) ** (1 / 3))
    assert (found.ci, found.ratio_ci, found.p_value) == (None, None, None)


def test_pairs_without_a_baseline_trial_are_excluded_from_ratio_n(make_run: MakeRun) -> None:
    """Drop the pair of a missing or zero baseline trial; ratio_n is the number of remaining pairs."""
    table: Table = {(0,): [1.0, 0.0, 1.0, 1.0, 1.0, 1.0], (1,): [2.0, 9.0, 2.0, 2.0, 2.0, 2.0]}
    records, plan = make_run({"a": "xy"}, 6, rates(table), baseline={"a": "x"})
    found = pick(analyse([r for r in records if r.key != "tcp/(0,)/6"], plan).estimates, a="y")
    assert (found.n, found.ratio_n) == (6, 4)
    assert found.ratio == pytest.approx(2.0)


def test_baseline_of_a_cell_differs_only_in_the_baselines_factors(make_run: MakeRun) -> None:
    """Keep the levels of all other factors."""
    table: Table = {(0, 0): [10.0], (0, 1): [100.0], (1, 0): [20.0], (1, 1): [500.0]}
    run = make_run(
        {"mtu": ["1500", "9000"], "direction": ["one", "both"]}, 1, rates(table), baseline={"mtu": "1500"}
    )
    estimates = analyse(*run).estimates
    assert pick(estimates, mtu="9000", direction="one").ratio == pytest.approx(2)
    assert pick(estimates, mtu="9000", direction="both").ratio == pytest.approx(5)


def test_baseline_lookup_ignores_sub_factors_that_the_baseline_lacks(make_run: MakeRun) -> None:
    """Compare every number of queues of vhost with the one e1000, which has none."""
    table: Table = {(0, -1): [10.0], (1, 0): [20.0], (1, 1): [30.0]}
    run = make_run(
        {"nic": ["e1000", "vhost"], "queues": ["1", "4"]},
        1,
        rates(table),
        baseline={"nic": "e1000"},
        cells=list(table),
    )
    estimates = analyse(*run).estimates
    assert [pick(estimates, nic="vhost", queues=n).ratio for n in "14"] == [
        pytest.approx(2),
        pytest.approx(3),
    ]


def test_measure_that_the_baselines_factor_does_not_affect_has_no_ratio(make_run: MakeRun) -> None:
    """Give no ratio without the factor."""
    run = make_run({"mtu": ["1500"], "a": "xy"}, 1, rates({(-1, 0): [1.0], (-1, 1): [2.0]}),
                   baseline={"mtu": "1500"}, cells=[(-1, 0), (-1, 1)])  # fmt: skip
    assert [own.ratio for own in analyse(*run).estimates] == [None, None]


def test_ratios_with_a_zero_are_averaged_arithmetically(make_run: MakeRun) -> None:
    """Average arithmetically, with an interval and no p-value, because 0 has no logarithm."""
    table: Table = {(0,): [1.0, 1.0, 1.0, 1.0], (1,): [0.0, 1.0, 0.5, 0.5]}
    found = pick(analyse(*make_run({"a": "xy"}, 4, rates(table), baseline={"a": "x"})).estimates, a="y")
    assert found.ratio == pytest.approx(0.5)
    assert found.ratio_ci is not None
    assert found.ratio_ci.method == "t on ratios"
    assert found.p_value is None


def test_p_values_are_holm_corrected_over_the_compared_cells(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Correct three cells against one baseline by Holm over three, per metric."""
    table: Table = {(level,): list(random.lognormal(0.02 * level, 0.02, size=5)) for level in range(4)}
    estimates = analyse(*make_run({"a": "wxyz"}, 5, rates(table), baseline={"a": "w"})).estimates
    raw = sorted(stats.ttest_1samp(np.log(table[(k,)]) - np.log(table[(0,)]), 0).pvalue for k in (1, 2, 3))
    expected = np.maximum.accumulate(np.minimum(np.array([3, 2, 1]) * np.array(raw, dtype=float), 1))
    found = sorted(own.p_value for own in estimates if own.p_value is not None)
    assert found == pytest.approx(list(expected), rel=1e-9)


def test_ratio_interval_is_computed_on_logarithms(make_run: MakeRun, random: np.random.Generator) -> None:
    """Apply the same rule as for the mean."""
    table: Table = {(0,): list(random.lognormal(20, 0.02, 10)), (1,): list(random.lognormal(20.1, 0.02, 10))}
    found = pick(analyse(*make_run({"a": "xy"}, 10, rates(table), baseline={"a": "x"})).estimates, a="y")
    assert found.ci is not None
    assert found.ratio_ci is not None
    assert (found.ci.method, found.ratio_ci.method) == ("t on the log scale", "t on log ratios")
    assert found.ratio is not None
    assert found.ratio_ci.low < found.ratio < found.ratio_ci.high
