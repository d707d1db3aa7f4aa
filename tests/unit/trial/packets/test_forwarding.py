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
    """Return everything behind the metrics."""
    assert measured.packets is not None
    return measured.packets


@pytest.mark.parametrize("search", ["fast", "mlr", "bisect"])
@pytest.mark.parametrize("capacity_fps", [100_000, 300_000])
def test_every_search_finds_a_known_capacity(search: str, capacity_fps: int) -> None:
    """Within 1 %: the width that was asked for."""
    measure = forwarding(search=search, trial="1s")
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=capacity_fps))), measure)
    assert measured.metrics["forwarded_fps"].value == pytest.approx(capacity_fps, rel=0.011)
    assert measured.metrics["unexplained_frames"].value == 0
    assert measured.metrics["balanced_ratio"].value == 1


def test_rates_are_sums_over_directions() -> None:
    """Two directions through devices of 100 kpps each are 200 kpps, and twice the bits."""
    one, both = forwarding(), forwarding(direction="both-ways")
    rates = [
        measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure).metrics
        for measure in (one, both)
    ]
    for name in ("forwarded_fps", "lower_fps", "forwarded_bps_l1", "forwarded_bps_l2"):
        assert rates[1][name].value == pytest.approx(2 * rates[0][name].value, rel=0.02)


def test_bits_are_those_of_frames_with_and_without_what_the_line_adds() -> None:
    """1518-byte frames: 1538 byte times on the line, 1518 with their checksum."""
    measure = forwarding(frame_size=1518)
    metrics = measure_forwarding(site(measure, simulated(Device(capacity_fps=50_000))), measure).metrics
    fps = metrics["forwarded_fps"].value
    assert metrics["forwarded_bps_l1"].value == pytest.approx(fps * 1538 * 8)
    assert metrics["forwarded_bps_l2"].value == pytest.approx(fps * 1518 * 8)


class Absorbing(Fast):
    """A search that ends with a sustained rate below the rate that it found."""

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return what it found, with that."""
        found = super().conclude(results)
        return replace(found, taken_up=True, sustained_fps=80_000.0, robust_fps=100_000.0, burst_frames=2000)


def test_the_sustained_rate_is_the_headline_where_a_burst_made_the_found_rate_higher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bits, both directions and the loads of latency follow from it; the other rate has a name of its own."""
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


def test_a_rate_without_a_burst_has_no_second_name() -> None:
    """It is the same one."""
    measure = forwarding()
    metrics = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure).metrics
    assert metrics.get("with_burst_fps") is None
    assert metrics.get("ci_low_fps") is not None


def test_a_sustained_rate_is_no_lower_bound_of_the_generator() -> None:
    """The device was seen at its limit; where others had its CPUs it is one all the same."""
    found = Found(
        lower_fps=99e3, upper_fps=None, robust_fps=1e5, method="", strict_fps=None, trials=1, perturbed_trials=0,
        spent_ns=1, reason=StopReason.TIME, seen=PlainSearchEnd(code="trials-wanted"),
        taken_up=True, sustained_fps=8e4,
    )  # fmt: skip
    assert (limited_by(found, []), found_limit(found, [])) == ("", "time")
    assert limited_by(replace(found, taken_up=False), []) == "time"


def test_latency_is_measured_at_the_shares_that_were_asked_for() -> None:
    """Idle, half and nine tenths; the raw samples say at which load."""
    measure = forwarding(latency_at=[0, "50%", "90%"])
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e5))), measure)
    packets = packets_of(measured)
    rate = packets.rate_fps or 0
    loads = {each.share_ratio: each.intended_fps for each in packets.load_trials if each.purpose == "at-rate"}
    assert loads == {0.0: 1000, 0.5: pytest.approx(rate / 2), 0.9: pytest.approx(rate * 0.9)}
    assert at_load(measured.metrics, "latency_p99_ns", 0.5).value == 20_000
    assert Quantity("latency_p50_ns", Dimensions(load_ratio=0.1)) not in measured.metrics


def test_a_device_faster_than_the_line_is_told_as_limited_by_the_line() -> None:
    """100 Mbit/s carry 148 810 frames of 64 bytes; the device could do a million."""
    measure = forwarding(line_rate="100Mbit")
    measured = measure_forwarding(site(measure, simulated(Device(capacity_fps=1e6))), measure)
    assert "line-limited" in {warning.code for warning in measured.warnings}
    assert measured.metrics["forwarded_fps"].value == pytest.approx(148_810, rel=0.01)
    assert {metric.name for metric in measured.metrics if metric.limited_by == "line"} == {
        "forwarded_fps", "forwarded_strict_fps", "forwarded_per_direction_fps", "forwarded_bps_l1", "forwarded_bps_l2",
    }  # fmt: skip


def test_a_generator_that_is_too_slow_is_told() -> None:
    """It sends 200 kpps at most, and the device forwards them all."""
    measure = forwarding()
    device = Device(capacity_fps=1e6, generator_fps=2e5)
    measured = measure_forwarding(site(measure, simulated(device)), measure)
    assert "generator-limited" in {warning.code for warning in measured.warnings}
    assert measured.metrics["forwarded_fps"].limited_by == "generator"
    assert at_load(measured.metrics, "latency_p50_ns", 0.5).limited_by == ""
    limits = {each.verdict.limit for each in packets_of(measured).load_trials}
    assert limits <= {"generator", "none"}


def test_a_device_that_loses_at_any_load_is_a_result_and_not_a_failure() -> None:
    """1 % is lost always: 0 frames/s, with the lowest load that was tried."""
    measure = forwarding(limit="300s")
    measured = measure_forwarding(
        site(measure, simulated(Device(capacity_fps=1e5, loss_ratio=0.01))), measure
    )
    assert measured.metrics["forwarded_fps"].value == 0
    assert "nothing-passed" in {warning.code for warning in measured.warnings}
    assert not any(metric.name.startswith("latency") for metric in measured.metrics)


def test_what_the_host_disturbed_is_told_and_does_not_decide() -> None:
    """Stalls of 5 ms, once per 5 s: the rate is that of the device, and the strict figure is no higher."""
    measure = forwarding()
    device = Device(capacity_fps=2e5, stalls_per_s=0.2)
    measured = measure_forwarding(site(measure, simulated(device, seed=6)), measure)
    metrics = measured.metrics
    assert metrics["forwarded_fps"].value == pytest.approx(2e5, rel=0.01)
    assert metrics["forwarded_strict_fps"].value <= metrics["forwarded_fps"].value * 1.01


def test_the_balance_of_every_load_trial_closes_and_the_answers_are_plain_json() -> None:
    """Offered = forwarded + named drops, the drops at the device's ring."""
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


def test_ports_that_cannot_be_opened_fail_the_trial_with_the_agents_words() -> None:
    """The reason names the interface; no set of ports is left open."""
    measure = forwarding()
    standing = site(measure, simulated(Device(capacity_fps=1e5)), broken="p1")
    for _ in range(2):
        with pytest.raises(TrialFailed, match="interface p1 is down"):
            measure_forwarding(standing, measure)


def test_a_next_hop_that_shows_no_address_fails_the_trial_and_leaves_no_ports_open() -> None:
    """The next trial fails for the same reason, and not because ports are open."""
    measure = forwarding()
    standing = site(measure, simulated(Device(capacity_fps=1e5)), forward="route")
    for _ in range(2):
        with pytest.raises(TrialFailed, match=r"address-not-shown: port=dut\.eth0"):
            measure_forwarding(standing, measure)


def test_a_load_curve_shows_loss_where_the_device_is_full() -> None:
    """None at half of the rate, a sixth at 120 %."""
    measure = LoadCurve.model_validate({"kind": "load-curve", **ENDS, "rate": "100kpps", "trial": "1s"})
    measured = measure_load_curve(site(measure, simulated(Device(capacity_fps=1e5))), measure)
    assert at_load(measured.metrics, "loss_ratio", 0.5).value == 0
    assert at_load(measured.metrics, "loss_ratio", 1.2).value == pytest.approx(1 / 6, rel=0.02)
    assert at_load(measured.metrics, "offered_fps", 1.2).value == pytest.approx(120_000)
    assert measured.metrics["forwarded_fps"].value == pytest.approx(100_000, rel=0.01)
    assert measured.metrics["forwarded_fps"].limited_by == ""


def test_the_highest_rate_of_a_load_curve_that_loses_nothing_is_a_lower_bound() -> None:
    """Its steps end where the device does not: what was asked for was the limit, or the generator."""
    measure = LoadCurve.model_validate({"kind": "load-curve", **ENDS, "rate": "100kpps", "trial": "1s"})
    for device, limit in (
        (Device(capacity_fps=1e6), "load"),
        (Device(capacity_fps=1e6, generator_fps=1.1e5), "generator"),
    ):
        measured = measure_load_curve(site(measure, simulated(device)), measure)
        assert measured.metrics["forwarded_fps"].limited_by == limit


def test_a_rate_that_the_receiver_limited_is_a_lower_bound() -> None:
    """By the verdicts of the loads that failed closest to it; a search without a rate has nothing to mark."""
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


def test_a_load_curve_without_a_rate_finds_it_first() -> None:
    """100 % is the highest rate within the acceptable loss."""
    measure = LoadCurve.model_validate({"kind": "load-curve", **ENDS, "steps": ["50%", "100%"]})
    measured = measure_load_curve(site(measure, simulated(Device(capacity_fps=80_000))), measure)
    assert measured.metrics["rate_fps"].value == pytest.approx(80_000, rel=0.011)
    assert [each.share_ratio for each in packets_of(measured).load_trials if each.purpose == "curve"] == [
        0.5,
        1.0,
    ]


def test_latency_at_a_rate() -> None:
    """Every frame of the simulated device takes 20 us."""
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
def test_a_load_that_was_not_offered_as_asked_for_is_told(passed: Passed, codes: set[str]) -> None:
    """Whoever held the sender up, the figures are those of another load, and a tail may be the instrument's."""
    measure = Latency.model_validate({"kind": "latency", **ENDS, "rate": "20kpps", "duration": "1s"})
    measured = measure_latency(site(measure, lambda _fps, _ns: passed), measure)
    told = {warning.code: in_words(warning) for warning in measured.warnings}
    assert {"load-short", "latency-disturbed"} & told.keys() == codes
    if "load-short" in codes:
        assert "offered 13000 frames/s, intended 20000 frames/s" in told["load-short"]
