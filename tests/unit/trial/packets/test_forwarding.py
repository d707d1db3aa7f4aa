"""Forwarding, load curve and latency on a fake agent whose devices are simulated: known capacity, noise, stalls."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.fake_agent.traffic import Passed
from tests.unit.trial.load_trials import ENDS, simulated, site
from tests.wording import in_words

from iolab.experiment.model.packets import Forwarding, Latency, LoadCurve
from iolab.messages.places import AtPort
from iolab.messages.searches import PlainSearchEnd
from iolab.messages.warnings import QueueTookUp
from iolab.results.metric import Dimensions, Metric, Metrics, Quantity
from iolab.results.packets import PacketTrial
from iolab.results.search import Found, LoadResult, StopReason
from iolab.results.verdict import Limit, Verdict
from iolab.store.codec import decode_packets, encode_packets
from iolab.trial.measurement import Measured, TrialFailed
from iolab.trial.packets.forwarding import found_limit, limited_by, measure_forwarding
from iolab.trial.packets.load import LoadBench
from iolab.trial.packets.load_curve import measure_latency, measure_load_curve
from iolab.trial.search.fast import Fast
from iolab.trial.search.simulated import Device
from iolab.trial.search.types import LoadTrial


def forwarding(**keys: object) -> Forwarding:
    """Return a measure with short trials."""
    return Forwarding.model_validate({"kind": "forwarding", **ENDS, "trial": "200ms", **keys})


def at_load(metrics: Metrics, name: str, load_ratio: float) -> Metric:
    """Return a metric at one load of several."""
    found = metrics.get(name, Dimensions(load_ratio=load_ratio))
    assert found is not None
    return found


def packets_of(measured: Measured) -> PacketTrial:
    """Return the samples behind the metrics."""
    assert measured.packets is not None
    return measured.packets


@pytest.mark.parametrize("search", ["fast", "mlr", "bisect"])
@pytest.mark.parametrize("capacity_fps", [100_000, 300_000])
def test_every_search_finds_a_known_capacity_within_1_percent(search: str, capacity_fps: int) -> None:
    """Use the width of the search."""
    measure = forwarding(search=search, trial="1s")
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=capacity_fps))), measure)
    assert measured.metrics["forwarded_fps"].value == pytest.approx(capacity_fps, rel=0.011)
    assert measured.metrics["unexplained_frames"].value == 0
    assert measured.metrics["balanced_ratio"].value == 1


def test_rates_are_sums_over_directions() -> None:
    """Add two directions through devices of 100 kpps each."""
    one, both = forwarding(), forwarding(direction="both-ways")
    rates = [
        measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure).metrics
        for measure in (one, both)
    ]
    for name in ("forwarded_fps", "lower_fps", "forwarded_bps_l1", "forwarded_bps_l2"):
        assert rates[1][name].value == pytest.approx(2 * rates[0][name].value, rel=0.02)


def test_bit_rates_are_computed_with_and_without_the_line_overhead() -> None:
    """Check 1518-byte frames: 1538 byte times on the line."""
    measure = forwarding(frame_size=1518)
    metrics = measure_forwarding(site(measure, simulated(Device(capacity_fps=50_000))), measure).metrics
    fps = metrics["forwarded_fps"].value
    assert metrics["forwarded_bps_l1"].value == pytest.approx(fps * 1538 * 8)
    assert metrics["forwarded_bps_l2"].value == pytest.approx(fps * 1518 * 8)


class Absorbing(Fast):
    """A search that ends with a sustained rate below the found rate."""

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return the result with that sustained rate."""
        found = super().conclude(results)
        return replace(found, taken_up=True, sustained_fps=80_000.0, robust_fps=100_000.0, burst_frames=2000)


def test_sustained_rate_is_reported_as_the_rate_if_a_burst_raised_the_found_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Derive bits, directions and latency loads from it; store the found rate separately."""
    measure = forwarding(latency_at=["50%"], direction="both-ways")
    monkeypatch.setattr("iolab.trial.search.fast.Fast", Absorbing)
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure)
    found = {metric.name: metric.value for metric in measured.metrics if not metric.dimensions.known()}
    assert (found["forwarded_fps"], found["sustained_fps"], found["with_burst_fps"]) == (160e3, 160e3, 200e3)
    assert found["forwarded_per_direction_fps"] == 80e3
    assert found["forwarded_bps_l2"] == pytest.approx(160e3 * 64 * 8)
    assert found["forwarded_strict_fps"] <= 160e3
    assert not {"ci_low_fps", "ci_high_fps", "lower_fps", "upper_fps", "conditional_fps"} & set(found)
    assert QueueTookUp(sustained_fps=160e3, burst_frames=4000) in measured.warnings
    packets = packets_of(measured)
    assert packets.rate_fps == 160e3
    assert {one.intended_fps for one in packets.load_trials if one.purpose == "at-rate"} == {80e3}


def test_rate_with_burst_is_not_a_separate_metric_unless_a_burst_raised_the_rate() -> None:
    """Avoid two equal metrics."""
    measure = forwarding()
    metrics = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure).metrics
    assert metrics.get("with_burst_fps") is None
    assert metrics.get("ci_low_fps") is not None


def test_sustained_rate_is_not_a_lower_bound_of_the_generator() -> None:
    """Mark it as a lower bound only under interference."""
    found = Found(
        lower_fps=99e3, upper_fps=None, robust_fps=1e5, method="", strict_fps=None, trials=1, perturbed_trials=0,
        spent_ns=1, reason=StopReason.TIME, seen=PlainSearchEnd(code="trials-wanted"),
        taken_up=True, sustained_fps=8e4,
    )  # fmt: skip
    assert (limited_by(found, []), found_limit(found, [])) == ("", "time")
    assert limited_by(replace(found, taken_up=False), []) == "time"


def test_latency_is_measured_at_the_requested_load_ratios() -> None:
    """Check idle, half and nine tenths; the samples state the load."""
    measure = forwarding(latency_at=[0, "50%", "90%"])
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure)
    packets = packets_of(measured)
    rate = packets.rate_fps or 0
    loads = {each.share_ratio: each.intended_fps for each in packets.load_trials if each.purpose == "at-rate"}
    assert loads == {0.0: 1000, 0.5: pytest.approx(rate / 2), 0.9: pytest.approx(rate * 0.9)}
    assert at_load(measured.metrics, "latency_p99_ns", 0.5).value == 20_000
    assert Quantity("latency_p50_ns", Dimensions(load_ratio=0.1)) not in measured.metrics


def test_device_faster_than_the_line_is_limited_by_the_line() -> None:
    """Expect 148 810 frames/s of 64 bytes at 100 Mbit/s, of a device of a million."""
    measure = forwarding(line_rate="100Mbit")
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e6))), measure)
    assert "line-limited" in {warning.code for warning in measured.warnings}
    assert measured.metrics["forwarded_fps"].value == pytest.approx(148_810, rel=0.01)
    assert {metric.name for metric in measured.metrics if metric.limited_by == "line"} == {
        "forwarded_fps", "forwarded_strict_fps", "forwarded_per_direction_fps", "forwarded_bps_l1", "forwarded_bps_l2",
    }  # fmt: skip


def test_generator_limited_rate_is_a_lower_bound() -> None:
    """Check 200 kpps, all of which the device forwards."""
    measure = forwarding()
    device = Device(capacity_fps=1e6, generator_fps=2e5)
    measured = measure_forwarding(site(measure, simulated(device)), measure)
    assert "generator-limited" in {warning.code for warning in measured.warnings}
    assert measured.metrics["forwarded_fps"].limited_by == "generator"
    assert at_load(measured.metrics, "latency_p50_ns", 0.5).limited_by == ""
    limits = {each.verdict.limit for each in packets_of(measured).load_trials}
    assert limits <= {"generator", "none"}


def test_device_that_always_loses_frames_has_rate_zero_and_a_warning() -> None:
    """Return 0 frames/s with the lowest tried load for 1 % constant loss."""
    measure = forwarding(limit="300s")
    measured = measure_forwarding(
        site(measure, simulated(Device(capacity_fps=1e5, loss_ratio=0.01))), measure
    )
    assert measured.metrics["forwarded_fps"].value == 0
    assert "nothing-passed" in {warning.code for warning in measured.warnings}
    assert not any(metric.name.startswith("latency") for metric in measured.metrics)


def test_host_stalls_do_not_change_the_found_rate() -> None:
    """Simulate stalls of 5 ms, once per 5 s; the strict rate is no higher."""
    measure = forwarding()
    device = Device(capacity_fps=2e5, stalls_per_s=0.2)
    measured = measure_forwarding(site(measure, simulated(device, seed=6)), measure)
    metrics = measured.metrics
    assert metrics["forwarded_fps"].value == pytest.approx(2e5, rel=0.01)
    assert metrics["forwarded_strict_fps"].value <= metrics["forwarded_fps"].value * 1.01


def test_balance_of_every_load_trial_adds_up_and_samples_survive_json() -> None:
    """Name the drops at the device's ring."""
    measure = forwarding()
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure)
    packets = packets_of(measured)
    assert len(json.loads(json.dumps(measured.raw, allow_nan=False))["load_trials"]) == len(
        packets.load_trials
    )
    drops = [drop for each in packets.load_trials for sheet in each.balances for drop in sheet.drops]
    for sheet in (sheet for each in packets.load_trials for sheet in each.balances):
        dropped = sum(drop.frames for drop in sheet.drops)
        assert sheet.offered_frames == sheet.forwarded_frames + dropped + sheet.unexplained_frames
    assert {drop.place for drop in drops if drop.frames} == {AtPort(port="dut.eth0")}
    assert packets.search is not None
    searched = [each for each in packets.load_trials if each.purpose == "search"]
    assert packets.search.found.trials == len(searched)
    assert decode_packets(encode_packets(packets)) == packets, "the disk loses nothing of it"


def test_port_that_cannot_be_opened_fails_the_trial_with_the_agents_message() -> None:
    """Leave no port set open."""
    measure = forwarding()
    standing = site(measure, simulated(Device(capacity_fps=1e5)), broken="p1")
    for _ in range(2):
        with pytest.raises(TrialFailed, match="interface p1 is down"):
            measure_forwarding(standing, measure)


def test_missing_next_hop_address_fails_the_trial_and_closes_the_ports() -> None:
    """Let the next trial fail for the same reason."""
    measure = forwarding()
    standing = site(measure, simulated(Device(capacity_fps=1e5)), forward="route")
    for _ in range(2):
        with pytest.raises(TrialFailed, match=r"address-not-shown: port=dut\.eth0"):
            measure_forwarding(standing, measure)


def test_load_curve_shows_loss_above_the_devices_capacity() -> None:
    """Expect none at half of the rate, a sixth at 120 %."""
    measure = LoadCurve.model_validate({"kind": "load-curve", **ENDS, "rate": "100kpps", "trial": "1s"})
    measured = measure_load_curve(site(measure, simulated(Device(capacity_fps=1e5))), measure)
    assert at_load(measured.metrics, "loss_ratio", 0.5).value == 0
    assert at_load(measured.metrics, "loss_ratio", 1.2).value == pytest.approx(1 / 6, rel=0.02)
    assert at_load(measured.metrics, "offered_fps", 1.2).value == pytest.approx(120_000)
    assert measured.metrics["forwarded_fps"].value == pytest.approx(100_000, rel=0.01)
    assert measured.metrics["forwarded_fps"].limited_by == ""


def test_load_curve_without_loss_gives_a_lower_bound() -> None:
    """Name the last step or the generator as the limit."""
    measure = LoadCurve.model_validate({"kind": "load-curve", **ENDS, "rate": "100kpps", "trial": "1s"})
    for device, limit in (
        (Device(capacity_fps=1e6), "load"),
        (Device(capacity_fps=1e6, generator_fps=1.1e5), "generator"),
    ):
        measured = measure_load_curve(site(measure, simulated(device)), measure)
        assert measured.metrics["forwarded_fps"].limited_by == limit


def test_receiver_limited_rate_is_a_lower_bound() -> None:
    """Use the verdicts of the closest failed loads; mark nothing without a rate."""
    measure = forwarding()
    with LoadBench(site(measure, simulated(Device(capacity_fps=1e5))), measure, 1e-3) as bench:
        record = bench.run(LoadTrial(intended_fps=101_000, duration_ns=10**9), "search")
    found = Found(
        lower_fps=99e3, upper_fps=101e3, robust_fps=1e5, method="", strict_fps=None, trials=1, perturbed_trials=0,
        spent_ns=1, reason=StopReason.NARROW, seen=PlainSearchEnd(code="trials-wanted"),
    )  # fmt: skip
    by_receiver = replace(record, verdict=Verdict(Limit.RECEIVER))
    by_device = replace(record, verdict=Verdict(Limit.HOP))
    assert limited_by(found, [by_receiver]) == "receiver"
    assert limited_by(found, [by_receiver, by_device]) == ""
    assert limited_by(replace(found, robust_fps=None), [by_receiver]) == ""
    assert limited_by(replace(found, reason=StopReason.TIME, upper_fps=None), []) == "time"


def test_load_curve_without_a_configured_rate_searches_for_the_rate_first() -> None:
    """Define 100 % as the highest rate within the acceptable loss."""
    measure = LoadCurve.model_validate({"kind": "load-curve", **ENDS, "steps": ["50%", "100%"]})
    measured = measure_load_curve(site(measure, simulated(Device(capacity_fps=80_000))), measure)
    assert measured.metrics["rate_fps"].value == pytest.approx(80_000, rel=0.011)
    assert [each.share_ratio for each in packets_of(measured).load_trials if each.purpose == "curve"] == [
        0.5,
        1.0,
    ]


def test_latency_measure_reports_the_latency_at_its_rate() -> None:
    """Expect 20 us of the simulated device."""
    measure = Latency.model_validate(
        {"kind": "latency", **ENDS, "rate": "50%", "line_rate": "10Mbit", "duration": "1s"}
    )
    measured = measure_latency(site(measure, simulated(Device(capacity_fps=1e5))), measure)
    assert measured.metrics["latency_p50_ns"].value == 20_000
    assert measured.metrics["offered_fps"].value == pytest.approx(7440, abs=1)


@pytest.mark.parametrize(
    ("passed", "codes"),
    [
        (Passed(20_000, 19_990, 19_990, held_ns=500_000), set()),
        (Passed(20_000, 13_000, 13_000, held_ns=350_000_000), {"load-short", "latency-disturbed"}),
        (Passed(20_000, 13_000, 13_000), {"load-short"}),
        (Passed(20_000, 20_000, 20_000, held_ns=15_000_000), {"latency-disturbed"}),
    ],
)
def test_load_offered_below_the_intended_rate_gives_a_warning(passed: Passed, codes: set[str]) -> None:
    """Warn, whoever caused it: the figures belong to a different load."""
    measure = Latency.model_validate({"kind": "latency", **ENDS, "rate": "20kpps", "duration": "1s"})
    measured = measure_latency(site(measure, lambda _fps, _ns: passed), measure)
    told = {warning.code: in_words(warning) for warning in measured.warnings}
    assert {"load-short", "latency-disturbed"} & told.keys() == codes
    if "load-short" in codes:
        assert "offered 13000 frames/s, intended 20000 frames/s" in told["load-short"]
