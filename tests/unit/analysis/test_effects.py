"""The model of the factors against statsmodels, a published split-plot experiment, and known truth."""

import itertools
import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.multitest import multipletests
from tests.unit.analysis.conftest import make_run
from tests.unit.analysis.fits import standard_errors
from tests.wording import in_words

from iolab.analysis import analyse
from iolab.analysis.effects import Model, main_differences, model_of
from iolab.analysis.intervals import interval_of_mean
from iolab.analysis.neighbours import Resemblance, resemblance
from iolab.analysis.table import Column, tabulate
from iolab.analysis.types import Analysis, Effect
from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan
from iolab.results.metric import Quantity
from iolab.store.records import TrialRecord

MakeRun = Callable[..., tuple[list[TrialRecord], Plan]]
OATS = """111 130 157 174 117 114 161 141 105 140 118 156 61 91 97 100 70 108 126 149 96 124 121 144
68 64 112 86 60 102 89 96 89 129 132 124 74 89 81 122 64 103 132 133 70 89 104 117
62 90 100 116 80 82 94 126 63 70 109 99 53 74 118 113 89 82 86 104 97 99 119 121"""
"""Yates (1935), Complex experiments: yield of oats, 6 blocks x 3 varieties (whole plots) x 4 doses of nitrogen."""


def unbalanced(make_run: MakeRun, random: np.random.Generator) -> tuple[list[TrialRecord], Plan]:
    """Return a run of three factors, blocks that drift, and a quarter of the trials missing."""
    factors = {"mtu": ["1500", "4500", "9000"], "offload": ["on", "off"], "direction": ["one", "both"]}
    records, plan = make_run(
        factors,
        4,
        lambda measure, levels, block: {
            "received_bps": (
                float(np.exp(20 + 0.1 * sum(levels) + 0.05 * block + random.normal(0, 0.1))),
                "bit/s",
            )
        },
        baseline={"mtu": "4500", "offload": "on"},
    )
    return [record for record in records if random.random() > 0.25], plan


def frame(records: list[TrialRecord], plan: Plan) -> pd.DataFrame:
    """Return the trials in the format of statsmodels."""
    steps = {step.key: step for step in plan.steps}
    rows = [
        {
            **plan.cell(steps[r.key]),
            "block": str(r.block),
            "y": np.log(r.result.metrics["received_bps"].value),
        }
        for r in records
    ]
    return pd.DataFrame(rows)


def fitted(records: list[TrialRecord], plan: Plan) -> Model:
    """Return the model of the first measure."""
    tables, _ = tabulate(records, plan)
    model = model_of(tables[0], tables[0].columns[Quantity("received_bps")], plan)
    assert isinstance(model, Model)
    return model


def test_model_coefficients_and_standard_errors_agree_with_statsmodels(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Compare blocks, treatment-coded factors and two-way interactions of an unbalanced run, to 1e-9."""
    records, plan = unbalanced(make_run, random)
    model = fitted(records, plan)
    expected = smf.ols(
        "y ~ block + (C(mtu, Treatment('4500')) + C(offload, Treatment('on')) + C(direction, Treatment('one')))**2",
        frame(records, plan),
    ).fit()
    names = {
        0: lambda at: f"C(mtu, Treatment('4500'))[T.{at}]",
        1: lambda at: f"C(offload, Treatment('on'))[T.{at}]",
        2: lambda at: f"C(direction, Treatment('one'))[T.{at}]",
    }
    terms = [
        ":".join(names[f](model.table.labels[f][at]) for f, at in zip(term.factors, term.levels, strict=True))
        for term in model.design.terms
    ]
    np.testing.assert_allclose(model.fit.coefficients, expected.params[terms], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(standard_errors(model.fit), expected.bse[terms], rtol=1e-9)
    assert model.fit.freedom == expected.df_resid


def test_effect_intervals_and_p_values_agree_with_statsmodels(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Compare interactions one by one; correct by Holm over all effects of the measure."""
    records, plan = unbalanced(make_run, random)
    every = analyse(records, plan).effects
    found = [effect for effect in every if len(effect.levels) == 2]
    expected = smf.ols(
        "y ~ block + (C(mtu, Treatment('4500')) + C(offload, Treatment('on')) + C(direction, Treatment('one')))**2",
        frame(records, plan),
    ).fit()
    rows = [name for name in expected.params.index if ":" in name]
    assert sorted(np.log(effect.ratio) for effect in found) == pytest.approx(
        sorted(expected.params[rows]), rel=1e-9
    )
    lows = sorted(float(np.log(effect.ci.low)) for effect in found if effect.ci)
    assert lows == pytest.approx(sorted(expected.conf_int().loc[rows, 0]), rel=1e-9)
    model = fitted(records, plan)
    mains = [own.p_value for own in main_differences(model).values()]
    holm = multipletests([*mains, *expected.pvalues[rows]], method="holm")[1]
    assert sorted(e.p_value or 0.0 for e in every) == pytest.approx(sorted(holm), rel=1e-9)


def only(analysis: Analysis, **levels: str) -> Effect:
    """Return the effect of exactly these levels."""
    (found,) = [effect for effect in analysis.effects if dict(effect.levels) == levels]
    return found


def test_main_effect_is_the_ratio_of_geometric_means_in_a_complete_run(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Compare the model's main effect with the plain ratio of the measured means."""
    values: dict[int, list[float]] = {0: [], 1: []}

    def value(measure: str, levels: tuple[int, ...], block: int) -> dict[str, tuple[float, str]]:
        rate = float(random.lognormal(20 + 0.3 * levels[0] * levels[1], 0.1))
        values[levels[0]].append(np.log(rate))
        return {"received_bps": (rate, "bit/s")}

    records, plan = make_run({"a": "xy", "b": "pqr"}, 3, value)
    expected = np.exp(np.mean(values[1]) - np.mean(values[0]))
    assert only(analyse(records, plan), a="y").ratio == pytest.approx(expected, rel=1e-12)


def test_split_plot_variances_agree_with_the_published_analysis(make_run: MakeRun) -> None:
    """Check Yates' oats: variety against 601.3 on 10 degrees of freedom, nitrogen against 177.1 on 45."""
    yields = np.array(OATS.split(), dtype=float).reshape(6, 3, 4)
    records, plan = make_run(
        {"variety": ["Victory", "Golden Rain", "Marvellous"], "nitrogen": ["0", "0.2", "0.4", "0.6"]},
        6,
        lambda measure, levels, block: {
            "received_bps": (float(np.exp(yields[block - 1, *levels] / 100)), "bit/s")
        },
        grouping=["variety"],
    )
    model = fitted(records, plan)
    assert model.plot_spread is not None
    assert model.plot_spread.variance * 1e4 == pytest.approx(6013.3 / 10, rel=1e-4)
    assert model.plot_spread.freedom == 10
    assert model.spread.variance * 1e4 == pytest.approx(7968.8 / 45, rel=1e-4)
    assert model.spread.freedom == 45


def test_drift_between_blocks_affects_neither_effect_nor_spread(make_run: MakeRun) -> None:
    """Keep the effect exact when all cells of a block are slower together."""
    records, plan = make_run(
        {"a": "xy"},
        5,
        lambda m, levels, block: {"received_bps": (1e9 * 1.1 ** levels[0] * 0.8**block, "bit/s")},
    )
    effect = only(analyse(records, plan), a="y")
    assert effect.ratio == pytest.approx(1.1, rel=1e-12)
    assert effect.ci is not None
    assert effect.ci.high - effect.ci.low < 1e-10


def test_sub_factor_levels_are_compared_within_their_parent_level(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Compare the queues of vhost with each other, and vhost with e1000 over all its queues."""
    rates = {(0, -1): 1e9, (1, 0): 2e9, (1, 1): 4e9}
    records, plan = make_run(
        {"nic": ["e1000", "vhost"], "queues": ["1", "4"]},
        4,
        lambda m, levels, block: {
            "received_bps": (rates[levels] * float(random.lognormal(0, 1e-6)), "bit/s")
        },
        cells=list(rates),
        baseline={"nic": "e1000"},
    )
    analysis = analyse(records, plan)
    assert only(analysis, queues="4").ratio == pytest.approx(2, rel=1e-4)
    assert only(analysis, nic="vhost").ratio == pytest.approx(8**0.5, rel=1e-4)
    assert {(f.factor, f.level) for f in analysis.findings} == {("nic", "vhost"), ("queues", "4")}


def test_incomplete_run_notes_that_interactions_are_aliased(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Fit a half fraction without interactions, each of which is aliased with a main effect."""
    records, plan = make_run(
        {"a": "xy", "b": "xy", "c": "xy"},
        4,
        lambda m, levels, block: {
            "received_bps": (1e9 * 1.5 ** levels[0] * float(random.lognormal(0, 0.01)), "bit/s")
        },
        exists=lambda levels: sum(levels) % 2 == 0,
    )
    analysis = analyse(records, plan)
    assert "effects-aliased" in [note.code for note in analysis.notes]
    assert all(len(effect.levels) == 1 for effect in analysis.effects)


def test_metric_with_zero_values_has_no_ratio_effects(make_run: MakeRun) -> None:
    """Give the reason in a note if a trial received nothing."""
    records, plan = make_run(
        {"a": "xy"}, 4, lambda m, levels, block: {"received_bps": (float(levels[0] * block), "bit/s")}
    )
    analysis = analyse(records, plan)
    assert analysis.effects == ()
    assert [note.code for note in analysis.notes] == ["effects-not-fitted"]


def test_effects_of_one_block_use_the_higher_interactions_as_residual(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Give no interval for a single factor, which has no residual."""
    big, plan = make_run(
        dict.fromkeys("abcd", "xy"),
        1,
        lambda *_: {"received_bps": (float(random.lognormal(20, 0.02)), "bit/s")},
    )
    assert all(effect.ci is not None for effect in analyse(big, plan).effects)
    small, plan = make_run(
        {"a": "xyz"}, 1, lambda *_: {"received_bps": (float(random.lognormal(20, 0.02)), "bit/s")}
    )
    analysis = analyse(small, plan)
    assert [effect.ci for effect in analysis.effects] == [None, None]
    assert not any(finding.shown for finding in analysis.findings)
    assert analysis.detectable == {}


@pytest.mark.parametrize("drop", range(6))
def test_effects_are_finite_for_any_pattern_of_missing_trials(make_run: MakeRun, drop: int) -> None:
    """Remove any share of the trials."""
    random = np.random.default_rng(drop)
    records, plan = make_run(
        {"a": "xyz", "b": "pq", "c": "st"},
        3,
        lambda m, levels, block: {"received_bps": (float(random.lognormal(20, 0.05)), "bit/s")},
        baseline={"a": "y", "c": "t"},
        grouping=["a"],
    )
    for share in (0.3, 0.6, 0.9):
        analysis = analyse([record for record in records if random.random() > share], plan)
        figures = [e.ratio for e in analysis.effects] + [f.ratio for f in analysis.findings]
        assert np.isfinite(figures).all()


def test_factor_with_too_many_levels_gives_a_warning_instead_of_a_model(make_run: MakeRun) -> None:
    """Leave a factor of 300 levels to the table."""
    records, plan = make_run(
        {"a": [str(i) for i in range(300)]},
        1,
        lambda m, levels, block: {"received_bps": (1.0 + levels[0], "bit/s")},
    )
    tables, _ = tabulate(records, plan)
    assert isinstance(model_of(tables[0], tables[0].columns[Quantity("received_bps")], plan), TrialWarning)


def test_interactions_beyond_the_model_size_limit_are_left_out_and_named(
    make_run: MakeRun, random: np.random.Generator
) -> None:
    """Give the main effects of 40 x 40 levels, and name the pair in the note."""
    records, plan = make_run(
        {"a": [str(i) for i in range(40)], "b": [str(i) for i in range(40)]},
        2,
        lambda m, levels, block: {
            "received_bps": (float(random.lognormal(20 + 0.01 * levels[0], 0.01)), "bit/s")
        },
    )
    analysis = analyse(records, plan)
    assert len(analysis.effects) == 78
    assert "a x b" in in_words(next(note for note in analysis.notes if note.code == "effects-aliased"))


def test_each_pair_of_factors_is_listed_once(make_run: MakeRun, random: np.random.Generator) -> None:
    """Expect three main effects and three interactions per measure of a 2 x 2 x 2 run."""
    records, plan = make_run(
        dict.fromkeys("abc", "xy"),
        3,
        lambda *_: {"received_bps": (float(random.lognormal(20, 0.02)), "bit/s")},
        measures=["tcp", "udp"],
    )
    levels = [tuple(sorted(e.levels)) for e in analyse(records, plan).effects if e.measure == "udp"]
    assert levels == [("a",), ("b",), ("c",), *itertools.combinations("abc", 2)]


def concluded(share: float, seed: int, line: float = 0.0) -> Analysis:
    """Return the analysis of a run with autocorrelated trials on a host that slows down steadily."""
    random = np.random.default_rng(seed)
    off, passed = [0.0], [0]

    def value(*_: object) -> dict[str, tuple[float, str]]:
        off[0] = share * off[0] + np.sqrt(1 - share**2) * random.normal(0, 0.02)
        passed[0] += 1
        return {"received_bps": (float(1e9 * np.exp(off[0] - line * passed[0] / 80)), "bit/s")}

    return analyse(*make_run({"a": "xy", "b": "pq", "c": "st"}, 10, value))


def notes(share: float, seed: int) -> list[str]:
    """Return the codes of its notes."""
    return [note.code for note in concluded(share, seed).notes]


def widenings(analysis: Analysis) -> list[float]:
    """Return the widening factors of the intervals of means, on the log scale."""
    found = []
    for each in analysis.estimates:
        plain = interval_of_mean(np.array(each.values), log_scale=True)
        assert plain is not None
        assert each.ci is not None
        found.append(float(np.log(each.ci.high / each.mean) / np.log(plain.high / each.mean)))
    return found


@pytest.mark.parametrize(("share", "told"), [(0.9, 20), (0.0, 0)])
def test_correlation_between_consecutive_trials_is_noted(share: float, told: int) -> None:
    """Report it in each of 20 correlated runs, and in no independent one."""
    assert sum("trials-resemble-neighbours" in notes(share, seed) for seed in range(20)) == told


def test_intervals_of_means_are_widened_for_autocorrelated_trials() -> None:
    """Widen as far as so few trials can show, and no further."""
    wider = [widenings(concluded(0.9, seed)) for seed in range(9)]
    assert all(np.ptp(each) < 1e-9 for each in wider), "cells of as many trials"
    assert 1.5 < np.median(wider) < 4


@pytest.mark.parametrize("line", [0.0, 0.2])
def test_independent_trials_and_a_steady_drift_do_not_widen_intervals(line: float) -> None:
    """Do not widen for a drift, which is in the spread of every cell already."""
    wider = [widenings(concluded(0.0, seed, line))[0] for seed in range(20)]
    assert np.median(wider) == pytest.approx(1.0)
    assert max(wider) < 1.15


def test_interval_widening_matches_the_variance_of_an_ar1_mean() -> None:
    """Check 5 trials with coefficient 0.5: variance of the mean 0.38, of which 0.775 is in the spread."""
    steps = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    of_mean = float((0.5**steps).mean())
    least = np.sqrt(of_mean * 4 / (1 - of_mean))
    assert least < Resemblance(0.5, 1).widening(5) < 1.3 * least, "and fewer degrees of freedom"
    assert Resemblance(0.5, 5000).widening(5) == pytest.approx(1.0, abs=1e-3)
    assert Resemblance().widening(5) == 1.0


def test_autocorrelation_of_90000_trials_needs_less_than_100_mib() -> None:
    """Avoid a table of trials by cells, which would have 20 GB for 30 000 cells in three blocks."""
    cells, blocks = 30_000, 3
    values = np.random.default_rng(1).normal(100, 1, (cells, blocks))
    column = Column(metric=Quantity("received_bps"), unit="bit/s", rows=np.arange(cells), values=values)
    order = np.arange(cells * blocks).reshape(cells, blocks)
    tracemalloc.start()
    try:
        assert resemblance(order, column).autocorrelation < 0.1
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
