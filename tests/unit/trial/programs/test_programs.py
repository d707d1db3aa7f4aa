"""Trials of user programs on the fake agent."""

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.fake_agent.traffic import TrafficRefusal

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.measures import CommandMeasure
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import make_topology
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured
from iolab.trial.programs.measure import conclude_command, measure_command
from iolab.trial.programs.words import addresses_of

LAB = Lab(
    {name: Netns(kind="netns") for name in ("near", "far", "other")},
    {
        "lan": Link(ends=(PortRef("near.eth0"), PortRef("far.eth0"))),
        "more": Link(ends=(PortRef("far.eth1"), PortRef("other.eth0"))),
    },
    {},
)
SITE_TOPOLOGY = make_topology(LAB)
RATE = {"rate": {"unit": "1/s", "pattern": r"rate (\S+)"}}


def command(**keys: object) -> CommandMeasure:
    """Return a measure of a program on near."""
    return CommandMeasure.model_validate({"kind": "command", "on": "near", "run": ["load"], **keys})


def measured(measure: CommandMeasure, agent: FakeAgent) -> Measured:
    """Measure once on three namespaces."""
    site = Site(agent=Agent(agent), lab=LAB, topology=SITE_TOPOLOGY)
    return conclude_command(measure_command(site, measure), {})


def printing(**programs: Outcome) -> FakeAgent:
    """Return an agent of a host with these programs; others succeed and print nothing."""

    def run(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        return next((outcome for name, outcome in programs.items() if name in argv), Outcome())

    return FakeAgent(FakeHost(), programs=run)


class Endless(FakeAgent):
    """A host whose programs end when they are stopped; `ends` do so by themselves."""

    ends: tuple[str, ...] = ()

    def _process_collect(self, params: dict[str, Json]) -> Json:
        if "timeout_ms" in params and params["id"] not in self.ends:
            raise TrafficRefusal(-32002, "it goes on", {"timeout_ms": params["timeout_ms"]})
        return super()._process_collect(params)


def failure(measure: CommandMeasure, agent: FakeAgent) -> dict[str, object]:
    """Return the failure reason of a trial, with its code."""
    with pytest.raises(Failed) as caught:
        measured(measure, agent)
    return {"code": caught.value.failure.code, **dict(caught.value.failure)}


def test_trial_lists_the_figures_of_the_program_before_those_of_iolab() -> None:
    """Let the program's figures lead."""
    seen = measured(command(metrics=RATE), printing(load=Outcome("rate 12.75\n", duration_ns=2_000_000_000)))
    assert [(one.name, one.unit, one.value) for one in seen.metrics][:2] == [
        ("rate", "1/s", 12.75),
        ("elapsed_s", "s", 2.0),
    ]
    assert seen.raw["program"]["stdout"] == "rate 12.75\n"


def test_figure_printed_on_each_line_gives_a_mean_and_a_series() -> None:
    """Begin at the program's start."""
    metrics = {"rate": {"unit": "1/s", "pattern": r"rate (\S+)", "per_line": "500ms"}}
    seen = measured(command(metrics=metrics), printing(load=Outcome("rate 1\nrate 3\n")))
    assert seen.metrics["rate"].value == 2.0
    (over_time,) = seen.series
    assert over_time.at_ns.tolist() == [500_000_000, 1_000_000_000]
    assert over_time.values.tolist() == [1.0, 3.0]


def test_machine_names_in_braces_are_replaced_by_addresses() -> None:
    """Use the address on the path to the program's machine; keep other braces."""
    server = {"on": "far", "run": ["serve", "--bind={far}"]}
    agent = Endless()
    agent.ends = ("program",)
    measured(command(run=["load", "{far}:80", "{x,y}", "{unknown}"], servers={"web": server}), agent)
    ran = [argv[2:] for argv, _ in agent.host.ran if argv[0] == "env"]
    assert ran == [("serve", "--bind=198.18.0.2"), ("load", "198.18.0.2:80", "{x,y}", "{unknown}")]


def test_address_of_an_unreachable_machine_is_refused() -> None:
    """Check two segments without forwarding."""
    measure = command(run=["load", "{other}"])
    with pytest.raises(InputError, match="no path of links"):
        addresses_of(measure, measure, SITE_TOPOLOGY)


def test_shell_input_folder_and_environment_are_used_as_written() -> None:
    """Use a temporary folder by default."""
    host = FakeHost()
    written = {"run": [], "shell": "cat > x; echo $HOME", "stdin": "a {far}", "folder": "/srv"}
    measured(command(**written), FakeAgent(host))
    measured(command(), FakeAgent(host))
    words = [argv for argv, _ in host.ran if argv[0] == "env"]
    assert words[0][:2] == ("env", "--chdir=/srv")
    assert words[0][-4:] == ("a 198.18.0.2", "sh", "-c", "cat > x; echo $HOME")
    assert words[1][1].endswith("/f/program")
    assert host.folders == set()


def test_program_with_an_unexpected_exit_status_fails_the_trial() -> None:
    """Quote status and output; accept an expected status other than 0."""
    broken = Outcome(exit_status=3, stderr="no route\n")
    seen = failure(command(), printing(load=broken))
    assert (seen["code"], seen["ended"], seen["said"]) == ("program-ended-badly", "status 3", "no route")
    assert measured(command(exit_status=3), printing(load=broken)).metrics
    assert failure(command(), printing(load=Outcome(exit_status=None, signal=11)))["ended"] == "signal 11"


def test_program_beyond_its_timeout_is_killed_and_fails_the_trial() -> None:
    """Leave nothing running."""
    agent = Endless()
    assert failure(command(timeout="3s"), agent)["code"] == "program-too-long"
    assert agent._processes == {}
    assert agent.host.folders == set()


def test_server_that_ends_with_an_error_fails_the_trial() -> None:
    """Blame the server, not the program."""
    agent = printing(serve=Outcome(exit_status=1, stderr="port in use"), load=Outcome(exit_status=7))
    seen = failure(command(servers={"web": {"on": "far", "run": ["serve"]}}), agent)
    assert (seen["code"], seen["program"], seen["said"]) == ("program-ended-early", "serve", "port in use")


def test_server_that_is_never_ready_fails_the_trial() -> None:
    """Check the agent's error, and a command that never succeeds."""

    class Late(FakeAgent):
        def _process_start(self, params: dict[str, Json]) -> Json:
            if params.get("ready"):
                raise TrafficRefusal(-32002, "late", {"timeout_ms": 1, "output": "loading"})
            return super()._process_start(params)

    web = {"on": "far", "run": ["serve"], "ready": {"listens": 80}, "within": "1s"}
    seen = failure(command(servers={"web": web}), Late())
    assert (seen["code"], seen["said"]) == ("program-not-ready", "loading")
    polled = printing(never=Outcome(duration_ns=5_000_000_000))
    web = {"on": "far", "run": ["serve"], "ready": {"succeeds": ["never"]}, "within": "1s"}
    assert failure(command(servers={"web": web}), polled)["code"] == "program-not-ready"


def test_truncated_output_gives_no_figure() -> None:
    """Refuse it, because the figure may be in the dropped part."""

    class Loud(FakeAgent):
        def _process_collect(self, params: dict[str, Json]) -> Json:
            return {**super()._process_collect(params), "stdout_dropped_bytes": 10**9}

    assert failure(command(metrics=RATE), Loud())["code"] == "output-too-long"
    assert measured(command(), Loud()).metrics
