"""Bounds: a rate that the instrument limited is a lower bound, and so is everything that is made of it."""

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
"""Levels: the baseline, one that was measured, one with a bound in one block, one that is all bounds, and so again."""


def rate(level: int, block: int) -> float:
    """Scatters by a per mille."""
    return (100.0 + 10 * level) * (1 + 0.001 * block)


def simulated(bounded: dict[int, tuple[int, ...]]) -> Analysis:
    """Six blocks of a rate; `bounded` says in which blocks the generator limited a level."""

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
    """The estimate of a level."""
    return next(one for one in found.estimates if one.cell["card"] == "abcde"[level])


def test_what_was_measured_stays_as_it_is(found: Analysis) -> None:
    """A cell without a bound has its interval, its ratio and its p-value."""
    exact = at(found, EXACT)
    assert (exact.bounds, exact.limited_by, exact.ratio_bound, exact.least_is_bound) == (0, (), None, False)
    assert exact.ci is not None
    assert exact.ratio_ci is not None


@pytest.mark.parametrize(("level", "count", "least"), [(MIXED, 1, False), (ALL, 6, True)])
def test_a_mean_with_a_bound_in_it_is_a_bound(found: Analysis, level: int, count: int, least: bool) -> None:
    """It has no interval and no ratio; the smallest trial is exact where an exact one is the smallest."""
    one = at(found, level)
    assert (one.bounds, one.limited_by, one.least_is_bound) == (count, ("generator",), least)
    assert one.ci is None
    assert (one.ratio_bound, one.ratio_ci, one.p_value) == (Bound.LEAST, None, None)
    assert (one.ratio, one.apart) == (None, "lower-bound")


def test_a_ratio_to_a_bound_is_at_most_that_and_of_two_bounds_there_is_none() -> None:
    """The baseline itself can have been more."""
    found = simulated({BASE: (1,), ALL: (1,)})
    assert at(found, EXACT).ratio_bound is Bound.MOST
    assert at(found, EXACT).ci is not None
    assert at(found, EXACT).ratio is None
    assert (at(found, ALL).ratio, at(found, ALL).ratio_bound) == (None, None)
    assert at(found, BASE).ratio == 1.0


def test_a_bound_is_neither_the_least_nor_the_largest_of_what_was_measured(found: Analysis) -> None:
    """The level that is all bounds has the largest mean; of bounds alone there is nothing else to name."""
    cells = found.estimates.by_metric["tcp", Quantity("forwarded_fps")]
    low, high = cells.figures().ends
    assert (cells[low].cell["card"], cells[high].cell["card"]) == ("a", "e")
    every = simulated(dict.fromkeys(range(5), EVERY)).estimates.by_metric["tcp", Quantity("forwarded_fps")]
    assert every.figures().ends == (0, 4)


def test_effects_and_findings_do_without_bounds(found: Analysis) -> None:
    """A change that is only a bound is no finding; the notes say what was left out."""
    assert {effect.levels["card"] for effect in found.effects} == {"b", "c", "e"}
    assert {one.level for one in found.findings} == {"b", "c", "e"}
    (note,) = [note for note in found.notes if note.code == "bounds-left-out"]
    assert "7 of 30 trials" in in_words(note)
    assert not simulated(dict.fromkeys(range(5), EVERY)).findings


def test_runs_are_compared_as_far_as_bounds_go(random: np.random.Generator) -> None:
    """A bound is in no ratio, and has no interval; what the ratio would be a bound of is kept."""
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


def test_figures_over_levels_are_bounds_where_a_level_is() -> None:
    """Mean and least over sizes; their ratio between directions is a bound, or none of two."""

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
