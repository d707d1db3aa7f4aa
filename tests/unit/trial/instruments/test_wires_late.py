"""Late frames of an emulated link: their number in a trial, and the warnings."""

import pytest
from tests.unit.trial.zeros import zeros
from tests.wording import in_words

from iolab.agent.messages import WayCounts, WireCarried, WireCounts
from iolab.trial.instruments.instrument import Seen
from iolab.trial.instruments.wires import WireLink, draw_seed, late_frames

LINK = WireLink("path", ("near.eth0", "far.eth0"), "host")
SEED_OF_ONES = 11_810_302_107_289_535_746
"""Seed for experiment 1, block 1, link seed 1, and a link called path."""
PACED = WireLink("path", ("near.eth0", "far.eth0"), "host", paced=True)


def seen(link: WireLink, late: int, very_late: int = 0) -> Seen:
    """Return the warnings on 100 000 frames in one direction, after late frames before the trial."""
    before = zeros(
        WireCounts,
        ways=(zeros(WayCounts, left_frames=500, late_frames=500, very_late_frames=500), zeros(WayCounts)),
    )
    there = zeros(WayCounts, left_frames=100_500, late_frames=500 + late, very_late_frames=500 + very_late)
    return late_frames((link,), {"path": before}, {"path": zeros(WireCounts, ways=(there, zeros(WayCounts)))})


def test_late_frames_are_counted_per_direction_of_an_emulated_link() -> None:
    """Exclude frames before the trial, and an unused direction."""
    found = seen(LINK, 250, 10)
    assert [(one.name, one.dimensions.direction, one.value) for one in found.metrics] == [
        ("wire_late_frames", "near.eth0->far.eth0", 250.0),
        ("wire_late_ratio", "near.eth0->far.eth0", 0.0025),
        ("wire_spared_frames", "near.eth0->far.eth0", 0.0),
    ]
    assert found.warnings == ()


@pytest.mark.parametrize(("link", "late", "very_late"), [(LINK, 1001, 0), (LINK, 101, 101), (PACED, 1, 0)])
def test_late_frames_on_an_emulated_link_give_a_warning(link: WireLink, late: int, very_late: int) -> None:
    """Warn from 1 % over 100 us, or 0.1 % over 1 ms; for a pacer, of each frame."""
    (warning,) = seen(link, late, very_late).warnings
    assert warning.code == "wire-late"
    assert in_words(warning) == (
        f"emulated link path sent {late} of 100000 frames more than 100 µs late (near.eth0->far.eth0), and {very_late} "
        "of these late frames more than 1 ms late. Delay, rate and gaps include effects of the host"
    )


def test_pacer_without_late_frames_gives_no_warning() -> None:
    """Do not apply the 1 % limit of other links."""
    assert seen(PACED, 0).warnings == ()
    assert seen(LINK, 1000, 100).warnings == ()


@pytest.mark.parametrize(("slipped_ms", "said"), [(10, False), (11, True)])
def test_rate_lost_by_a_pacer_is_a_metric_and_gives_a_warning_above_1_percent(
    slipped_ms: int, said: bool
) -> None:
    """Exclude frames before the trial."""
    before = zeros(WireCounts, ways=(zeros(WayCounts, slipped_ns=7, paced_ns=9), zeros(WayCounts)))
    slipped_ns = slipped_ms * 10**6
    there = zeros(WayCounts, left_frames=100, slipped_ns=7 + slipped_ns, paced_ns=9 + 10**9 - slipped_ns)
    found = late_frames(
        (PACED,), {"path": before}, {"path": zeros(WireCounts, ways=(there, zeros(WayCounts)))}
    )
    (lost,) = [one.value for one in found.metrics if one.name == "pacer_lost_ratio"]
    assert lost == pytest.approx(slipped_ms / 1000)
    assert [one.code for one in found.warnings] == ["pacer-slipped"] * said
    assert not said or "sent 1 % less than its rate" in in_words(found.warnings[0])


def test_missing_priority_timestamps_or_veth_of_an_emulated_link_give_warnings() -> None:
    """Warn even without frames."""
    ways = (zeros(WayCounts), zeros(WayCounts))
    carried = WireCarried(path="tap", no_veth="no rings", unstamped="no right", unprioritised="not permitted")
    after = {"path": zeros(WireCounts, ways=ways, carried=carried)}
    found = late_frames((LINK,), {"path": zeros(WireCounts, ways=ways)}, after).warnings
    assert [(one.code, "no r" in in_words(one)) for one in found] == [
        ("wire-unprioritised", False),
        ("wire-unstamped", True),
        ("wire-by-taps", True),
    ]
    assert "(not permitted)" in in_words(found[0])


def test_frames_exempt_from_random_loss_are_counted() -> None:
    """Exclude frames before the trial."""
    before = zeros(WireCounts, ways=(zeros(WayCounts, left_frames=5, spared_frames=4), zeros(WayCounts)))
    after = zeros(WireCounts, ways=(zeros(WayCounts, left_frames=50, spared_frames=7), zeros(WayCounts)))
    found = late_frames((LINK,), {"path": before}, {"path": after})
    assert [one.value for one in found.metrics if one.name == "wire_spared_frames"] == [3.0]


def test_random_seed_depends_only_on_experiment_block_link_and_configured_seed() -> None:
    """Compare with published seeds; each of the four changes the seed."""
    assert draw_seed(1, 1, "path", 1) == draw_seed(1, 1, "path", 1) == SEED_OF_ONES
    seeds = {
        draw_seed(seed, block, link, written)
        for seed in range(5)
        for block in range(1, 6)
        for link in ("path", "path 1", "1 path", "lan")
        for written in range(1, 6)
    }
    assert len(seeds) == 5 * 5 * 4 * 5
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_pacer_rate_shortfall_is_computed_from_lost_time() -> None:
    """Add the line's shortfall while frames waited, and the shift of their times."""
    before = zeros(WireCounts, ways=(zeros(WayCounts, short_ns=50, slipped_ns=5), zeros(WayCounts)))
    there = zeros(
        WayCounts, left_frames=100, paced_ns=600 * 10**6, short_ns=50 + 380 * 10**6, slipped_ns=5 + 20 * 10**6
    )
    after = zeros(WireCounts, ways=(there, zeros(WayCounts)))
    found = late_frames((PACED,), {"path": before}, {"path": after})
    assert [one.value for one in found.metrics if one.name == "pacer_lost_ratio"] == [pytest.approx(0.4)]
    assert [one.code for one in found.warnings] == ["pacer-slipped"]
