"""The part of a trial at the device's limit: queues and bursts in its hundredths."""

import pytest

from iolab.results.search import Steady
from iolab.trial.search.steady import Parts, find_steady

MS = 1_000_000
FLAT = [20_000] * 100


def through(sent: int, arrived: list[int], least_ns: list[int], received: list[int] | None = None) -> Parts:
    """Return a direction with equally many frames sent in each part."""
    return Parts([sent] * 100, [sent] * 100 if received is None else received, arrived, least_ns)


def at_limit(*directions: Parts) -> Steady:
    """Return the part of a trial at the device's limit, which must exist."""
    steady = find_steady(directions)
    assert steady is not None
    return steady


def test_trial_without_loss_or_growing_latency_has_no_steady_part() -> None:
    """Check arrivals in the part of sending, at constant latency."""
    assert find_steady([through(100, [100] * 100, FLAT)]) is None


def test_drain_rate_of_a_queue_is_measured_while_the_queue_fills() -> None:
    """Check 100 frames in and 90 out per part: 10 % sustained loss."""
    growing = [20_000 + part * MS for part in range(100)]
    steady = at_limit(through(100, [90] * 100, growing))
    assert steady.share_ratio > 0.9
    assert steady.loss_ratio == pytest.approx(0.1)


def test_rate_of_a_full_queue_is_measured_by_the_frames_that_left_the_queue() -> None:
    """Exclude frames that it holds at the end."""
    received = [100] * 30 + [50] * 70
    latency = [20_000 + min(30, part) * MS for part in range(100)]
    steady = at_limit(through(100, [50] * 100, latency, received))
    assert steady.loss_ratio == pytest.approx(0.5)


def test_used_up_burst_is_excluded_from_the_rate() -> None:
    """Check a token bucket: 40 parts without loss, then 30 % loss, all without delay."""
    passed = [100] * 40 + [70] * 60
    steady = at_limit(through(100, passed, FLAT, passed))
    assert steady.loss_ratio == pytest.approx(0.3)
    assert 0.55 < steady.share_ratio <= 0.6


def test_burst_used_up_at_the_end_requires_a_longer_trial() -> None:
    """Return no rate for four parts of a hundred."""
    passed = [100] * 96 + [70] * 4
    steady = at_limit(through(100, passed, FLAT, passed))
    assert steady.share_ratio == 0


def test_credit_saved_during_a_sender_stall_is_excluded_from_the_rate() -> None:
    """Pass ten parts whole after ten parts without sending."""
    sent = [100] * 60 + [0] * 10 + [100] * 30
    passed = [100] * 30 + [50] * 30 + [0] * 10 + [100] * 10 + [50] * 20
    steady = at_limit(Parts(sent, passed, passed, FLAT))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(50 * 100)
    assert steady.loss_ratio == pytest.approx(0.5)


def test_frames_released_together_when_the_limit_is_reached_are_excluded_from_the_rate() -> None:
    """Simulate a shaper timer that stalls its CPU for two parts."""
    arrived = [102] * 15 + [60, 0, 240] + [64, 136] * 41
    least = [7_000] * 16 + [None] + [250_000 + part * 20_000 for part in range(83)]
    steady = at_limit(Parts([102] * 100, [102] * 100, arrived, least))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(100 * 100, rel=0.001)


@pytest.mark.parametrize("begin", range(4))
def test_frames_released_by_a_timer_are_counted_at_whatever_point_the_trial_ends(begin: int) -> None:
    """Release 64 frames each 1.28 parts; the last parts vary."""
    arrived = [64 * int((part + begin / 4) % 1.28 < 1) for part in range(100)]
    least = [7_000] * 10 + [250_000 + part * 20_000 for part in range(90)]
    steady = at_limit(Parts([60] * 100, [60] * 100, arrived, least))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(50 * 100, rel=0.004)


def test_parts_of_a_trial_after_a_stall_are_counted_if_they_have_no_stray_loss() -> None:
    """Lose a frame in every third part."""
    sent = [100] * 40 + [0] * 5 + [100] * 55
    passed = [count - (count > 0 and part % 3 == 0) for part, count in enumerate(sent)]
    steady = at_limit(Parts(sent, passed, passed, FLAT))
    assert steady.share_ratio > 0.9


def test_frames_held_in_a_stalled_device_do_not_count_as_forwarded() -> None:
    """Hold all frames for half of the parts, and release them at the end."""
    arrived = [100] * 50 + [0] * 49 + [100]
    latency: list[int | None] = [*[20_000] * 50, *[None] * 49, 40 * MS]
    steady = at_limit(Parts([100] * 100, [100] * 100, arrived, latency))
    assert steady.loss_ratio > 0.9


def test_token_bucket_behind_a_bottleneck_is_measured_after_its_credit_is_used_up() -> None:
    """Simulate losses in a bottleneck from the beginning, with a full ring."""
    arrived = [300, 340, 320] * 8 + [100, 64, 128, 108] * 19
    steady = at_limit(through(420, arrived, [20_000] + [700_000] * 99, arrived))
    assert steady.forwarded_frames / steady.share_ratio == pytest.approx(100 * 100, rel=0.01)


def test_stall_at_the_end_does_not_lower_the_rate() -> None:
    """Use the earlier time for three parts without a frame."""
    arrived = [100, 90, 110, 100] * 24 + [100] + [0] * 3
    steady = at_limit(through(200, arrived, [20_000] + [700_000] * 99, arrived))
    assert steady.share_ratio > 0.9


@pytest.mark.parametrize("lossy", [{7}, {7, 51, 93}, set(range(0, 100, 9))])
def test_stray_losses_do_not_end_a_burst(lossy: set[int]) -> None:
    """Use the loss of the whole trial."""
    passed = [99 if part in lossy else 100 for part in range(100)]
    steady = at_limit(through(100, passed, FLAT, passed))
    assert steady.share_ratio > 0.9


def test_trial_is_at_its_limit_if_either_direction_is_at_its_limit() -> None:
    """Check two directions, one of which loses half."""
    halved = [50] * 100
    steady = at_limit(through(100, [100] * 100, FLAT), through(100, halved, FLAT, halved))
    assert steady.loss_ratio == pytest.approx(0.25)


def test_agent_without_per_part_counts_gives_no_steady_part() -> None:
    """Accept an agent of an older version."""
    assert find_steady([Parts((), (), (), ())]) is None
    assert find_steady([Parts([1] * 100, [1] * 100, (), ())]) is None
