"""Bounds: a rate that the instrument limited is a lower bound, and so is every figure derived from it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.analysis.conftest import Values, make_run
from tests.unit.analysis.stored_runs import stored
from tests.wording import in_words

from iolab.analysis import analyse
from iolab.analysis.compare import compare
from iolab.analysis.forwarding_types import Bound
from iolab.analysis.types import Analysis, Estimate
from iolab.experiment.experiment import LevelRatio, Summary
from iolab.results.metric import Quantity

BASE, EXACT, MIXED, ALL, BOTH = range(5)
"""Levels: the baseline, a measured one, one with a bound in one block, and two that are all bounds."""


def rate(level: int, block: int) -> float:
    """Return a rate with 0.1 % of noise."""
    return (100.0 + 10 * level) * (1 + 0.001 * block)


def simulated(bounded: dict[int, tuple[int, ...]]) -> Analysis:
    """Return six blocks of a rate; `bounded` gives the blocks in which the generator limited a level."""

    def value(_measure: str, levels: tuple[int, ...], block: int) -> Values:
        limit = "generator" if block in bounded.get(levels[0], ()) else ""
        return {"forwarded_fps": (rate(levels[0], block), "frame/s", limit)}

    records, plan = make_run({"card": ["a", "b", "c", "d", "e"]}, 6, value, baseline={"card": "a"})
    return analyse(records, plan)


EVERY = tuple(range(1, 7))


@pytest.fixture(name="found", scope="module")
def _found() -> Analysis:
    return simulated({MIXED: (2,), ALL: EVERY})


def at(found: Analysis, level: int) -> Estimate:
    """Return the estimate of a level."""
    return next(one for one in found.estimates if one.cell["card"] == "abcde"[level])


def test_estimates_without_bounds_keep_interval_ratio_and_p_value(found: Analysis) -> None:
    """Keep all figures of a cell without a bound."""
    exact = at(found, EXACT)
    assert (exact.bounds, exact.limited_by, exact.ratio_bound, exact.least_is_bound) == (0, (), None, False)
    assert exact.ci is not None
    assert exact.ratio_ci is not None


@pytest.mark.parametrize(("level", "count", "least"), [(MIXED, 1, False), (ALL, 6, True)])
def test_mean_that_includes_a_bound_is_a_bound_without_interval_or_ratio(
    found: Analysis, level: int, count: int, least: bool
) -> None:
    """Drop interval and ratio; the minimum is exact if an exact trial is the smallest."""
    one = at(found, level)
    assert (one.bounds, one.limited_by, one.least_is_bound) == (count, ("generator",), least)
    assert one.ci is None
    assert (one.ratio_bound, one.ratio_ci, one.p_value) == (Bound.LEAST, None, None)
    assert (one.ratio, one.apart) == (None, "lower-bound")


def test_ratio_to_a_bound_is_a_maximum_and_two_bounds_have_no_ratio() -> None:
    """Allow for a baseline that can be higher."""
    found = simulated({BASE: (1,), ALL: (1,)})
    assert at(found, EXACT).ratio_bound is Bound.MOST
    assert at(found, EXACT).ci is not None
    assert at(found, EXACT).ratio is None
    assert (at(found, ALL).ratio, at(found, ALL).ratio_bound) == (None, None)
    assert at(found, BASE).ratio == 1.0


def test_bounds_are_excluded_from_the_smallest_and_largest_means(found: Analysis) -> None:
    """Choose the level with the largest mean only among exact levels, unless all are bounds."""
    cells = found.estimates.by_metric["tcp", Quantity("forwarded_fps")]
    low, high = cells.figures().ends
    assert (cells[low].cell["card"], cells[high].cell["card"]) == ("a", "e")
    every = simulated(dict.fromkeys(range(5), EVERY)).estimates.by_metric["tcp", Quantity("forwarded_fps")]
    assert every.figures().ends == (0, 4)


def test_effects_and_findings_exclude_bounds(found: Analysis) -> None:
    """Make no finding of a change that is only a bound; note the excluded trials."""
    assert {effect.levels["card"] for effect in found.effects} == {"b", "c", "e"}
    assert {one.level for one in found.findings} == {"b", "c", "e"}
    (note,) = [note for note in found.notes if note.code == "bounds-left-out"]
    assert "7 of 30 trials" in in_words(note)
    assert not simulated(dict.fromkeys(range(5), EVERY)).findings


def test_comparison_of_two_runs_marks_bounds_and_gives_them_no_interval(random: np.random.Generator) -> None:
    """Give the bound of a ratio, without an interval."""
    runs = []
    for name, limits in (
        ("one", {BASE: (), EXACT: (1,), ALL: (1,)}),
        ("two", {BASE: (1,), EXACT: (), ALL: (1,)}),
    ):

        def value(
            _measure: str, levels: tuple[int, ...], block: int, limits: dict[int, tuple[int, ...]] = limits
        ) -> Values:
            limit = "receiver" if block in limits.get(levels[0], ()) else ""
            return {"forwarded_fps": (rate(levels[0], block) * random.normal(1, 0.01), "frame/s", limit)}

        runs.append(stored(name, make_run({"card": ["a", "b", "c", "d"]}, 5, value)))
    compared = compare(*runs)
    cells = {one.cell["card"]: one for one in compared.cells}
    assert (cells["a"].ratio_bound, cells["a"].limited_b, cells["a"].ci) == (Bound.LEAST, ("receiver",), None)
    assert (cells["b"].ratio_bound, cells["b"].limited_a) == (Bound.MOST, ("receiver",))
    assert (cells["a"].ratio, cells["b"].ratio) == (None, None)
    assert cells["c"].ci is not None
    assert (cells["d"].ratio, cells["d"].ratio_bound) == (None, None)
    assert [one.cells for one in compared.overall] == [1]


def test_figure_over_levels_is_a_bound_if_any_level_is_a_bound() -> None:
    """Apply it to mean, minimum and direction ratio."""

    def value(_measure: str, levels: tuple[int, ...], block: int) -> Values:
        limit = "line" if levels == (1, 1) else ""
        return {"forwarded_fps": (rate(sum(levels), block), "frame/s", limit)}

    factors = {"size": ["64", "512"], "direction": ["one-way", "both-ways"]}
    records, plan = make_run(factors, 5, value)
    asked = Summary("size", ("mean",), (LevelRatio("direction", "both-ways", "one-way"),))
    found = analyse(records, replace(plan, summaries=(asked,)))
    by_direction = {one.cell["direction"]: one for one in found.levels_figures}
    assert (by_direction["both-ways"].limited_by, by_direction["both-ways"].ci) == (("line",), None)
    assert by_direction["one-way"].ci is not None
    (ratio,) = found.levels_ratios
    assert (ratio.ratio, ratio.bound, ratio.ci) == (None, Bound.LEAST, None)
