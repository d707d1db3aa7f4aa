"""Two runs side by side."""

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
    """Two runs of two cells and four blocks; the second is `factor` times as fast, with other spread."""
    first = make_run(
        {"a": "xy"}, 4, lambda *_: {"received_bps": (float(random.lognormal(20, 0.02)), "bit/s")}
    )
    second = make_run(
        {"a": "xy"}, 4, lambda *_: {"received_bps": (factor * float(random.lognormal(20, 0.05)), "bit/s")}
    )
    return stored("before", first), stored("after", second)


def rates(run: StoredRun, level: int) -> list[float]:
    """What one cell measured."""
    return [r.result.metrics["received_bps"].value for r in run.trials if f"({level},)" in r.key]


def test_ratio_and_interval_are_welchs_on_logarithms(make_run: MakeRun, random: np.random.Generator) -> None:
    """Ratio, interval and corrected p-value agree with scipy's Welch test, cell by cell."""
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


def test_a_run_compared_with_itself_is_1(make_run: MakeRun, random: np.random.Generator) -> None:
    """The same trials on both sides: ratio 1, nothing distinguishable, no warning."""
    a, _ = pair(make_run, random, 1)
    found = compare(a, a)
    assert [cell.ratio for cell in found.cells] == [1.0, 1.0]
    assert [cell.p_value for cell in found.cells] == [1.0, 1.0]
    assert (found.warnings, found.only_a, found.only_b) == ((), (), ())


def test_all_cells_together_say_more_than_each(make_run: MakeRun, random: np.random.Generator) -> None:
    """The overall ratio is the geometric mean of the cells' ratios, with a narrower interval."""
    a, b = pair(make_run, random, 1.2)
    found = compare(a, b)
    (overall,) = found.overall
    assert (overall.measure, overall.metric, overall.cells) == ("tcp", Quantity("received_bps"), 2)
    assert overall.ratio == pytest.approx(stats.gmean([cell.ratio for cell in found.cells]), rel=1e-12)
    assert overall.ci is not None
    widths = [np.log(cell.ci.high / cell.ci.low) for cell in found.cells if cell.ci]
    assert np.log(overall.ci.high / overall.ci.low) < min(widths)


def test_runs_that_differ_by_nothing_are_told_apart_in_five_percent(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Of 300 pairs of equal runs about 5 % have an overall interval without 1."""
    outside = 0
    for _ in range(300):
        (overall,) = compare(*pair(make_run, random, 1)).overall
        outside += overall.ci is not None and not overall.ci.low <= 1 <= overall.ci.high
    assert outside / 300 <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5


def test_cells_of_one_run_only_are_listed(make_run: MakeRun) -> None:
    """They are named, not compared."""

    def value(_measure: str, _levels: object, block: int) -> dict[str, tuple[float, str]]:
        return {"received_bps": (1.0 + block, "bit/s")}

    a = stored("a", make_run({"mtu": ["1500", "9000"]}, 3, value))
    b = stored("b", make_run({"mtu": ["1500", "4500"]}, 3, value))
    found = compare(a, b)
    assert [dict(cell.cell) for cell in found.cells] == [{"mtu": "1500"}]
    assert [dict(lone.cell) for lone in found.only_a] == [{"mtu": "9000"}]
    assert [dict(lone.cell) for lone in found.only_b] == [{"mtu": "4500"}]


def test_other_units_are_refused(make_run: MakeRun) -> None:
    """The error names the metric and both units."""
    a = stored("a", make_run({"a": "x"}, 3, lambda *_: {"rtt_mean": (1.0, "ms")}))
    b = stored("b", make_run({"a": "x"}, 3, lambda *_: {"rtt_mean": (1.0, "ns")}))
    with pytest.raises(InputError, match=r"rtt_mean.*'ms'.*'ns'"):
        compare(a, b)


def test_differing_facts_are_warned_about(make_run: MakeRun, random: np.random.Generator) -> None:
    """Kernel, CPU, iperf3, rootless ...: a warning each with both values; a missing fact is 'unknown'."""
    a, b = pair(make_run, random, 1)
    other = {**FACTS, "kernel": "6.12.1", "programs": None, "hello": {"rootless": True, "version": "0.1.0"}}
    found = [in_words(warning) for warning in compare(a, replace(b, facts=other)).warnings]
    assert found == [
        "kernel: 6.1.0 in one run, 6.12.1 in the other",
        "rootless: False in one run, True in the other",
        "iperf3: iperf 3.12 in one run, unknown in the other",
    ]


@pytest.mark.parametrize("facts", [{}, {"hello": 3, "programs": []}, {"cpus": None}])
def test_odd_facts_are_read_without_harm(
    make_run: MakeRun, random: np.random.Generator, facts: Mapping[str, object]
) -> None:
    """Facts of any shape end in warnings, never in an error."""
    a, b = pair(make_run, random, 1)
    assert compare(replace(a, facts=facts), b).warnings


def test_zeros_are_compared_without_logarithms(make_run: MakeRun) -> None:
    """Loss of 0 on one side: the ratio of means where there is one, no interval."""
    a = stored("a", make_run({"a": "x"}, 4, lambda m, levels, block: {"loss_ratio": (0.1 * block, "ratio")}))
    b = stored("b", make_run({"a": "x"}, 4, lambda *_: {"loss_ratio": (0.0, "ratio")}))
    (down,), (up,) = compare(a, b).cells, compare(b, a).cells
    assert (down.ratio, down.ci, down.p_value) == (0.0, None, None)
    assert (up.ratio, up.ci, up.p_value) == (None, None, None)


def test_two_trials_a_side_give_no_interval(make_run: MakeRun, random: np.random.Generator) -> None:
    """Below three trials on a side the ratio stands alone."""
    run = make_run({"a": "x"}, 2, lambda *_: {"received_bps": (float(random.lognormal(20, 0.02)), "bit/s")})
    (cell,) = compare(stored("a", run), stored("b", run)).cells
    assert (cell.ratio, cell.ci, cell.p_value) == (1.0, None, None)


def test_settings_that_were_in_effect_with_other_values_are_named(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Once for all places and cells with the same two values; what is equal is not."""

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
