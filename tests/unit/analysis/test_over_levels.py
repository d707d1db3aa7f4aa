"""Figures over the levels of a factor within a block, and their ratios."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.unit.analysis.conftest import Levels, Values, make_run

from iolab.analysis import analyse
from iolab.analysis.types import Analysis
from iolab.experiment.experiment import LevelRatio, Statistic, Summary
from iolab.plan.types import Plan
from iolab.store.records import TrialRecord

FACTORS = {"card": ("e1000", "virtio"), "size": ("64", "512", "1518"), "direction": ("one-way", "both-ways")}
BOTH = LevelRatio("direction", "both-ways", "one-way")
SUMMARY = Summary("size", ("mean", "min", "max"), (BOTH,))
CHANCE = np.random.default_rng(3).normal(1, 0.02, size=(5, 2, 3, 2))


def rate(block: int, levels: Levels) -> float:
    """Return a known rate per card, size and direction, with 2 % of noise."""
    card, size, direction = levels
    return float((1000.0, 4000.0)[card] / (1 + size) * (1, 1.5)[direction] * CHANCE[block - 1][levels])


def analysed(*summaries: Summary, blocks: int = 5, drop: int = 0) -> Analysis:
    """Return the analysis of a run of every cell, without the last `drop` trials."""

    def value(_: str, levels: Levels, block: int) -> Values:
        return {"forwarded_fps": (rate(block, levels), "frame/s")}

    records, plan = make_run(FACTORS, blocks, value, measures=("rate",))
    return concluded(records[: len(records) - drop], plan, *summaries)


def concluded(records: list[TrialRecord], plan: Plan, *summaries: Summary) -> Analysis:
    """Conclude with summaries."""
    return analyse(records, replace(plan, summaries=summaries))


REDUCED: dict[str, Callable[..., object]] = {"mean": np.mean, "min": np.min, "max": np.max}


def expected(statistic: Statistic, card: int, direction: int) -> np.ndarray:
    """Return the figure of each block."""
    table = [[rate(block, (card, size, direction)) for size in range(3)] for block in range(1, 6)]
    return np.asarray(REDUCED[statistic](table, axis=1))


def test_mean_minimum_and_maximum_are_taken_over_the_levels_within_a_block() -> None:
    """Compute the t interval of the logarithm of their mean over blocks, like scipy."""
    found = analysed(SUMMARY).levels_figures
    assert len(found) == 2 * 2 * 3
    for each in found:
        place = FACTORS["card"].index(each.cell["card"]), FACTORS["direction"].index(each.cell["direction"])
        blocks = expected(each.statistic, *place)
        assert each.values == pytest.approx(blocks)
        assert (each.mean, each.min, each.max) == pytest.approx((blocks.mean(), blocks.min(), blocks.max()))
        error = stats.sem(blocks) / blocks.mean()
        ends = np.exp(stats.t.interval(0.95, 4, np.log(blocks.mean()), error))
        assert each.ci is not None
        assert (each.ci.low, each.ci.high) == pytest.approx(tuple(ends))
        assert (each.over, each.levels, set(each.cell)) == ("size", FACTORS["size"], {"card", "direction"})


def test_ratios_between_two_levels_are_taken_within_a_block() -> None:
    """Divide both ways by one way for each figure: geometric mean, t interval on logarithms."""
    found = analysed(SUMMARY).levels_ratios
    assert [(each.cell, each.statistic) for each in found] == [
        ({"card": card}, name) for name in ("mean", "min", "max") for card in FACTORS["card"]
    ]
    for each in found:
        card = FACTORS["card"].index(each.cell["card"])
        logs = np.log(expected(each.statistic, card, 1) / expected(each.statistic, card, 0))
        assert each.ratio == pytest.approx(np.exp(logs.mean()))
        low, high = stats.t.interval(0.95, 4, logs.mean(), stats.sem(logs))
        assert each.ci is not None
        assert (each.ci.low, each.ci.high) == pytest.approx((np.exp(low), np.exp(high)))


def test_block_that_lacks_a_level_is_excluded_and_counted() -> None:
    """Exclude the last block, whose trial of virtio, 1518, both ways is missing."""
    found = analysed(SUMMARY, drop=1)
    lacking = [each for each in found.levels_figures if each.left_out]
    assert {tuple(each.cell.values()) for each in lacking} == {("virtio", "both-ways")}
    assert {(each.left_out, len(each.values)) for each in lacking} == {(1, 4)}
    assert {(each.cell["card"], each.n) for each in found.levels_ratios} == {("e1000", 5), ("virtio", 4)}


def test_cells_without_a_figure_over_levels_are_named_with_their_levels() -> None:
    """Name a missing row, which must not look as if it had not been measured."""

    def value(_: str, levels: Levels, block: int) -> Values:
        return {"forwarded_fps": (rate(block, levels), "frame/s")}

    records, plan = make_run(
        FACTORS, 4, value, exists=lambda at: at[0] == 0 or at[1] == 0, measures=("rate",)
    )
    lost = concluded(records, plan, SUMMARY).levels_left_out
    assert [(dict(one.cell), one.levels) for one in lost] == [
        ({"card": "virtio", "direction": direction}, ("64",)) for direction in ("one-way", "both-ways")
    ]


def test_cell_whose_blocks_all_lack_a_level_is_named_as_left_out() -> None:
    """Name a cell that has every level, but never in one block."""

    def value(_: str, levels: Levels, block: int) -> Values:
        return {"forwarded_fps": (rate(block, levels), "frame/s")}

    records, plan = make_run(FACTORS, 4, value, measures=("rate",))
    levels = {step.key: step.levels for step in plan.steps}
    kept = [
        one for one in records if levels[one.key][0] == 0 or (one.block % 2 == 0) == (levels[one.key][1] == 0)
    ]
    found = concluded(kept, plan, SUMMARY)
    assert {one.cell["card"] for one in found.levels_figures} == {"e1000"}
    assert {(one.cell["card"], one.levels) for one in found.levels_left_out} == {
        ("virtio", ("64", "512", "1518"))
    }


def test_cells_with_different_levels_are_not_compared() -> None:
    """Give no ratio of the means of three sizes one way and two both ways."""

    def value(_: str, levels: Levels, block: int) -> Values:
        return {"forwarded_fps": (rate(block, levels), "frame/s")}

    records, plan = make_run(FACTORS, 4, value, exists=lambda at: at[1:] != (2, 1), measures=("rate",))
    found = concluded(records, plan, SUMMARY)
    assert found.levels_ratios == ()
    assert {each.levels for each in found.levels_figures} == {("64", "512", "1518"), ("64", "512")}


def test_without_summarise_there_are_no_figures_over_levels() -> None:
    """Give none over a factor that the measure does not have, either."""
    found = analysed()
    assert (found.levels_figures, found.levels_ratios) == ((), ())


def test_figures_over_levels_include_the_rate_per_direction() -> None:
    """Give it if the trials have it."""

    def value(_: str, levels: Levels, block: int) -> Values:
        fps = rate(block, levels)
        return {
            "forwarded_fps": (fps, "frame/s"),
            "forwarded_per_direction_fps": (fps / (1 + levels[2]), "frame/s"),
            "load_trials": (9.0, "count"),
        }

    records, plan = make_run(FACTORS, 3, value, measures=("rate",))
    found = concluded(records, plan, Summary("size", ("mean",), (BOTH,)))
    metrics = {each.metric.name for each in found.levels_figures}
    assert metrics == {"forwarded_fps", "forwarded_per_direction_fps"}
    sums, each_way = (
        next(each.ratio for each in found.levels_ratios if each.metric.name == metric)
        for metric in ("forwarded_fps", "forwarded_per_direction_fps")
    )
    assert each_way is not None
    assert sums == pytest.approx(2 * each_way)
