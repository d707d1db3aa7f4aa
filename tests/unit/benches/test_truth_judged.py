"""What the bench of truth counts as right, marked and wrong."""

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
