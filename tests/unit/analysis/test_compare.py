"""Comparison of two runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.unit.analysis.stored_runs import FACTS, stored
from tests.wording import in_words

from iolab.analysis import compare
from iolab.errors import InputError
from iolab.messages.notes import EffectDiffers
from iolab.plan.types import Plan
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun, TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]


def pair(make_run: MakeRun, random: np.random.Generator, factor: float) -> tuple[StoredRun, StoredRun]:
    """Return two runs of two cells and four blocks; the second is `factor` times as fast, with a different spread."""
    first = make_run(
        {"a": "xy"}, 4, lambda *_: {"received_bps": (float(random.lognormal(20, 0.02)), "bit/s")}
    )
    second = make_run(
        {"a": "xy"}, 4, lambda *_: {"received_bps": (factor * float(random.lognormal(20, 0.05)), "bit/s")}
    )
    return stored("before", first), stored("after", second)


def rates(run: StoredRun, level: int) -> list[float]:
    """Return the values of one cell."""
    return [r.result.metrics["received_bps"].value for r in run.trials if f"({level},)" in r.key]


def test_ratio_interval_and_p_value_agree_with_welchs_test_on_logarithms(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Compare ratio, interval and corrected p-value with scipy, cell by cell."""
    a, b = pair(make_run, random, 1.2)
    found = compare(a, b).cells
    raw = []
    for level, cell in enumerate(found):
        test = stats.ttest_ind(np.log(rates(b, level)), np.log(rates(a, level)), equal_var=False)
        interval = test.confidence_interval()
        raw.append(float(test.pvalue))
        assert cell.ci is not None
        assert (cell.ci.low, cell.ci.high) == pytest.approx(
            (np.exp(interval.low), np.exp(interval.high)), rel=1e-9
        )
        expected = stats.gmean(rates(b, level)) / stats.gmean(rates(a, level))
        assert cell.ratio == pytest.approx(expected, rel=1e-9)
        assert (cell.n_a, cell.n_b) == (4, 4)
        assert (cell.mean_a, cell.mean_b) == pytest.approx(
            (np.mean(rates(a, level)), np.mean(rates(b, level)))
        )
    least, most = sorted(raw)
    assert sorted(cell.p_value or 0 for cell in found) == pytest.approx(
        [2 * least, max(most, 2 * least)], rel=1e-9
    )


def test_comparing_a_run_with_itself_gives_ratio_1_and_no_warning(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Find no difference and give no warning."""
    a, _ = pair(make_run, random, 1)
    found = compare(a, a)
    assert [cell.ratio for cell in found.cells] == [1.0, 1.0]
    assert [cell.p_value for cell in found.cells] == [1.0, 1.0]
    assert (found.warnings, found.only_a, found.only_b) == ((), (), ())


def test_overall_ratio_has_a_narrower_interval_than_any_cell(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Take the geometric mean of the cells' ratios."""
    a, b = pair(make_run, random, 1.2)
    found = compare(a, b)
    (overall,) = found.overall
    assert (overall.measure, overall.metric, overall.cells) == ("tcp", Quantity("received_bps"), 2)
    assert overall.ratio == pytest.approx(stats.gmean([cell.ratio for cell in found.cells]), rel=1e-12)
    assert overall.ci is not None
    widths = [np.log(cell.ci.high / cell.ci.low) for cell in found.cells if cell.ci]
    assert np.log(overall.ci.high / overall.ci.low) < min(widths)


def test_equal_runs_differ_significantly_in_at_most_5_percent_of_pairs(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Count overall intervals without 1 among 300 pairs of equal runs."""
    outside = 0
    for _ in range(300):
        (overall,) = compare(*pair(make_run, random, 1)).overall
        outside += overall.ci is not None and not overall.ci.low <= 1 <= overall.ci.high
    assert outside / 300 <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5


def test_cells_in_only_one_run_are_listed_and_not_compared(make_run: MakeRun) -> None:
    """Name them."""

    def value(_measure: str, _levels: object, block: int) -> dict[str, tuple[float, str]]:
        return {"received_bps": (1.0 + block, "bit/s")}

    a = stored("a", make_run({"mtu": ["1500", "9000"]}, 3, value))
    b = stored("b", make_run({"mtu": ["1500", "4500"]}, 3, value))
    found = compare(a, b)
    assert [dict(cell.cell) for cell in found.cells] == [{"mtu": "1500"}]
    assert [dict(lone.cell) for lone in found.only_a] == [{"mtu": "9000"}]
    assert [dict(lone.cell) for lone in found.only_b] == [{"mtu": "4500"}]


def test_comparison_of_runs_with_different_units_is_refused(make_run: MakeRun) -> None:
    """Name the metric and both units in the error."""
    a = stored("a", make_run({"a": "x"}, 3, lambda *_: {"rtt_mean": (1.0, "ms")}))
    b = stored("b", make_run({"a": "x"}, 3, lambda *_: {"rtt_mean": (1.0, "ns")}))
    with pytest.raises(InputError, match=r"rtt_mean.*'ms'.*'ns'"):
        compare(a, b)


def test_each_differing_host_fact_gives_a_warning(make_run: MakeRun, random: np.random.Generator) -> None:
    """Name both values of kernel, CPU, iperf3, rootless and so on; a missing fact is 'unknown'."""
    a, b = pair(make_run, random, 1)
    other = {**FACTS, "kernel": "6.12.1", "programs": None, "hello": {"rootless": True, "version": "0.1.0"}}
    found = [in_words(warning) for warning in compare(a, replace(b, facts=other)).warnings]
    assert found == [
        "kernel: 6.1.0 in one run, 6.12.1 in the other",
        "rootless: False in one run, True in the other",
        "iperf3: iperf 3.12 in one run, unknown in the other",
    ]


@pytest.mark.parametrize("facts", [{}, {"hello": 3, "programs": []}, {"cpus": None}])
def test_malformed_host_facts_give_warnings_and_no_error(
    make_run: MakeRun, random: np.random.Generator, facts: Mapping[str, object]
) -> None:
    """Warn about facts of any shape."""
    a, b = pair(make_run, random, 1)
    assert compare(replace(a, facts=facts), b).warnings


def test_zero_values_are_compared_by_their_means_without_an_interval(make_run: MakeRun) -> None:
    """Give the ratio of means if there is one."""
    a = stored("a", make_run({"a": "x"}, 4, lambda m, levels, block: {"loss_ratio": (0.1 * block, "ratio")}))
    b = stored("b", make_run({"a": "x"}, 4, lambda *_: {"loss_ratio": (0.0, "ratio")}))
    (down,), (up,) = compare(a, b).cells, compare(b, a).cells
    assert (down.ratio, down.ci, down.p_value) == (0.0, None, None)
    assert (up.ratio, up.ci, up.p_value) == (None, None, None)


def test_fewer_than_three_trials_per_run_give_no_interval(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Give only the ratio below three trials."""
    run = make_run({"a": "x"}, 2, lambda *_: {"received_bps": (float(random.lognormal(20, 0.02)), "bit/s")})
    (cell,) = compare(stored("a", run), stored("b", run)).cells
    assert (cell.ratio, cell.ci, cell.p_value) == (1.0, None, None)


def test_settings_with_different_effective_values_are_named(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Name a pair of values once for all its places and cells, and no equal values."""

    def with_effects(run: StoredRun, congestion: str) -> StoredRun:
        shown = {"near": {"congestion": congestion, "mtu": "1500"}, "far": {"congestion": congestion}}
        trials = (replace(one, result=replace(one.result, in_effect=shown)) for one in run.trials)
        return replace(run, trials=tuple(trials))

    a, b = pair(make_run, random, 1.0)

    def told(first: str, second: str) -> list[EffectDiffers]:
        found = compare(with_effects(a, first), with_effects(b, second)).warnings
        return [one for one in found if isinstance(one, EffectDiffers)]

    named = EffectDiffers(setting="congestion", places=("far", "near"), first="bbr", second="cubic")
    assert told("bbr", "cubic") == [named]
    assert told("bbr", "bbr") == []
