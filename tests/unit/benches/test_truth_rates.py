"""What the bench of truth takes for the truth of a search, and which cases it runs."""

import pytest
from benches.truth.truth import is_wanted
from benches.truth.truth_devices import BACK, OUT, policer, tbf
from benches.truth.truth_lab import Company
from benches.truth.truth_rates import RateCase, rate_cases


def test_the_true_rate_is_the_load_that_loses_what_the_goal_allows() -> None:
    """A device of 25 000 frames/s loses 1 % of 25 253."""
    assert RateCase(tbf(25_000, 64), "fast", "af_xdp", loss_ratio=0.01).truth_fps == pytest.approx(
        25_252.5, abs=0.1
    )


def test_two_equal_directions_carry_twice_as_much() -> None:
    """Both lose at the same load."""
    both = RateCase(tbf(25_000, 64), "fast", "af_xdp", "both-ways", loss_ratio=0.01)
    assert both.truth_fps == pytest.approx(50_505.1, abs=0.1)
    assert both.places == ("dut.eth1", "dut.eth0")


def test_the_slower_direction_bounds_both_and_is_where_frames_are_lost() -> None:
    """At 25 510 each 510 are lost one way and none the other: 1 % of both."""
    uneven = RateCase(tbf(25_000, 64, back_fps=50_000), "fast", "af_xdp", "both-ways", loss_ratio=0.01)
    assert uneven.truth_fps == pytest.approx(51_020.4, abs=0.1)
    assert uneven.places == ("dut.eth1",)


def test_others_take_their_part_of_a_shaper_and_none_of_a_rule_before_it() -> None:
    """They leave by the port, and never come in by the other."""
    others = Company("", 10_000)
    shaped = RateCase(tbf(50_000, 64), "fast", "af_xdp", loss_ratio=0.0, company=others)
    ruled = RateCase(policer(50_000, 64), "fast", "af_xdp", loss_ratio=0.0, company=others)
    assert (shaped.truth_fps, ruled.truth_fps) == (40_000, 50_000)


def test_a_rule_drops_where_frames_come_in_and_a_shaper_where_they_leave() -> None:
    """So verdicts are held against the right port of each."""
    assert policer(25_000, 64).places[OUT] == ("dut.eth0",)
    assert tbf(25_000, 64).places[BACK] == ("dut.eth0",)


def test_cases_that_differ_have_names_that_differ() -> None:
    """A case is chosen and reported by its name."""
    names = [case.name for case in rate_cases()]
    assert len(set(names)) == len(names)


def test_a_case_runs_if_all_words_of_one_name_are_among_its_own() -> None:
    """Whole words, in any order."""
    name = RateCase(tbf(25_000, 64), "fast", "af_xdp").name
    assert is_wanted(name, [])
    assert is_wanted(name, ["policer", "fast tbf"])
    assert not is_wanted(name, ["tbf 5000", "mlr"])
