"""Packet trials on real namespaces: known devices, every forwarding mode, and invalid input."""

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
def test_every_forwarding_mode_passes_every_frame_of_a_low_load(
    measured: Measured, forward: str, direction: str
) -> None:
    """Send 2000 frames/s each way; require an exact balance on an idle host."""
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
def test_several_senders_send_one_stream_through_separate_queues(
    trial: Callable[..., Trial], tmp_path: Path
) -> None:
    """Require an exact balance, and a thread per queue at the far end."""
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
def test_sending_paths_are_compared_and_the_choice_is_reported(trial: Callable[..., Trial]) -> None:
    """Check both paths where both work, whichever is chosen."""
    measure = "kind: forwarding, search: fast, loss_ratio: 0.01, limit: 3s, max_burst: 64, latency_at: []"
    _, packets = trial(measure, "xdp, device: {rate: 20kpps}")
    choice, (sending,) = packets.path_choice, [port for port in packets.ports if port.half == "send"]
    assert choice is not None
    assert [one.path for one in choice.tried] == ["af_xdp", "bpf_live"]
    assert sending.path == {"af_xdp": "AF_XDP copy", "bpf_live": "BPF live frames"}[choice.path]
    assert choice.reasons


def test_search_finds_the_capacity_of_a_token_bucket(trial: Callable[..., Trial]) -> None:
    """Check 50 000 frames/s with a policing device; its drops are named."""
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
def test_loss_in_a_reference_device_is_measured(trial: Callable[..., Trial]) -> None:
    """Drop every tenth frame, and name the device."""
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


def test_delay_of_a_reference_device_is_measured(trial: Callable[..., Trial]) -> None:
    """Expect no frame before 3 ms, a close median, and no loss."""
    measure = "kind: latency, rate: 2kpps, duration: 500ms"
    record, packets = trial(measure, "xdp, device: {delay: 3ms}")
    assert record.result.status is Status.OK, record.result.reason
    assert record.result.metrics["latency_min_ns"].value >= 3_000_000
    if not packets.load_trials[0].result.perturbations:
        assert record.result.metrics["latency_p50_ns"].value < 3_500_000
        assert record.result.metrics["loss_ratio"].value == 0


@pytest.mark.full
def test_stall_of_a_reference_device_appears_in_the_maximum_latency(trial: Callable[..., Trial]) -> None:
    """Stall 20 ms in every 100."""
    measure = "kind: latency, rate: 2kpps, duration: 500ms"
    device = "xdp, device: {stall: {length: 20ms, every: 100ms}}"
    record, packets = trial(measure, device)
    assert record.result.status is Status.OK, record.result.reason
    assert record.result.metrics["latency_max_ns"].value > 19_000_000
    if not packets.load_trials[0].result.perturbations:
        assert record.result.metrics["latency_p50_ns"].value < 1_000_000


@pytest.mark.full
def test_random_loss_is_within_its_99_percent_interval(trial: Callable[..., Trial]) -> None:
    """Drop 1 % of about 10 000 frames."""
    measure = "kind: latency, rate: 20kpps, duration: 500ms"
    _, packets = trial(measure, "xdp, device: {loss: 1%, seed: 7}")
    (sheet,) = packets.load_trials[0].balances
    ruled = sum(drop.frames for drop in sheet.drops if drop.reason == RULE)
    reached = sheet.forwarded_frames + ruled
    assert abs(ruled - 0.01 * reached) < 2.5758 * (reached * 0.01 * 0.99) ** 0.5


def test_kernel_drop_reasons_are_stored_in_the_samples(measured: Measured) -> None:
    """Overload a bridge."""
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
def test_lab_shaper_is_reported_as_the_limit_of_a_load_above_its_rate(measured: Measured, qdisc: str) -> None:
    """Pass 20 000 of 60 000 frames/s of 60 bytes."""
    measure = "kind: latency, rate: 60kpps, duration: 500ms, frame_size: 64"
    shape = f"shape: {{at: dut.eth1, qdisc: {qdisc}, rate: 9600kbit}}"
    east = "ends: [tester.p1, dut.eth1]"
    ((_, packets),) = trials(measured(experiment(measure).replace(east, f"{east}, {shape}")))
    (load,) = packets.load_trials
    assert (load.verdict.limit, load.verdict.place) == (Limit.SHAPER, AtPort(port="dut.eth1")), (
        load.verdict.seen
    )
    assert load.shapers[0].rates_bps == (9_600_000,)


def test_ordinary_user_sends_and_receives_test_frames(measured_by_user: Measured) -> None:
    """Use AF_PACKET if no program may be loaded, and report it."""
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
def test_impossible_load_is_refused_before_anything_is_created(
    iolab: Iolab, tmp_path: Path, measure: str, words: str
) -> None:
    """Exit with code 2 and the allowed values, without a traceback."""
    (tmp_path / "x.yaml").write_text(experiment(measure))
    done = iolab("run", "x.yaml")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()
