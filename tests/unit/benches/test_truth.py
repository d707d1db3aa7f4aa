"""What the benches of truth take for right, doubtful and wrong."""

import re

import pytest
from benches.faults.stream_cases import STREAM_FAULTS
from benches.harness.truth_words import named
from benches.truth.truth import is_wanted
from benches.truth.truth_devices import BACK, OUT, policer, tbf
from benches.truth.truth_judged import (
    PARTIAL,
    QUEUE,
    Blame,
    Figure,
    Grade,
    Outcome,
    grade_figure,
    grade_verdict,
    tally,
)
from benches.truth.truth_lab import Company
from benches.truth.truth_rates import RateCase, rate_cases

from iolab.messages.places import AtMachine, AtPort
from iolab.results.verdict import Limit

DISTURBED = "search-disturbed"
REASONS = (QUEUE, PARTIAL, DISTURBED, "generator-limited")


def figure(
    found: float | None,
    *marks: str,
    lower: float | None = None,
    upper: float | None = None,
    sustained: float | None = None,
) -> Figure:
    """A figure of a device that does 100 000 frames/s."""
    return Figure(100_000.0, found, frozenset(marks), lower, upper, sustained)


def test_a_rate_within_one_percent_is_right_whatever_its_marks() -> None:
    """No mark makes a true figure false."""
    assert grade_figure(figure(99_000.0), REASONS) is Grade.RIGHT
    assert grade_figure(figure(101_000.0, DISTURBED), REASONS) is Grade.RIGHT


def test_a_rate_that_a_queue_took_up_is_marked_only_beside_the_true_one() -> None:
    """The mark gives the sustained rate, and that one is right."""
    assert grade_figure(figure(101_100.0), REASONS) is Grade.WRONG
    assert grade_figure(figure(130_000.0, QUEUE), REASONS) is Grade.WRONG
    assert grade_figure(figure(130_000.0, QUEUE, sustained=120_000.0), REASONS) is Grade.WRONG
    assert grade_figure(figure(130_000.0, QUEUE, sustained=100_200.0), REASONS) is Grade.MARKED


def test_a_mark_with_another_reason_does_not_help() -> None:
    """A mark that every trial could have explains nothing."""
    assert grade_figure(figure(150_000.0, "slower-path"), REASONS) is Grade.WRONG


def test_a_disturbed_host_and_a_weak_generator_explain_too_little_and_never_too_much() -> None:
    """Nobody forwards more because a thread was held up."""
    for mark in (DISTURBED, "generator-limited"):
        assert grade_figure(figure(60_000.0, mark), REASONS) is Grade.MARKED
        assert grade_figure(figure(130_000.0, mark), REASONS) is Grade.WRONG


def test_a_partial_search_is_marked_right_where_its_bounds_hold_the_truth() -> None:
    """A search that came to no end says what it knows: its bounds."""
    assert grade_figure(figure(90_000.0, PARTIAL, lower=90_000.0, upper=110_000.0), REASONS) is Grade.MARKED
    assert grade_figure(figure(90_000.0, PARTIAL, lower=90_000.0, upper=95_000.0), REASONS) is Grade.WRONG
    assert grade_figure(figure(140_000.0, PARTIAL, lower=130_000.0), REASONS) is Grade.WRONG


def test_no_rate_where_one_exists_is_wrong_without_a_mark() -> None:
    """No figure is no excuse."""
    assert grade_figure(figure(None), REASONS) is Grade.WRONG
    assert grade_figure(figure(None, PARTIAL, upper=120_000.0), REASONS) is Grade.MARKED


def test_a_verdict_must_name_the_place_or_the_part_and_what_is_wrong_with_it() -> None:
    """A place, the part of the instrument, and words where the place alone says too little."""
    hop = Blame("hop", "dut.eth1", "400 frames were dropped at dut.eth1 (qdisc)")
    assert grade_verdict(hop, ("dut.eth1",)) is Grade.RIGHT
    assert grade_verdict(hop, ("dut.eth0",)) is Grade.WRONG
    assert grade_verdict(hop, ("dut.eth1",), ("damaged",)) is Grade.WRONG
    assert grade_verdict(Blame("generator", "generator", ""), ("host", "generator")) is Grade.RIGHT


def test_a_verdict_that_names_no_cause_is_in_doubt_and_the_host_is_a_cause() -> None:
    """To blame the host for what a device did is to name a wrong cause."""
    assert grade_verdict(Blame("unexplained", "", ""), ("dut.eth1",)) is Grade.DOUBT
    assert grade_verdict(Blame("host", "", "held up"), ("dut.eth1",)) is Grade.WRONG


def test_a_wrong_cause_that_is_given_in_doubt_is_in_doubt() -> None:
    """What is wanted is no wrong verdict given without doubt."""
    blame = Blame("host", "", "held up", doubt="too little was calm")
    assert grade_verdict(blame, ("dut.eth1",)) is Grade.DOUBT
    assert grade_verdict(blame, ("host",)) is Grade.RIGHT


def test_where_nothing_is_wrong_nothing_may_be_blamed() -> None:
    """Not even the host."""
    assert grade_verdict(Blame("none", "", ""), ()) is Grade.RIGHT
    assert grade_verdict(Blame("host", "", ""), ()) is Grade.WRONG


def test_the_tally_holds_only_without_a_silent_error() -> None:
    """A figure, a verdict or a frame."""
    good = Outcome("good", Grade.RIGHT, Grade.RIGHT, 0)
    marked = Outcome("marked", Grade.MARKED, Grade.DOUBT, 0)
    assert tally([good, marked]).holds
    assert not tally([good, Outcome("off", Grade.WRONG, Grade.RIGHT, 0)]).holds
    assert not tally([good, Outcome("blames", Grade.RIGHT, Grade.WRONG, 0)]).holds
    assert not tally([good, Outcome("open", Grade.RIGHT, Grade.RIGHT, 3)]).holds
    assert tally([good, marked]).doubtful == 1


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


def test_verdicts_are_named_as_the_cases_expect_them() -> None:
    """A limit and a port or a machine, no types and no quotes."""
    expected = {word for fault in STREAM_FAULTS for word in fault.verdict}
    assert named(Limit.SHAPER, AtPort(port="a.eth1")) in expected
    assert named(Limit.WINDOW, AtMachine(machine="far")) in expected
    assert all(re.fullmatch(r"[a-z]+ [a-z]+(\.[a-z0-9]+)?", word) for word in expected)
