"""What a watch saw, as figures, series and warnings."""

from dataclasses import replace

import pytest
from tests.unit.trial.instruments.on_wire import EVEN, STARTED, Frame, packed, point, watched_points
from tests.wording import in_words

from iolab.agent.watch import Packed, WatchedPoint, WatchStolen
from iolab.experiment.model.instruments import Watch
from iolab.messages.capture_warnings import WatchBeforeQueue, WatchDisagrees, WatchLost, WatchUnstamped
from iolab.messages.capture_warnings import WatchStolen as Stolen
from iolab.results.dimensions import Dimensions
from iolab.results.metric import Metrics
from iolab.results.series import Over
from iolab.trial.instruments.instrument import Seen
from iolab.trial.instruments.watched import Point, watched

WINDOW_NS = 12_000
THERE = Dimensions(direction="near.eth0->far.eth0")


def looked_at(
    seen: WatchedPoint, frames: tuple[Frame, ...] = EVEN, flows: tuple[tuple[Frame, ...], ...] = ()
) -> Seen:
    """Return what a point with windows of 12 us and 1 ms comes to."""

    def read(_: int, windows: int, flow: int | None) -> Packed:
        return (
            packed(frames, (WINDOW_NS, 1_000_000)[windows])
            if flow is None
            else packed(flows[flow], WINDOW_NS)
        )

    return watched(Watch(at="near.eth0"), (Point(THERE),), watched_points(seen), STARTED, read)


def test_evenly_spaced_frames_have_the_figures_of_their_spacing() -> None:
    """One window of ten has a frame, and no train is longer than one."""
    seen = looked_at(point(EVEN, (WINDOW_NS, 1_000_000)))
    figures = Metrics(seen.metrics)
    of_windows = replace(THERE, window_ns=WINDOW_NS)

    def figure(name: str, of: Dimensions) -> float:
        found = figures.get(name, of)
        assert found is not None, name
        return found.value

    assert figure("watched_bytes", THERE) == 100 * 1514
    assert figure("window_rate_max_bps", of_windows) == pytest.approx(1514 * 8e9 / WINDOW_NS)
    assert figure("window_rate_p50_bps", of_windows) == 0
    assert figure("idle_ratio", of_windows) == pytest.approx(0.9, abs=0.01)
    assert figure("dispersion_index", of_windows) == pytest.approx(0.9, abs=0.01)
    assert figure("train_frames_max", THERE) == 1
    assert figure("gap_p50_ns", THERE) == pytest.approx(120_000, rel=0.01)
    assert figure("burst_bytes", replace(THERE, rate_bps=10**9)) == 1514
    assert seen.warnings == ()


def test_windows_are_series_whose_points_are_those_that_carried_something() -> None:
    """Each point is a window with a frame, at its begin; they sum up to all bytes."""
    series = {
        (each.name, each.dimensions): each for each in looked_at(point(EVEN, (WINDOW_NS, 1_000_000))).series
    }
    fine = series["window_bytes", replace(THERE, window_ns=WINDOW_NS)]
    assert (len(fine.at_ns), fine.values.sum(), fine.over) == (100, 100 * 1514, Over.WINDOWS)
    assert fine.at_ns[0] == 1_000_000 // WINDOW_NS * WINDOW_NS
    coarse = series["window_frames", replace(THERE, window_ns=1_000_000)]
    assert coarse.values.sum() == 100
    assert series["gaps_by_ns", THERE].values.sum() == 99


def test_flows_that_take_turns_are_fair_over_longer_windows_only() -> None:
    """Two flows that send every other frame share a long window, and no short one."""
    turns = (EVEN[::2], EVEN[1::2])
    seen = looked_at(point(EVEN, (WINDOW_NS, 1_000_000), turns), EVEN, turns)
    fairness = {
        metric.dimensions.window_ns: metric.value
        for metric in seen.metrics
        if metric.name == "window_fairness_index"
    }
    assert fairness[WINDOW_NS] == pytest.approx(0.5)
    assert fairness[WINDOW_NS * 100] > 0.95


@pytest.mark.parametrize(
    ("octets", "frames", "agree"),
    [(151_400, 100, True), (151_400 - 14 * 100, 100, True), (151_400 - 14 * 3, 100, True),
     (151_400 - 15, 100, False), (151_400 - 14 * 101, 100, False), (151_400 + 14, 100, False),
     (151_400 - 14 * 100, 99, False)],
)  # fmt: skip
def test_counters_may_leave_out_the_ethernet_header_of_frames(octets: int, frames: int, agree: bool) -> None:
    """A veth with NAPI counts packets of the stack without it, and frames of XDP with it."""
    plain = point(EVEN, (WINDOW_NS, 1_000_000))
    counted = replace(
        plain.counted, least_bytes=octets, most_bytes=octets, least_frames=frames, most_frames=frames
    )
    assert (looked_at(replace(plain, counted=counted)).warnings == ()) is agree


def test_windows_that_differ_from_the_counters_are_told_and_super_frames_are_no_difference() -> None:
    """The interface may count super-frames as one or as many; nothing else is right."""
    plain = point(EVEN, (WINDOW_NS, 1_000_000))
    joined = replace(plain, added_bytes=5_000, added_frames=80)
    counted = replace(plain.counted, least_bytes=146_400, most_bytes=146_400, least_frames=20, most_frames=20)
    assert looked_at(replace(joined, counted=counted)).warnings == ()
    assert looked_at(joined).warnings == ()
    (warning,) = looked_at(replace(plain, counted=replace(counted, least_bytes=1, most_bytes=1))).warnings
    assert isinstance(warning, WatchDisagrees)


def test_what_is_in_no_window_and_what_is_seen_before_a_shaper_is_told() -> None:
    """A figure that is not of the wire has a warning."""
    lost = replace(point(EVEN, (WINDOW_NS, 1_000_000)), lost_frames=3)
    codes = {warning.code for warning in looked_at(lost).warnings}
    assert WatchLost.code in codes
    found = watched_points(point((), (WINDOW_NS,)))
    seen = watched(
        Watch(at="near.eth0"), (Point(THERE, before_queue=True),), found, STARTED, lambda *_: Packed(b"", 6)
    )
    assert [type(warning) for warning in seen.warnings] == [WatchBeforeQueue]
    assert seen.metrics == seen.series == ()


def test_times_of_another_cpu_are_told_where_they_are_more_than_a_few() -> None:
    """Frames without the kernel's stamp are in windows of when another CPU looked at them."""
    seen = point(EVEN, (WINDOW_NS,))
    assert looked_at(replace(seen, unstamped_frames=0)).warnings == ()
    (warning,) = looked_at(replace(seen, unstamped_frames=2)).warnings
    assert isinstance(warning, WatchUnstamped)
    assert (warning.frames, warning.of_frames) == (2, len(EVEN))


def test_windows_of_stolen_time_are_marked() -> None:
    """A tenth of the time was stolen from."""
    stolen = WatchStolen(begin_ns=1_000_000, end_ns=2_188_000, steal_ns=10_000)
    found = replace(watched_points(point(EVEN, (WINDOW_NS, 1_000_000))), stolen=(stolen,))

    def read(_: int, windows: int, flow: int | None) -> Packed:
        del flow
        return packed(EVEN, (WINDOW_NS, 1_000_000)[windows])

    seen = watched(Watch(at="near.eth0"), (Point(THERE),), found, STARTED, read)
    (share,) = [each.value for each in seen.metrics if each.name == "stolen_windows_ratio"]
    assert share == pytest.approx(0.1)
    assert "watch-stolen" in {warning.code for warning in seen.warnings}
    (marked,) = [each for each in seen.series if each.name == "stolen_ratio"]
    assert marked.values.max() > 0


def test_a_little_stolen_time_is_not_said_to_be_none() -> None:
    """Whole percent from one half on, else one digit."""
    said = [in_words(Stolen(at="far.eth0", stolen_ratio=ratio)) for ratio in (0.0, 0.0004, 0.3)]
    shares = [text.partition("(")[2].partition(" of")[0] for text in said]
    assert shares == ["0 %", "0.04 %", "30 %"]
