"""Packet trials on real namespaces: known devices, every way of forwarding, and input that cannot work."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, Measured, answers, packets_of

from iolab.messages.places import AtDevice, AtPort, PlainPlace
from iolab.results.packets import PacketTrial
from iolab.results.trial import Status
from iolab.results.verdict import Limit
from iolab.store.read import load_run
from iolab.store.records import TrialRecord
from iolab.trial.counters.drops import RING_FULL, RULE

pytestmark = pytest.mark.netns

LAB = """
title: Packets
lab:
  machines:
    tester: {kind: netns}
    dut: {kind: netns, forward: FORWARD}
  links:
    west: {ends: [tester.p0, dut.eth0]}
    east: {ends: [tester.p1, dut.eth1]}
measure:
  it: {MEASURE, from: tester.p0, to: tester.p1}
blocks: BLOCKS
"""


Trial = tuple[TrialRecord, PacketTrial]
"""A trial's record and the load trials behind it."""


def experiment(measure: str, forward: str = "bridge", blocks: int = 1) -> str:
    """Return an experiment with one measure."""
    return LAB.replace("FORWARD", forward).replace("MEASURE", measure).replace("BLOCKS", str(blocks))


def trials(folder: Path) -> list[Trial]:
    """Return the trials of a run."""
    return [(record, packets_of(folder, record)) for record in load_run(folder).trials]


@pytest.fixture
def trial(measured: Measured) -> Callable[..., Trial]:
    """Measure once through a device; return the trial."""

    def run(measure: str, forward: str = "bridge") -> Trial:
        (found,) = trials(measured(experiment(measure, forward)))
        return found

    return run


@pytest.mark.parametrize("forward", ["bridge", "route", "xdp"])
@pytest.mark.parametrize("direction", ["one-way", pytest.param("both-ways", marks=pytest.mark.full)])
def test_every_way_of_forwarding_passes_every_frame_of_a_low_load(
    measured: Measured, forward: str, direction: str
) -> None:
    """2000 frames/s in each direction arrive, with a latency; on a calm host the balance closes to the frame."""
    measure = (
        f"kind: latency, rate: 2kpps, duration: 500ms, frame_size: imix, flows: 10, direction: {direction}"
    )
    for record, packets in trials(measured(experiment(measure, forward, blocks=3))):
        metrics = {metric.name: metric.value for metric in record.result.metrics if metric.dimensions.whole}
        (load,) = packets.load_trials
        assert len(load.balances) == (2 if direction == "both-ways" else 1)
        for sheet in load.balances:
            named = sum(drop.frames for drop in sheet.drops) + sheet.unexplained_frames
            assert sheet.offered_frames == sheet.forwarded_frames + named
            if not load.result.perturbations:
                assert sheet.unexplained_frames == 0
                assert sheet.forwarded_frames > 990
        assert 0 < metrics["latency_min_ns"] <= metrics["latency_p50_ns"] <= metrics["latency_max_ns"]


@pytest.mark.full
def test_several_senders_are_one_stream_through_queues_of_their_own(
    trial: Callable[..., Trial], tmp_path: Path
) -> None:
    """Its balance closes to the frame; each of the far end's two queues has its thread."""
    measure = "kind: latency, rate: 20kpps, duration: 500ms, flows: 10, senders: 2, path: af_xdp"
    record, packets = trial(measure, "bridge")
    (load,) = packets.load_trials
    (answer,) = answers(tmp_path / "runs", record)
    (sheet,), (sent,), (received,) = load.balances, answer["senders"], answer["receivers"]
    named = sum(drop.frames for drop in sheet.drops) + sheet.unexplained_frames
    assert sheet.offered_frames == sheet.forwarded_frames + named
    assert len(sent["further_threads"]) == 1
    assert sent["intended_frames"] == 10_000
    assert received["reordered_frames"] + received["duplicate_frames"] == 0 or load.result.perturbations
    assert sum(thread.role == "generator" for thread in load.threads) == 2
    assert sum(thread.place == "dut.eth0" for thread in load.threads) == 2


@pytest.mark.full
def test_the_path_of_a_search_is_compared_and_told(trial: Callable[..., Trial]) -> None:
    """Which one it is depends on the host; both were tried where both work, and the report says why."""
    measure = "kind: forwarding, search: fast, loss_ratio: 0.01, limit: 3s, max_burst: 64, latency_at: []"
    _, packets = trial(measure, "xdp, device: {rate: 20kpps}")
    choice, (sending,) = packets.path_choice, [port for port in packets.ports if port.half == "send"]
    assert choice is not None
    assert [one.path for one in choice.tried] == ["af_xdp", "bpf_live"]
    assert sending.path == {"af_xdp": "AF_XDP copy", "bpf_live": "BPF live frames"}[choice.path]
    assert choice.reasons


def test_the_capacity_of_a_token_bucket_is_found(trial: Callable[..., Trial]) -> None:
    """50 000 frames/s, ruled by a device that drops everything above it; its drops are named. With one loss in a
    thousand as the goal half a second tells, which a busy host disturbs more seldom."""
    measure = "kind: forwarding, width: 1%, loss_ratio: 0.1%, limit: 40s, latency_at: []"
    record, packets = trial(measure, "xdp, device: {rate: 50kpps, burst: 64}")
    assert record.result.status is Status.OK, record.result.reason
    reasons = {
        (drop.place, drop.reason)
        for load in packets.load_trials
        for sheet in load.balances
        for drop in sheet.drops
    }
    assert (AtDevice(port="dut.eth0"), RULE) in reasons
    if "search-partial" in {warning.code for warning in record.result.warnings}:
        pytest.skip("the host was too busy for a search of 40 s")
    assert record.result.metrics["forwarded_fps"].value == pytest.approx(50_000, rel=0.01)


@pytest.mark.full
def test_the_loss_of_a_device_is_measured(trial: Callable[..., Trial]) -> None:
    """Every tenth frame that reaches it is dropped, and stated as the device's."""
    measure = "kind: latency, rate: 5kpps, duration: 1s"
    _, packets = trial(measure, "xdp, device: {lose_every: 10}")
    (sheet,) = packets.load_trials[0].balances
    drops = {(drop.place, drop.reason): drop.frames for drop in sheet.drops}
    reached = (
        sheet.offered_frames
        - drops.get((AtPort(port="dut.eth0"), RING_FULL), 0)
        - min(0, sheet.unexplained_frames)
    )
    assert drops[AtDevice(port="dut.eth0"), RULE] == pytest.approx(reached / 10, abs=1)


def test_a_device_that_delays_frames_is_measured(trial: Callable[..., Trial]) -> None:
    """No frame is earlier than 3 ms, and the median is not much later; all arrive."""
    measure = "kind: latency, rate: 2kpps, duration: 500ms"
    record, packets = trial(measure, "xdp, device: {delay: 3ms}")
    assert record.result.status is Status.OK, record.result.reason
    assert record.result.metrics["latency_min_ns"].value >= 3_000_000
    if not packets.load_trials[0].result.perturbations:
        assert record.result.metrics["latency_p50_ns"].value < 3_500_000
        assert record.result.metrics["loss_ratio"].value == 0


@pytest.mark.full
def test_a_device_that_stands_still_shows_in_the_highest_latency(trial: Callable[..., Trial]) -> None:
    """20 ms in every 100: frames that come in it wait for its end, so the highest latency is its length."""
    measure = "kind: latency, rate: 2kpps, duration: 500ms"
    device = "xdp, device: {stall: {length: 20ms, every: 100ms}}"
    record, packets = trial(measure, device)
    assert record.result.status is Status.OK, record.result.reason
    assert record.result.metrics["latency_max_ns"].value > 19_000_000
    if not packets.load_trials[0].result.perturbations:
        assert record.result.metrics["latency_p50_ns"].value < 1_000_000


@pytest.mark.full
def test_a_random_loss_is_within_its_99_percent_interval(trial: Callable[..., Trial]) -> None:
    """1 % of about 10 000 frames that reached the device."""
    measure = "kind: latency, rate: 20kpps, duration: 500ms"
    _, packets = trial(measure, "xdp, device: {loss: 1%, seed: 7}")
    (sheet,) = packets.load_trials[0].balances
    ruled = sum(drop.frames for drop in sheet.drops if drop.reason == RULE)
    reached = sheet.forwarded_frames + ruled
    assert abs(ruled - 0.01 * reached) < 2.5758 * (reached * 0.01 * 0.99) ** 0.5


def test_the_kernels_reasons_for_drops_are_in_the_samples(measured: Measured) -> None:
    """A bridge that is offered far more than it forwards drops packets, and the kernel says why."""
    measure = "kind: latency, rate: 2Mpps, duration: 200ms"
    folder = measured(experiment(measure))
    ((_, packets),) = trials(folder)
    (load,) = packets.load_trials
    facts = json.loads((folder / "facts.json").read_text())
    if not facts["features"].get("trace:drop-reasons"):
        pytest.skip("this kernel does not tell why it drops packets")
    full = sum(drop.frames for sheet in load.balances for drop in sheet.drops
               if drop.place != PlainPlace(code="receiver"))  # fmt: skip
    assert sum(load.drop_reasons.values()) >= full


@pytest.mark.parametrize("qdisc", ["tbf", "htb"])
def test_a_shaper_of_the_lab_is_what_limited_the_load_above_its_rate(measured: Measured, qdisc: str) -> None:
    """20 000 frames/s of 60 bytes are let through of 60 000: its counters show it, wherever the others were lost."""
    measure = "kind: latency, rate: 60kpps, duration: 500ms, frame_size: 64"
    shape = f"shape: {{at: dut.eth1, qdisc: {qdisc}, rate: 9600kbit}}"
    east = "ends: [tester.p1, dut.eth1]"
    ((_, packets),) = trials(measured(experiment(measure).replace(east, f"{east}, {shape}")))
    (load,) = packets.load_trials
    assert (load.verdict.limit, load.verdict.place) == (Limit.SHAPER, AtPort(port="dut.eth1")), (
        load.verdict.seen
    )
    assert load.shapers[0].rates_bps == (9_600_000,)


def test_an_ordinary_user_sends_and_receives_frames_too(measured_by_user: Measured) -> None:
    """By AF_PACKET where a program may not be loaded, and the report says so; every frame is accounted for."""
    folder = measured_by_user(experiment("kind: latency, rate: 2kpps, duration: 500ms"))
    ((record, packets),) = trials(folder)
    assert record.result.status is Status.OK, record.result.reason
    (received,) = [port for port in packets.ports if port.half == "receive"]
    assert received.path.startswith("AF_PACKET")
    assert received.fallbacks
    (load,) = packets.load_trials
    assert load.result.forwarded_frames > 900 or load.result.perturbations


@pytest.mark.full
@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("kind: latency, rate: 200kpps, line_rate: 100Mbit", "at most 148810 frames/s"),
        ("kind: latency, rate: 50%", "add the key line_rate"),
        ("kind: latency, rate: 2kpps, frame_size: 4000", "at most 1518 bytes"),
        ("kind: forwarding, loss_ratio: 0", "a `loss_ratio` above 0, because `search: fast`"),
        ("kind: latency, rate: 100", "did you mean 100pps?"),
    ],
)
def test_loads_that_cannot_be_are_refused_before_anything_is_made(
    iolab: Iolab, tmp_path: Path, measure: str, words: str
) -> None:
    """Exit code 2, what is allowed, no traceback; `unchanged_host` sees that nothing was made."""
    (tmp_path / "x.yaml").write_text(experiment(measure))
    done = iolab("run", "x.yaml")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()
