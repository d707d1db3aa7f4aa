"""The part of a trial at the device's limit: what its hundredths show of queues, bursts, and of neither."""

import pytest

from iolab.results.search import Steady
from iolab.trial.search.steady import Parts, find_steady

MS = 1_000_000
FLAT = [20_000] * 100


def through(sent: int, arrived: list[int], least_ns: list[int], received: list[int] | None = None) -> Parts:
    """Return a direction in which as many frames are sent in each part."""
    return Parts([sent] * 100, [sent] * 100 if received is None else received, arrived, least_ns)


def at_limit(*directions: Parts) -> Steady:
    """Return the part of a trial at the device's limit, which it reached."""
    steady = find_steady(directions)
    assert steady is not None
    return steady


def test_a_trial_that_keeps_pace_was_never_at_its_limit() -> None:
    """Everything arrives in the part it was sent in, as fast as at first."""
    assert find_steady([through(100, [100] * 100, FLAT)]) is None


def test_a_queue_that_fills_without_a_loss_shows_the_rate_at_which_it_is_emptied() -> None:
    """100 frames come in per part and 90 go out: 10 % would be lost without end."""
    growing = [20_000 + part * MS for part in range(100)]
    steady = at_limit(through(100, [90] * 100, growing))
    assert steady.share_ratio > 0.9
    assert steady.loss_ratio == pytest.approx(0.1)


def test_a_full_queue_counts_by_what_came_out_and_not_by_what_it_kept() -> None:
    """Half is lost once the queue is full; what it held at the end came out too late for the rate."""
    received = [100] * 30 + [50] * 70
    latency = [20_000 + min(30, part) * MS for part in range(100)]
    steady = at_limit(through(100, [50] * 100, latency, received))
    assert steady.loss_ratio == pytest.approx(0.5)


def test_a_burst_that_is_used_up_is_no_part_of_the_rate() -> None:
    """40 parts pass whole, then 30 % of each is lost, all without delay: a token bucket."""
    passed = [100] * 40 + [70] * 60
    steady = at_limit(through(100, passed, FLAT, passed))
    assert steady.loss_ratio == pytest.approx(0.3)
    assert 0.55 < steady.share_ratio <= 0.6


def test_a_burst_that_is_used_up_at_the_very_end_asks_for_a_longer_trial() -> None:
    """Four parts of a hundred tell no rate."""
    passed = [100] * 96 + [70] * 4
    steady = at_limit(through(100, passed, FLAT, passed))
    assert steady.share_ratio == 0


def test_credit_that_a_bucket_saves_up_while_its_sender_is_held_up_is_no_part_of_the_rate() -> None:
    """50 of 100 frames pass; after ten parts without any sent, what was saved up passes ten parts whole."""
    sent = [100] * 60 + [0] * 10 + [100] * 30
    passed = [100] * 30 + [50] * 30 + [0] * 10 + [100] * 10 + [50] * 20
    steady = at_limit(Parts(sent, passed, passed, FLAT))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(50 * 100)
    assert steady.loss_ratio == pytest.approx(0.5)


def test_frames_that_were_held_up_when_the_limit_was_reached_are_no_part_of_the_rate() -> None:
    """The shaper's timer holds up its CPU for two parts; their frames come out together, before the queue is seen."""
    arrived = [102] * 15 + [60, 0, 240] + [64, 136] * 41
    least = [7_000] * 16 + [None] + [250_000 + part * 20_000 for part in range(83)]
    steady = at_limit(Parts([102] * 100, [102] * 100, arrived, least))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(100 * 100, rel=0.001)


@pytest.mark.parametrize("begin", range(4))
def test_frames_that_a_timer_lets_go_together_count_wherever_the_trial_ends(begin: int) -> None:
    """64 frames each 1.28 parts: five parts hold 256 of them, but the last four or those of the next trial may not."""
    arrived = [64 * int((part + begin / 4) % 1.28 < 1) for part in range(100)]
    least = [7_000] * 10 + [250_000 + part * 20_000 for part in range(90)]
    steady = at_limit(Parts([60] * 100, [60] * 100, arrived, least))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(50 * 100, rel=0.004)


def test_parts_without_a_stray_loss_after_a_stall_are_counted() -> None:
    """A frame is lost in every third part: that none is in the two after a stall tells nothing."""
    sent = [100] * 40 + [0] * 5 + [100] * 55
    passed = [count - (count > 0 and part % 3 == 0) for part, count in enumerate(sent)]
    steady = at_limit(Parts(sent, passed, passed, FLAT))
    assert steady.share_ratio > 0.9


def test_frames_that_wait_in_a_device_that_stands_still_are_no_rate() -> None:
    """Nothing comes out in half of the parts, and everything at the end: it did not forward that meanwhile."""
    arrived = [100] * 50 + [0] * 49 + [100]
    latency: list[int | None] = [*[20_000] * 50, *[None] * 49, 40 * MS]
    steady = at_limit(Parts([100] * 100, [100] * 100, arrived, latency))
    assert steady.loss_ratio > 0.9


def test_a_bucket_behind_a_bottleneck_counts_from_where_its_credit_is_used_up() -> None:
    """The bottleneck loses frames from the beginning on, and its ring stands full all the time."""
    arrived = [300, 340, 320] * 8 + [100, 64, 128, 108] * 19
    steady = at_limit(through(420, arrived, [20_000] + [700_000] * 99, arrived))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(100 * 100, rel=0.01)


def test_a_stall_at_the_end_is_no_slower_device() -> None:
    """Three parts without a frame: the rate is that of the time before, too."""
    arrived = [100, 90, 110, 100] * 24 + [100] + [0] * 3
    steady = at_limit(through(200, arrived, [20_000] + [700_000] * 99, arrived))
    assert steady.share_ratio > 0.9


@pytest.mark.parametrize("lossy", [{7}, {7, 51, 93}, set(range(0, 100, 9))])
def test_stray_losses_are_no_end_of_a_burst(lossy: set[int]) -> None:
    """A frame here and there: the loss is that of the whole trial."""
    passed = [99 if part in lossy else 100 for part in range(100)]
    steady = at_limit(through(100, passed, FLAT, passed))
    assert steady.share_ratio > 0.9


def test_either_direction_at_its_limit_is_the_trials_limit() -> None:
    """Two directions of 100 frames per part, one of which loses half."""
    halved = [50] * 100
    steady = at_limit(through(100, [100] * 100, FLAT), through(100, halved, FLAT, halved))
    assert steady.loss_ratio == pytest.approx(0.25)


def test_an_agent_that_counts_no_parts_tells_nothing() -> None:
    """As one of an older version."""
    assert find_steady([Parts((), (), (), ())]) is None
    assert find_steady([Parts([1] * 100, [1] * 100, (), ())]) is None
