"""Grading rules of the truth benches: right, doubtful and wrong."""

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
    """Return a figure of a device that forwards 100 000 frames/s."""
    return Figure(100_000.0, found, frozenset(marks), lower, upper, sustained)


def test_rate_within_1_percent_is_graded_right_despite_any_warning() -> None:
    """Ignore warnings of a true figure."""
    assert grade_figure(figure(99_000.0), REASONS) is Grade.RIGHT
    assert grade_figure(figure(101_000.0, DISTURBED), REASONS) is Grade.RIGHT


def test_wrong_rate_with_a_queue_warning_is_marked_only_if_the_sustained_rate_is_right() -> None:
    """Require the sustained rate in the warning, and that it is right."""
    assert grade_figure(figure(101_100.0), REASONS) is Grade.WRONG
    assert grade_figure(figure(130_000.0, QUEUE), REASONS) is Grade.WRONG
    assert grade_figure(figure(130_000.0, QUEUE, sustained=120_000.0), REASONS) is Grade.WRONG
    assert grade_figure(figure(130_000.0, QUEUE, sustained=100_200.0), REASONS) is Grade.MARKED


def test_warning_with_an_unrelated_reason_does_not_excuse_a_wrong_rate() -> None:
    """Ignore a warning that every trial could have."""
    assert grade_figure(figure(150_000.0, "slower-path"), REASONS) is Grade.WRONG


def test_host_stalls_and_generator_limits_excuse_only_a_low_rate() -> None:
    """Excuse no high rate: no stall makes a device forward more."""
    for mark in (DISTURBED, "generator-limited"):
        assert grade_figure(figure(60_000.0, mark), REASONS) is Grade.MARKED
        assert grade_figure(figure(130_000.0, mark), REASONS) is Grade.WRONG


def test_partial_search_is_marked_if_its_bounds_contain_the_true_rate() -> None:
    """Accept the bounds of an unfinished search."""
    assert grade_figure(figure(90_000.0, PARTIAL, lower=90_000.0, upper=110_000.0), REASONS) is Grade.MARKED
    assert grade_figure(figure(90_000.0, PARTIAL, lower=90_000.0, upper=95_000.0), REASONS) is Grade.WRONG
    assert grade_figure(figure(140_000.0, PARTIAL, lower=130_000.0), REASONS) is Grade.WRONG


def test_missing_rate_without_a_warning_is_graded_wrong() -> None:
    """Require a warning for a missing figure."""
    assert grade_figure(figure(None), REASONS) is Grade.WRONG
    assert grade_figure(figure(None, PARTIAL, upper=120_000.0), REASONS) is Grade.MARKED


def test_verdict_is_right_only_if_it_names_the_place_or_part_and_the_fault() -> None:
    """Require a place, the part of the instrument, and words if the place alone is ambiguous."""
    hop = Blame("hop", "dut.eth1", "400 frames were dropped at dut.eth1 (qdisc)")
    assert grade_verdict(hop, ("dut.eth1",)) is Grade.RIGHT
    assert grade_verdict(hop, ("dut.eth0",)) is Grade.WRONG
    assert grade_verdict(hop, ("dut.eth1",), ("damaged",)) is Grade.WRONG
    assert grade_verdict(Blame("generator", "generator", ""), ("host", "generator")) is Grade.RIGHT


def test_unexplained_verdict_is_doubtful_and_a_host_verdict_on_a_device_fault_is_wrong() -> None:
    """Grade blaming the host for a device's fault as wrong."""
    assert grade_verdict(Blame("unexplained", "", ""), ("dut.eth1",)) is Grade.DOUBT
    assert grade_verdict(Blame("host", "", "held up"), ("dut.eth1",)) is Grade.WRONG


def test_wrong_cause_with_a_doubt_is_graded_doubtful() -> None:
    """Accept a wrong verdict if it is doubtful."""
    blame = Blame("host", "", "held up", doubt="too little was calm")
    assert grade_verdict(blame, ("dut.eth1",)) is Grade.DOUBT
    assert grade_verdict(blame, ("host",)) is Grade.RIGHT


def test_verdict_that_names_any_cause_is_graded_wrong_if_there_is_no_fault() -> None:
    """Do not blame the host either."""
    assert grade_verdict(Blame("none", "", ""), ()) is Grade.RIGHT
    assert grade_verdict(Blame("host", "", ""), ()) is Grade.WRONG


def test_tally_fails_on_a_silent_error_in_figure_verdict_or_balance() -> None:
    """Count a figure, a verdict or a frame."""
    good = Outcome("good", Grade.RIGHT, Grade.RIGHT, 0)
    marked = Outcome("marked", Grade.MARKED, Grade.DOUBT, 0)
    assert tally([good, marked]).holds
    assert not tally([good, Outcome("off", Grade.WRONG, Grade.RIGHT, 0)]).holds
    assert not tally([good, Outcome("blames", Grade.RIGHT, Grade.WRONG, 0)]).holds
    assert not tally([good, Outcome("open", Grade.RIGHT, Grade.RIGHT, 3)]).holds
    assert tally([good, marked]).doubtful == 1


def test_true_rate_is_the_load_whose_loss_ratio_equals_the_goal() -> None:
    """Expect 25 253 frames/s for a device of 25 000 at 1 % loss."""
    assert RateCase(tbf(25_000, 64), "fast", "af_xdp", loss_ratio=0.01).truth_fps == pytest.approx(
        25_252.5, abs=0.1
    )


def test_true_rate_of_two_equal_directions_is_twice_that_of_one() -> None:
    """Expect losses of both at the same load."""
    both = RateCase(tbf(25_000, 64), "fast", "af_xdp", "both-ways", loss_ratio=0.01)
    assert both.truth_fps == pytest.approx(50_505.1, abs=0.1)
    assert both.places == ("dut.eth1", "dut.eth0")


def test_slower_direction_limits_the_true_rate_of_both_ways() -> None:
    """Expect 510 lost of 25 510 one way and none the other: 1 % of both."""
    uneven = RateCase(tbf(25_000, 64, back_fps=50_000), "fast", "af_xdp", "both-ways", loss_ratio=0.01)
    assert uneven.truth_fps == pytest.approx(51_020.4, abs=0.1)
    assert uneven.places == ("dut.eth1",)


def test_cross_traffic_reduces_the_true_rate_of_a_shaper_but_not_of_a_policer() -> None:
    """Let foreign frames leave by the port of the shaper, not enter by the policer's."""
    others = Company("", 10_000)
    shaped = RateCase(tbf(50_000, 64), "fast", "af_xdp", loss_ratio=0.0, company=others)
    ruled = RateCase(policer(50_000, 64), "fast", "af_xdp", loss_ratio=0.0, company=others)
    assert (shaped.truth_fps, ruled.truth_fps) == (40_000, 50_000)


def test_policer_drops_at_the_ingress_port_and_shaper_at_the_egress_port() -> None:
    """Compare verdicts with the right port of each."""
    assert policer(25_000, 64).places[OUT] == ("dut.eth0",)
    assert tbf(25_000, 64).places[BACK] == ("dut.eth0",)


def test_rate_cases_have_unique_names() -> None:
    """Select and report each case by its name."""
    names = [case.name for case in rate_cases()]
    assert len(set(names)) == len(names)


def test_case_selection_matches_whole_words_in_any_order() -> None:
    """Require all words of one name."""
    name = RateCase(tbf(25_000, 64), "fast", "af_xdp").name
    assert is_wanted(name, [])
    assert is_wanted(name, ["policer", "fast tbf"])
    assert not is_wanted(name, ["tbf 5000", "mlr"])


def test_verdict_names_have_the_form_that_the_cases_expect() -> None:
    """Use a limit and a port or a machine, without types and quotes."""
    expected = {word for fault in STREAM_FAULTS for word in fault.verdict}
    assert named(Limit.SHAPER, AtPort(port="a.eth1")) in expected
    assert named(Limit.WINDOW, AtMachine(machine="far")) in expected
    assert all(re.fullmatch(r"[a-z]+ [a-z]+(\.[a-z0-9]+)?", word) for word in expected)
