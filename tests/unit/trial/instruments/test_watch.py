"""Watch points, requests to agents, and the figures, series and warnings of a watch."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_agent.agent import FakeAgent
from tests.unit.trial.instruments.on_wire import EVEN, STARTED, Frame, packed, point, watched_points
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.agent.messages import WatchedPoint, WatchStolen
from iolab.agent.traffic import Packed
from iolab.errors import TrialFailed
from iolab.experiment import parse
from iolab.experiment.experiment import Lab
from iolab.experiment.factors.resolve import Resolver
from iolab.experiment.model.instruments import Watch
from iolab.lab.topology import make_topology
from iolab.messages.instrument_warnings import WatchBeforeQueue, WatchDisagrees, WatchLost, WatchUnstamped
from iolab.messages.instrument_warnings import WatchStolen as Stolen
from iolab.results.metric import Dimensions, Metrics
from iolab.results.series import Over
from iolab.trial.instruments.instrument import Seen
from iolab.trial.instruments.watch import WireWatch, points_of, train_gap_ns
from iolab.trial.instruments.watched import Point, unpack, watched

FILE = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}, idle: {kind: netns}}
  links:
    pair: {ends: [near.p0, far.p0], shape: {at: near.p0, qdisc: tbf, rate: 1Mbit, burst: 8K, limit: 9K}}
    lan: {ends: [near.p1, far.p1, idle.p1], shape: {at: near.p1, qdisc: tbf, rate: 1Mbit, burst: 8K, limit: 9K}}
measure: {tcp: {kind: stream, from: near.p0, to: far.p0}}
"""


@pytest.fixture(scope="module")
def lab() -> Lab:
    """Return two namespaces with a veth pair, and a bridge of three."""
    experiment = parse(FILE, "lab.yaml")
    return Resolver(experiment).setup({}).lab


def looks(lab: Lab, at: str) -> list[tuple[str, str, str, bool]]:
    """Return direction, port, hook of each point, and whether it is before a shaper."""
    return [
        (each.point.about.direction or "", str(each.port.ref), each.hook, each.point.before_queue)
        for each in points_of(lab, make_topology(lab), at)
    ]


@pytest.mark.parametrize("at", ["pair", "near.p0", "far.p0"])
def test_ports_of_a_veth_pair_are_watched_on_arrival(lab: Lab, at: str) -> None:
    """Watch after the sender's shaper, where all paths have joined."""
    assert looks(lab, at) == [
        ("near.p0->far.p0", "far.p0", "ingress", False),
        ("far.p0->near.p0", "near.p0", "ingress", False),
    ]


def test_bridge_port_is_watched_in_both_directions_with_egress_marked_as_before_its_shaper(lab: Lab) -> None:
    """Watch frames before they are queued, because the far end is no port of the lab."""
    assert looks(lab, "near.p1") == [
        ("->near.p1", "near.p1", "ingress", False),
        ("near.p1->", "near.p1", "egress", True),
    ]
    assert len(looks(lab, "lan")) == 6


@pytest.mark.parametrize(
    ("link", "entering"),
    [("shape: {at: near.p0, qdisc: pacer, rate: 1Mbit}", []), ("wire: {delay: 1ms}", ["near.p0->"])],
)
def test_paced_and_emulated_links_are_watched_like_a_veth_pair(link: str, entering: list[str]) -> None:
    """Watch the entry of a path, too."""
    text = FILE.replace("shape: {at: near.p0, qdisc: tbf, rate: 1Mbit, burst: 8K, limit: 9K}", link)
    lab = Resolver(parse(text, "lab.yaml")).setup({}).lab
    seen = looks(lab, "near.p0")
    assert [one[0] for one in seen] == ["near.p0->far.p0", "far.p0->near.p0", *entering]
    assert not any(before_queue for *_, before_queue in seen)


def test_maximum_gap_within_a_train_is_one_and_a_half_frame_times(lab: Lab) -> None:
    """Use line and MTU; consecutive long frames begin one frame time apart."""
    assert train_gap_ns(Watch(at="pair", line=10**7)) == 1_845_600
    assert train_gap_ns(Watch(at="pair", line=10**9), 9000) == 108_456
    assert train_gap_ns(Watch(at="pair", line=10**12)) == 1_000
    assert train_gap_ns(Watch(at="pair")) == 5_000
    assert train_gap_ns(Watch.model_validate({"at": "pair", "train_gap": "7ns"})) == 7


def test_stopped_watch_leaves_no_program_running(lab: Lab) -> None:
    """Check the agent's state."""
    fake = FakeAgent()
    agent = Agent(fake)
    watch = WireWatch(
        lambda _: agent, Watch(at="pair", line=10**9), points_of(lab, make_topology(lab), "pair")
    )
    watch.start()
    (asked,) = fake.watches.running.values()
    assert [point["netns"] for point in asked["points"]] == ["iolab-far", "iolab-near"]
    seen = watch.stop()
    assert (seen.metrics, seen.warnings, fake.watches.running) == ((), (), {})
    watch.start()
    watch.abandon()
    assert fake.watches.running == {}


def test_watch_that_ended_early_fails_the_trial_with_its_reason(lab: Lab) -> None:
    """Give no result without requested figures."""
    fake = FakeAgent()
    agent = Agent(fake)
    watch = WireWatch(lambda _: agent, Watch(at="pair"), points_of(lab, make_topology(lab), "pair"))
    watch.start()
    fake.watches.running.clear()
    with pytest.raises(TrialFailed, match="there is no watch"):
        watch.stop()


WINDOW_NS = 12_000
THERE = Dimensions(direction="near.eth0->far.eth0")


def looked_at(
    seen: WatchedPoint, frames: tuple[Frame, ...] = EVEN, flows: tuple[tuple[Frame, ...], ...] = ()
) -> Seen:
    """Return the result of a point with windows of 12 us and 1 ms."""

    def read(_: int, windows: int, flow: int | None) -> Packed:
        return (
            packed(frames, (WINDOW_NS, 1_000_000)[windows])
            if flow is None
            else packed(flows[flow], WINDOW_NS)
        )

    return watched(Watch(at="near.eth0"), (Point(THERE),), watched_points(seen), STARTED, read)


def test_figures_of_evenly_spaced_frames_match_their_spacing() -> None:
    """Expect a frame in one of ten windows, and trains of one frame."""
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


def test_watch_series_contain_only_windows_with_frames() -> None:
    """Place a point at a window's beginning; they add up to all bytes."""
    series = {
        (each.name, each.dimensions): each for each in looked_at(point(EVEN, (WINDOW_NS, 1_000_000))).series
    }
    fine = series["window_bytes", replace(THERE, window_ns=WINDOW_NS)]
    assert (len(fine.at_ns), fine.values.sum(), fine.over) == (100, 100 * 1514, Over.WINDOWS)
    assert fine.at_ns[0] == 1_000_000 // WINDOW_NS * WINDOW_NS
    coarse = series["window_frames", replace(THERE, window_ns=1_000_000)]
    assert coarse.values.sum() == 100
    assert series["gaps_by_ns", THERE].values.sum() == 99


def test_alternating_flows_are_fair_only_over_longer_windows() -> None:
    """Check two flows that send every other frame."""
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
def test_windows_match_interface_counters_that_omit_the_ethernet_header(
    octets: int, frames: int, agree: bool
) -> None:
    """Accept a veth with NAPI, which omits it for packets of the stack."""
    plain = point(EVEN, (WINDOW_NS, 1_000_000))
    counted = replace(
        plain.counted, least_bytes=octets, most_bytes=octets, least_frames=frames, most_frames=frames
    )
    assert (looked_at(replace(plain, counted=counted)).warnings == ()) is agree


def test_windows_that_differ_from_counters_give_a_warning_except_for_super_frames() -> None:
    """Accept counters that count a super-frame as one or as many."""
    plain = point(EVEN, (WINDOW_NS, 1_000_000))
    joined = replace(plain, added_bytes=5_000, added_frames=80)
    counted = replace(plain.counted, least_bytes=146_400, most_bytes=146_400, least_frames=20, most_frames=20)
    assert looked_at(replace(joined, counted=counted)).warnings == ()
    assert looked_at(joined).warnings == ()
    (warning,) = looked_at(replace(plain, counted=replace(counted, least_bytes=1, most_bytes=1))).warnings
    assert isinstance(warning, WatchDisagrees)


def test_frames_outside_windows_or_before_a_shaper_give_a_warning() -> None:
    """Give no figure that is not of the line."""
    lost = replace(point(EVEN, (WINDOW_NS, 1_000_000)), lost_frames=3)
    codes = {warning.code for warning in looked_at(lost).warnings}
    assert WatchLost.code in codes
    found = watched_points(point((), (WINDOW_NS,)))
    seen = watched(
        Watch(at="near.eth0"), (Point(THERE, before_queue=True),), found, STARTED, lambda *_: Packed(b"", 6)
    )
    assert [type(warning) for warning in seen.warnings] == [WatchBeforeQueue]
    assert seen.metrics == seen.series == ()


def test_many_frames_without_a_kernel_timestamp_give_a_warning() -> None:
    """Accept a few, whose windows are those of a different CPU's processing time."""
    seen = point(EVEN, (WINDOW_NS,))
    assert looked_at(replace(seen, unstamped_frames=0)).warnings == ()
    (warning,) = looked_at(replace(seen, unstamped_frames=2)).warnings
    assert isinstance(warning, WatchUnstamped)
    assert (warning.frames, warning.of_frames) == (2, len(EVEN))


def test_windows_with_cpu_steal_are_marked() -> None:
    """Check a tenth of the time."""
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


def test_small_steal_share_is_not_shown_as_zero() -> None:
    """Write whole percent from one half on, otherwise one digit."""
    said = [in_words(Stolen(at="far.eth0", stolen_ratio=ratio)) for ratio in (0.0, 0.0004, 0.3)]
    shares = [text.partition("was ")[2].partition(" of")[0] for text in said]
    assert shares == ["0 %", "0.04 %", "30 %"]


WINDOWS = st.lists(
    st.tuples(st.integers(1, 1 << 30), st.integers(0, 5000), st.integers(1, 1 << 40)), min_size=0, max_size=40
)


def number(value: int) -> bytes:
    """Write a number in groups of seven bits."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value))


def packed_windows(windows: list[tuple[int, int, int]], bits: int) -> Packed:
    """Pack (step, frames, bytes) like the agent."""
    found, room = bytearray(), (1 << bits) - 1
    for step, frames, size in windows:
        full, rest = divmod(frames, room)
        for part in range(full):
            found += number((step if part == 0 else 0) << bits | room) + number(0)
        found += number((step if full == 0 else 0) << bits | rest) + number(size)
    return Packed(bytes(found), bits)


@given(WINDOWS, st.sampled_from([6, 24]))
def test_packed_windows_are_unpacked_unchanged(windows: list[tuple[int, int, int]], bits: int) -> None:
    """Draw windows at random."""
    found = unpack(packed_windows(windows, bits))
    numbers = [sum(step for step, _, _ in windows[: at + 1]) for at in range(len(windows))]
    assert found.numbers.tolist() == numbers
    assert found.frames.tolist() == [frames for _, frames, _ in windows]
    assert found.bytes.tolist() == [size for _, _, size in windows]


def test_packed_example_in_the_contract_decodes_to_one_window_with_one_frame() -> None:
    """Decode the base64 example."""
    found = unpack(Packed(base64.b64decode("gbiUkaQO6gs="), 6))
    assert (len(found.numbers), found.frames.tolist(), found.bytes.tolist()) == (1, [1], [1514])


@pytest.mark.parametrize("odd", [b"\x41", b"\x41\x80", b"\xff" * 11 + b"\x01\x01"])
def test_malformed_packed_entry_is_refused(odd: bytes) -> None:
    """Raise ValueError."""
    with pytest.raises(ValueError, match=r"number|64 bits"):
        unpack(Packed(odd, 6))
