"""Round trips: requests to the programs at both ends, and their reports as metrics."""

import json
from pathlib import Path

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.measures import Ping, RequestResponse
from iolab.lab.packets.placement import stream_way
from iolab.lab.topology import Endpoint, make_topology
from iolab.messages.programs import (
    OneRequestEach,
    RequestsLate,
    RequestsUnsent,
    RoundTripParts,
    TransactionsReached,
)
from iolab.results.encoding import Malformed
from iolab.results.metric import Metrics
from iolab.results.verdict import Limit
from iolab.trial.round_trips.figures import (
    ping_metrics,
    ping_warnings,
    transaction_metrics,
    transaction_warnings,
    trip_series,
)
from iolab.trial.round_trips.requests import ProbesReport, TransactionsReport, parse_report, requests_of
from iolab.trial.round_trips.verdict import judge, judge_echoes

CONTRACT = Path(__file__).parents[4] / "contract" / "roundtrip-v1.md"
NEAR = Endpoint("near", "eth0", "iolab-near", "eth0", "198.18.0.1", 24)
FAR = Endpoint("far", "eth0", "iolab-far", "eth0", "198.18.0.2", 24)
EXAMPLES = [
    text.partition("```")[0].strip() for text in CONTRACT.read_text(encoding="utf-8").split("```json\n")[1:]
]
SERVE, ASK, DONE, PROBE, SEEN = EXAMPLES
LAB = """
title: Round trips
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
measure:
"""
MISTAKES = {
    "  it: {kind: ping, from: near}": "to",
    "  it: {kind: ping, from: near, to: near}": "as both ends of the measure",
    "  it: {kind: ping, from: near, to: far, size: 8}": "24",
    "  it: {kind: rr, from: near, to: far, connections: 0}": "1",
    "  it: {kind: rr, from: near, to: far, protocol: udp, request: 10}": "24 to 65507 bytes over UDP",
    "  it: {kind: rr, from: near, to: far, protocol: udp, connect_each: true}": "protocol: tcp",
    "  it: {kind: rr, from: near, to: far, per_second: 0}": "1",
}


def rr(**keys: object) -> RequestResponse:
    """Return a measure of transactions of a second."""
    return RequestResponse.model_validate(
        {"kind": "rr", "from": "near", "to": "far", "duration": "1s", **keys}
    )


def ping(**keys: object) -> Ping:
    """Return a measure of echoes of a second."""
    return Ping.model_validate({"kind": "ping", "from": "near", "to": "far", "duration": "1s", **keys})


def changed(example: str, **fields: object) -> str:
    """Return an example of the contract with other values."""
    return json.dumps({**json.loads(example), **fields})


@pytest.mark.parametrize(("measure", "said"), MISTAKES.items())
def test_invalid_round_trip_measure_is_refused_with_the_allowed_values(measure: str, said: str) -> None:
    """Refuse it before the run."""
    with pytest.raises(InputError) as caught:
        parse(LAB + measure, "round-trips.yaml")
    assert said in str(caught.value)
    assert "round-trips.yaml:10" in str(caught.value)


def test_requests_to_both_ends_match_the_contract_examples() -> None:
    """Compare what is sent with its examples."""
    serve, ask = requests_of(rr(), NEAR, FAR)
    assert (json.loads(serve or ""), json.loads(ask)) == (json.loads(SERVE), json.loads(ASK))
    serve, ask = requests_of(ping(port=1), NEAR, FAR)
    assert (serve, json.loads(ask)) == (None, {**json.loads(PROBE), "port": 1})


def test_udp_echo_needs_a_server_that_echoes_the_request() -> None:
    """Let the kernel answer ICMP."""
    serve, _ = requests_of(ping(protocol="udp", size=100), NEAR, FAR)
    asked = json.loads(serve or "")
    assert (asked["protocol"], asked["response_bytes"], asked["threads"]) == ("udp", 0, 1)


def test_offered_load_is_divided_among_connections() -> None:
    """Expect a request every ten milliseconds on ten connections at a thousand per second."""
    _, ask = requests_of(rr(connections=10, per_second=1000), NEAR, FAR)
    assert json.loads(ask)["interval_ns"] == 10_000_000


def test_concurrent_round_trip_measures_get_different_ports() -> None:
    """Start a server for each."""
    text = (
        LAB + "  a: {kind: rr, from: near, to: far}\n  b: {kind: ping, protocol: udp, from: near, to: far}\n"
    )
    measures = Resolver(parse(text + "  c: {kind: together, of: [a, b]}", "x.yaml")).setup({}).measures
    assert [getattr(measures[name], "port", None) for name in "ab"] == [5801, 5802]


def test_round_trip_report_becomes_metrics() -> None:
    """Divide by the reported time; use quantiles of the histogram."""
    report = parse_report(TransactionsReport, f"ready\n{DONE}\n")
    found = Metrics(transaction_metrics(rr(), report))
    assert (found["transactions_per_s"].value, found["transaction_p50_ns"].value) == (2.0, 20.0)
    assert (found["transaction_max_ns"].value, found["transaction_mean_ns"].value) == (21.0, 20.5)
    assert found["round_trips_per_min"].value == pytest.approx(60e9 / 20.5)
    assert "loss_ratio" not in found
    echoes = Metrics(ping_metrics(parse_report(ProbesReport, SEEN)))
    assert (echoes["rtt_p99_9_ns"].value, echoes["loss_ratio"].value) == (21.0, 0.0)


def test_slice_without_an_answer_has_no_latency_and_rate_0() -> None:
    """Distinguish an unmeasured value from a zero rate."""
    slices = [{"count": 2, "sum_ns": 40, "max_ns": 30}, {"count": 0, "sum_ns": 0, "max_ns": 0}]
    report = parse_report(ProbesReport, changed(SEEN, slices=slices))
    mean, most, rate = trip_series("rtt", report, 1000, "roundtrip")
    assert (mean.name, list(mean.values), list(mean.at_ns)) == ("rtt_mean_ns", [20.0], [100_001_000])
    assert list(most.values) == [30.0]
    assert (rate.name, list(rate.values)) == ("rtts_per_s", [20.0, 0.0])


def test_loss_ratio_is_lost_datagrams_over_all_requests() -> None:
    """Check two answered and two lost requests."""
    report = parse_report(TransactionsReport, changed(DONE, lost=2))
    assert Metrics(transaction_metrics(rr(protocol="udp"), report))["loss_ratio"].value == 0.5


@pytest.mark.parametrize(
    "text", ["", "ready", "{}", DONE.replace('"lost":0,', ""), DONE.replace("2", "-2", 1)]
)
def test_malformed_round_trip_report_is_refused(text: str) -> None:
    """Name the error."""
    with pytest.raises(Malformed):
        parse_report(TransactionsReport, text)


def test_stalled_end_gives_a_warning() -> None:
    """Use unsent requests, or the lateness of sent ones."""
    (unsent,) = transaction_warnings(rr(), parse_report(TransactionsReport, changed(DONE, unsent=2)))
    assert unsent == RequestsUnsent(machine="near", unsent=2, intended=4)
    late = {
        "count": 2,
        "above": 0,
        "sum": 1_200_000,
        "min": 600_000,
        "max": 600_000,
        "buckets": [[598_016, 2]],
    }
    found = ping_warnings(ping(), parse_report(ProbesReport, changed(SEEN, lateness_ns=late)))
    assert [type(one) for one in found] == [RequestsLate]
    assert ping_warnings(ping(), parse_report(ProbesReport, SEEN)) == ()


def test_completed_offered_load_is_the_limit_and_without_one_the_limit_is_waiting() -> None:
    """Require that no thread and no CPU is known to be busy."""
    report = parse_report(TransactionsReport, DONE)
    asked = judge(rr(per_second=2), report, {}, {})
    assert asked is not None
    assert (asked.limit, asked.seen) == (
        Limit.RATE, (TransactionsReached(done_per_s=2.0, intended_per_s=2.0),)
    )  # fmt: skip
    free = judge(rr(connections=3), report, {}, {})
    assert free is not None
    assert (free.limit, free.seen) == (Limit.WAITING, (OneRequestEach(connections=3, mean_ns=20.5),))


def test_median_round_trip_is_split_into_emulated_delays_and_the_rest() -> None:
    """Check 10 ms and 20 ms on one link, and 1 ms each way on another."""
    text = """
lab:
  machines: {a: {kind: netns}, r: {kind: netns, forward: route}, b: {kind: netns}}
  links:
    w: {ends: [a.eth0, r.eth0], wire: {sent_by: {a.eth0: {delay: 10ms}, r.eth0: {delay: 20ms}}}}
    v: {ends: [r.eth1, b.eth0], wire: {delay: 1ms}}
measure: {it: {kind: ping, from: a, to: b}}
"""
    experiment = parse(text, "lab.yaml")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    topology = make_topology(setup.lab)
    ends = topology.endpoint("a", towards="b"), topology.endpoint("b", towards="a")
    there_and_back = [stream_way(setup.lab, topology, *pair) for pair in (ends, ends[::-1])]
    measure = setup.measures["it"]
    assert isinstance(measure, Ping)
    found = judge_echoes(measure, parse_report(ProbesReport, SEEN), there_and_back, setup.lab)
    assert found is not None
    (parts,) = found.seen
    assert isinstance(parts, RoundTripParts)
    assert (found.limit, parts.delay_ns) == (Limit.RATE, 32_000_000)
    held_up = parse_report(ProbesReport, changed(SEEN, unsent=1000))
    assert judge_echoes(measure, held_up, there_and_back, setup.lab) is None
