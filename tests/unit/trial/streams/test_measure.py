"""A stream trial on the fake agent, with real reports of iperf3."""

import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from tests.fake_agent.agent import FakeAgent, Outcome
from tests.fake_agent.traffic import TrafficRefusal
from tests.unit.trial.zeros import zeros

from iolab.agent.client import Agent, AgentLost
from iolab.agent.messages import Json, SocketCounters
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns, Vm
from iolab.experiment.model.measures import Stream
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import make_topology
from iolab.messages.warnings import CongestionDiffers
from iolab.report.locale import EN
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured, TrialFailed, failure_of
from iolab.trial.streams.iperf3 import place_pairs
from iolab.trial.streams.measure import conclude_stream, measure_stream

DATA = Path(__file__).parent / "data"
LAB = Lab(
    {"near": Netns(kind="netns"), "far": Netns(kind="netns")},
    {"lan": Link(ends=(PortRef("near.eth0"), PortRef("far.eth0")))},
    {},
)
TOPOLOGY = make_topology(LAB)


def stream(**keys: object) -> Stream:
    """Return a stream measure from near to far."""
    return Stream.model_validate({"kind": "stream", "from": "near", "to": "far", "duration": "2s", **keys})


def measured_by(agent: Agent, measure: Stream) -> Measured:
    """Measure on the lab of two namespaces."""
    return conclude_stream(measure_stream(Site(agent=agent, lab=LAB, topology=TOPOLOGY), measure), {})


def recorded(argv: tuple[str, ...], _netns: str | None) -> Outcome:
    """Print the recorded reports of a both-ways TCP trial."""
    role = "server" if "--server" in argv else "client"
    return Outcome(stdout=(DATA / f"tcp-both-ways-{role}.json").read_text(), duration_ns=2_000_000_000)


def test_stream_trial_gives_metrics_commands_and_raw_reports() -> None:
    """Store everything needed for a later analysis."""
    measured = measured_by(Agent(FakeAgent(programs=recorded)), stream(direction="both-ways"))
    assert measured.metrics["received_bps"].value > 1e9
    assert [record.argv[1] for record in measured.commands] == ["--server", "--client"]
    assert set(measured.raw) == {"schema", "iperf3", "before", "after"}
    assert measured.measured_ns == 2_000_000_000


def test_sender_below_the_intended_rate_gives_a_warning() -> None:
    """Check 10 Gbit/s, which the recorded sender missed."""
    measure = stream(direction="both-ways", rate="10Gbit")
    measured = measured_by(Agent(FakeAgent(programs=recorded)), measure)
    assert "sender-short" in {warning.code for warning in measured.warnings}


def test_unreadable_interface_counters_give_a_warning() -> None:
    """Report that the cross-check was impossible."""
    measured = measured_by(Agent(FakeAgent(programs=recorded)), stream(direction="both-ways"))
    assert "counters-missing" in {warning.code for warning in measured.warnings}


def test_connection_readings_dropped_by_an_agent_give_a_warning() -> None:
    """Report it, because early connections are missing in the verdict."""

    class Full(FakeAgent):
        def _series_stop(self, params: dict[str, Json]) -> Json:
            return {**super()._series_stop(params), "dropped": 3}

    measured = measured_by(Agent(Full(programs=recorded)), stream(direction="both-ways"))
    (warning,) = [one for one in measured.warnings if one.code == "connections-dropped"]
    assert warning.model_dump()["dropped"] == 3


NONSENSE: tuple[object, ...] = (
    "12", -1, -0.5, 10**400, None, True, [], {}, [[]], {"bytes": "x"}, float("inf"), float("nan"),
)  # fmt: skip


def damaged(value: object, chance: Random) -> object:
    """Return a report with one value somewhere missing or changed."""
    if isinstance(value, dict) and value:
        name = chance.choice(list(value))
        rest = {other: own for other, own in value.items() if other != name}
        return rest if chance.random() < 0.2 else {**rest, name: damaged(value[name], chance)}
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return [*value[:at], damaged(value[at], chance), *value[at + 1 :]]
    return chance.choice(NONSENSE)


def test_malformed_report_fails_the_trial_or_gives_only_finite_figures() -> None:
    """Check text for numbers, 1e999, and missing parts."""
    chance, reasons = Random(1), []
    for _ in range(400):

        def nonsense(argv: tuple[str, ...], netns: str | None) -> Outcome:
            told = json.dumps(damaged(json.loads(recorded(argv, netns).stdout), chance))
            return Outcome(stdout=told.replace("Infinity", "1e999"), duration_ns=2_000_000_000)

        try:
            measured = measured_by(Agent(FakeAgent(programs=nonsense)), stream(direction="both-ways"))
        except TrialFailed as error:
            reasons.append(str(error))
        else:
            assert all(math.isfinite(metric.value) for metric in measured.metrics)
    assert len(reasons) > 50
    assert all("report" in reason for reason in reasons)


@pytest.mark.parametrize("told", ["[" * 100_000, "9" * 5_000, '{"end":1e999}', '{"end":{}}', "\x00"])
def test_pathological_json_report_fails_the_trial(told: str) -> None:
    """Check deep nesting, huge numbers and empty parts."""
    agent = Agent(FakeAgent(programs=lambda argv, netns: Outcome(stdout=told)))
    with pytest.raises(TrialFailed, match="the report of iperf3"):
        measured_by(agent, stream())


def test_iperf3_killed_by_a_signal_fails_the_trial_and_the_signal_is_named() -> None:
    """Accept a missing exit status."""
    killed = Outcome(stdout="", exit_status=None, signal=9)
    with pytest.raises(TrialFailed, match=r"program-killed.*signal=9"):
        measured_by(Agent(FakeAgent(programs=lambda *_: killed)), stream())


def test_iperf3_error_fails_the_trial_with_its_message() -> None:
    """Show no parse error."""
    refused = Outcome(
        stdout='{"start":{},"intervals":[],"end":{},"error":"control socket has closed"}', exit_status=1
    )
    with pytest.raises(TrialFailed, match="control socket has closed"):
        measured_by(Agent(FakeAgent(programs=lambda *_: refused)), stream())


def test_refused_connection_is_reported_as_unreachable_receiver() -> None:
    """Name host, address and port."""
    said = "unable to connect to server: No route to host"
    refused = Outcome(stdout=json.dumps({"start": {}, "intervals": [], "end": {}, "error": said}))
    with pytest.raises(Failed) as caught:
        measured_by(Agent(FakeAgent(programs=lambda *_: refused)), stream())
    told = EN.said.say(caught.value.failure)
    assert told.startswith(
        "the receiver was not reached: near could not connect to 198.18.0.2, TCP port 5201, of far"
    )
    assert said in told


@pytest.mark.parametrize(
    ("connected", "told"), [(False, "the receiver was not reached"), (True, "it goes on")]
)
def test_stuck_sender_without_a_connection_is_reported_as_unreachable_receiver(
    connected: bool, told: str
) -> None:
    """Distinguish a sender that had a connection."""

    class Stuck(FakeAgent):
        def _process_collect(self, params: dict[str, Json]) -> Json:
            if params["id"].startswith("client") and "timeout_ms" in params:
                said = "waiting for process 'client-5201': 21000 ms have passed; it goes on"
                raise TrafficRefusal(-32004, said, {"timeout_ms": params["timeout_ms"]})
            return super()._process_collect(params)

        def _series_stop(self, params: dict[str, Json]) -> Json:
            open_one = asdict(zeros(SocketCounters, local_port=40000, remote_port=5201))
            rows = [open_one] if connected else []
            one = {"sampler": "sockets", "netns": "iolab-near", "begin_ns": 1, "end_ns": 2, "sockets": rows}
            return {**super()._series_stop(params), "readings": [{"observations": [one]}]}

    with pytest.raises(TrialFailed) as caught:
        measured_by(Agent(Stuck(programs=recorded)), stream())
    assert told in EN.said.say(failure_of(caught.value))


@pytest.mark.parametrize(("asked", "marked"), [("bbr", set()), ("cubic", {"near", "far"})])
def test_congestion_control_is_read_back_from_the_report(asked: str, marked: set[str]) -> None:
    """Check recorded reports of bbr at both senders."""
    measured = measured_by(
        Agent(FakeAgent(programs=recorded)), stream(direction="both-ways", congestion=asked)
    )
    found = [one for one in measured.warnings if isinstance(one, CongestionDiffers)]
    assert {one.machine for one in found} == marked
    assert all((one.asked, one.seen) == (asked, "bbr") for one in found)


def test_missing_iperf3_fails_the_trial_and_stops_the_other_programs() -> None:
    """Allow the same process names in the next trial."""
    agent = Agent(FakeAgent(programs=lambda argv, _: Outcome() if "--server" in argv else None))
    for _ in range(2):
        with pytest.raises(TrialFailed, match="no such file"):
            measured_by(agent, stream())


def test_loss_of_one_end_during_a_trial_leaves_nothing_running_at_the_other() -> None:
    """Measure the next trial with the restarted end."""
    lab = Lab({"near": LAB.machines["near"], "far": Vm(kind="vm")}, LAB.links, {})
    topology, measure = make_topology(lab), stream(**{"from": "far", "to": "near", "direction": "both-ways"})

    def dies(_argv: tuple[str, ...], _netns: str | None) -> Outcome:
        far.kill()
        return Outcome()

    here, far = Agent(FakeAgent(programs=recorded)), FakeAgent(programs=dies)
    with pytest.raises(AgentLost, match="far"):
        measure_stream(Site(here, lab, topology, agents={"far": Agent(far, name="far")}), measure)
    again = Agent(FakeAgent(programs=recorded), name="far")
    site = Site(here, lab, topology, agents={"far": again})
    assert conclude_stream(measure_stream(site, measure), {}).metrics["received_bps"].value > 1e9


def test_client_is_not_awaited_after_the_loss_of_its_servers_kernel() -> None:
    """Report the loss of the kernel at once."""
    lab = Lab({"near": LAB.machines["near"], "far": Vm(kind="vm")}, LAB.links, {})
    far = FakeAgent(programs=recorded)

    class Sending(FakeAgent):
        """An agent whose programs do not end, and whose other kernel ends while they run."""

        def send(self, line: str) -> None:
            if '"process.wait"' in line:
                far.kill()
            else:
                super().send(line)

    site = Site(
        Agent(Sending(programs=recorded)), lab, make_topology(lab), agents={"far": Agent(far, name="far")}
    )
    begin = time.monotonic()
    with pytest.raises(AgentLost, match=r"far.*is gone"):
        measure_stream(site, stream())
    assert time.monotonic() - begin < 10


def test_direction_dual_uses_two_program_pairs_and_both_ways_uses_one() -> None:
    """Start separate programs per direction, like iperf 2's dual test."""
    both = place_pairs(stream(direction="both-ways"), TOPOLOGY)
    dual = place_pairs(stream(direction="dual"), TOPOLOGY)
    assert [(pair.client.machine, pair.server.machine, pair.bidir) for pair in both] == [
        ("near", "far", True)
    ]
    assert [(pair.client.machine, pair.server.machine, pair.tcp_port) for pair in dual] == [
        ("near", "far", 5201),
        ("far", "near", 5202),
    ]


def test_concurrent_flows_use_different_ports() -> None:
    """Start a separate server for two flows between the same machines."""
    flows = [{"from": "near", "to": "far"}, {"from": "far", "to": "near"}]
    measure = Stream.model_validate({"kind": "stream", "flows": flows})
    assert [pair.tcp_port for pair in place_pairs(measure, TOPOLOGY)] == [5201, 5202]
