"""Frames that left a wire late: how many of a trial's, and when that is said."""

import pytest
from tests.unit.trial.zeros import zeros
from tests.wording import in_words

from iolab.agent.messages import WayCounts, WireCarried, WireCounts
from iolab.trial.instruments.instrument import Seen
from iolab.trial.instruments.wires import WireLink, draw_seed, late_frames

LINK = WireLink("path", ("near.eth0", "far.eth0"), "host")
SEED_OF_ONES = 11_810_302_107_289_535_746
"""Of experiment, block and link's seed 1, and a link called path."""
PACED = WireLink("path", ("near.eth0", "far.eth0"), "host", paced=True)


def seen(link: WireLink, late: int, very_late: int = 0) -> Seen:
    """Return what is said of 100 000 frames there after others before the trial, of which all were late."""
    before = zeros(
        WireCounts,
        ways=(zeros(WayCounts, left_frames=500, late_frames=500, very_late_frames=500), zeros(WayCounts)),
    )
    there = zeros(WayCounts, left_frames=100_500, late_frames=500 + late, very_late_frames=500 + very_late)
    return late_frames((link,), {"path": before}, {"path": zeros(WireCounts, ways=(there, zeros(WayCounts)))})


def test_late_frames_are_counted_for_each_way_that_carried_some() -> None:
    """Those before the trial do not count, and the way back carried nothing."""
    found = seen(LINK, 250, 10)
    assert [(one.name, one.dimensions.direction, one.value) for one in found.metrics] == [
        ("wire_late_frames", "near.eth0->far.eth0", 250.0),
        ("wire_late_ratio", "near.eth0->far.eth0", 0.0025),
        ("wire_spared_frames", "near.eth0->far.eth0", 0.0),
    ]
    assert found.warnings == ()


@pytest.mark.parametrize(("link", "late", "very_late"), [(LINK, 1001, 0), (LINK, 101, 101), (PACED, 1, 0)])
def test_a_wire_that_was_held_up_is_said(link: WireLink, late: int, very_late: int) -> None:
    """From 1 % on that left over 100 us late or 0.1 % over 1 ms; of a pacer each one."""
    (warning,) = seen(link, late, very_late).warnings
    assert warning.code == "wire-late"
    assert in_words(warning) == (
        f"emulated link path sent {late} of 100000 frames more than 100 µs late (near.eth0->far.eth0), and {very_late} "
        "of them more than 1 ms late. Delay, rate and gaps include effects of the host"
    )


def test_a_pacer_without_late_frames_is_not_marked() -> None:
    """Nor are 1 % of a wire's."""
    assert seen(PACED, 0).warnings == ()
    assert seen(LINK, 1000, 100).warnings == ()


@pytest.mark.parametrize(("slipped_ms", "said"), [(10, False), (11, True)])
def test_what_a_pacer_lost_of_its_rate_is_a_figure_and_said_above_a_hundredth(
    slipped_ms: int, said: bool
) -> None:
    """Of a second of its line, sent and lost; those before the trial do not count."""
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


def test_what_a_wire_was_to_have_and_has_not_is_said() -> None:
    """Also where nothing came through it: a priority, stamps of the kernel, veth pairs."""
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


def test_frames_that_chance_spares_are_counted() -> None:
    """Of the trial alone: those before it do not count."""
    before = zeros(WireCounts, ways=(zeros(WayCounts, left_frames=5, spared_frames=4), zeros(WayCounts)))
    after = zeros(WireCounts, ways=(zeros(WayCounts, left_frames=50, spared_frames=7), zeros(WayCounts)))
    found = late_frames((LINK,), {"path": before}, {"path": after})
    assert [one.value for one in found.metrics if one.name == "wire_spared_frames"] == [3.0]


def test_what_a_link_draws_from_depends_on_experiment_block_link_and_its_own_seed_alone() -> None:
    """Published once, it is the same for ever; each of the four makes another."""
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


def test_a_pacer_that_falls_short_loses_as_much_of_its_rate() -> None:
    """What its line fell short by while frames waited, and what their times were shifted by."""
    before = zeros(WireCounts, ways=(zeros(WayCounts, short_ns=50, slipped_ns=5), zeros(WayCounts)))
    there = zeros(
        WayCounts, left_frames=100, paced_ns=600 * 10**6, short_ns=50 + 380 * 10**6, slipped_ns=5 + 20 * 10**6
    )
    after = zeros(WireCounts, ways=(there, zeros(WayCounts)))
    found = late_frames((PACED,), {"path": before}, {"path": after})
    assert [one.value for one in found.metrics if one.name == "pacer_lost_ratio"] == [pytest.approx(0.4)]
    assert [one.code for one in found.warnings] == ["pacer-slipped"]
