"""The client and relays against the fake agent: requests, replies, refusals, and a dying agent."""

import json
import queue
import threading

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.unit.run.guests.fake_guests import Line

from iolab.agent.client import MOST_AT_ONCE, Agent, AgentLost, Refused
from iolab.agent.relay import RelayedTransport, at_socket
from iolab.errors import AgentError


class Greeting:
    """A transport that sends given lines and then nothing."""

    notice_s = 0.0

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    def send(self, line: str) -> None:
        """Ignore the request."""

    def receive(self) -> str | None:
        """Return the lines, then the end."""
        return self.lines.pop(0) if self.lines else None

    def close(self, deadline_s: float) -> str:
        """End."""
        return ""

    def last_words(self) -> str:
        """Return a log."""
        return "panicked"


def test_run_returns_the_output_and_exit_status_of_the_command() -> None:
    """Return a program's output and exit status as they were."""
    agent = Agent(
        FakeAgent(programs=lambda argv, netns: Outcome(stdout=f"{argv[1]} in {netns}", exit_status=3))
    )
    result = agent.run(["say", "hello"], netns="near")
    assert (result.stdout, result.exit_status, result.succeeded) == ("hello in near", 3, False)


def test_concurrent_requests_get_their_own_replies() -> None:
    """Match replies by ID, in request order."""
    agent = Agent(FakeAgent(programs=lambda argv, _: Outcome(stdout=argv[0])))
    results = agent.run_all([(("a",), None), (("b",), None), (("c",), None)])
    assert [result.stdout for result in results] == ["a", "b", "c"]


class Counting(Greeting):
    """A transport that answers once the agent's limit is reached, or all requests are there."""

    def __init__(self, greeting: str, total: int) -> None:
        super().__init__(greeting)
        self.total, self.asked, self.most = total, 0, 0
        self.answers: queue.Queue[str] = queue.Queue()
        self.held: list[str] = []

    def send(self, line: str) -> None:
        """Hold a request until the maximum number is waiting."""
        self.asked += 1
        self.held.append(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": None}))
        self.most = max(self.most, len(self.held))
        if len(self.held) == MOST_AT_ONCE or self.asked == self.total:
            for answer in self.held:
                self.answers.put(answer)
            self.held = []

    def receive(self) -> str | None:
        """Return the greeting, then each answer."""
        return self.lines.pop(0) if self.lines else self.answers.get()


def test_client_limits_the_requests_in_flight_to_the_agents_maximum() -> None:
    """Limit concurrent requests, so that a lab of hundreds of machines gets no refusal."""
    greeting = FakeAgent().receive()
    assert greeting is not None
    transport = Counting(greeting, 3 * MOST_AT_ONCE)
    agent = Agent(transport)
    for pending in [agent.begin("agent.ping", {}) for _ in range(transport.total)]:
        assert pending.result(10) is None
    assert transport.most <= MOST_AT_ONCE


def test_missing_program_is_refused_with_the_agents_error_code_and_data() -> None:
    """Keep the code and the data of the agent's error."""
    agent = Agent(FakeAgent(programs=lambda *_: None))
    with pytest.raises(Refused, match="iperf4") as caught:
        agent.run(["iperf4"])
    assert caught.value.code == -32001
    assert caught.value.data == {"errno": 2, "path": "iperf4"}


def test_requests_to_a_dead_agent_fail_at_once() -> None:
    """End pending requests at once; the error names the cleanup command."""
    transport = FakeAgent()
    agent = Agent(transport)
    pending = agent.begin("agent.ping", {})
    assert pending.result(1)["now_ns"] >= 0
    transport.kill()
    with pytest.raises(AgentError, match=r"gone"):
        agent.ping()


def test_request_on_a_cut_connection_reports_the_lost_agent_instead_of_a_timeout() -> None:
    """Give the state of the connection as the reason, not a late answer."""
    line = Line(FakeAgent().receive())
    line.notice_s = 10
    agent = Agent(line)
    cut = threading.Timer(0.1, line.close, [0])
    cut.start()
    with pytest.raises(AgentError, match=r"agent\.ping: the agent is gone"):
        agent.call("agent.ping", {}, deadline_s=0.01)


def test_unanswered_request_fails_after_its_deadline() -> None:
    """State the waiting time in the error."""
    with pytest.raises(AgentError, match=r"agent\.ping: no answer after 1 s"):
        Agent(Line(FakeAgent().receive())).call("agent.ping", {}, deadline_s=0.6)


@pytest.mark.parametrize("spoken", ["2.0", "1.5", "1", "one", "1.x", ""])
def test_agent_with_an_incompatible_protocol_is_refused_and_both_versions_are_named(spoken: str) -> None:
    """Refuse an older agent, which would leave out data of figures without notice."""
    hello = json.loads(FakeAgent().receive() or "")
    hello["params"]["protocol"] = spoken
    with pytest.raises(AgentError, match=rf"protocol {spoken}; allowed: 1\.6 and later 1\.x"):
        Agent(Greeting(json.dumps(hello)))


@pytest.mark.parametrize("spoken", ["1.6", "1.7", "1.10"])
def test_agent_with_a_newer_minor_protocol_version_is_accepted(spoken: str) -> None:
    """Ignore its unknown fields."""
    hello = json.loads(FakeAgent().receive() or "")
    hello["params"]["protocol"] = spoken
    assert Agent(Greeting(json.dumps(hello))).hello.protocol == spoken


def test_malformed_greeting_is_refused_and_the_missing_field_is_named() -> None:
    """Name the missing field, without a traceback."""
    with pytest.raises(AgentError, match="protocol"):
        Agent(Greeting('{"jsonrpc":"2.0","method":"hello","params":{}}'))


def test_lines_outside_the_protocol_before_the_greeting_are_ignored() -> None:
    """Skip noise before the greeting."""
    hello = FakeAgent().receive()
    assert hello is not None
    agent = Agent(Greeting("noise", "[1]", "{}", hello))
    assert agent.hello.version == "0.1.0"


def test_closing_the_client_undoes_every_change_in_reverse_order() -> None:
    """Run undo commands backwards and restore originals."""
    host = FakeHost(settings={(None, "/proc/sys/a"): "7"})
    with Agent(FakeAgent(host)) as agent:
        agent.call("netns.create", {"name": "near"})
        agent.run(["do", "1"], undo={"kind": "command", "argv": ["undo", "1"]}, undo_key="one")
        agent.run(["do", "2"], undo={"kind": "command", "argv": ["undo", "2"]}, undo_key="two")
        agent.call("setting.write", {"path": "/proc/sys/a", "value": "8"})
        agent.call("setting.write", {"path": "/proc/sys/a", "value": "9"})
    assert [argv for argv, _ in host.ran] == [("do", "1"), ("do", "2"), ("undo", "2"), ("undo", "1")]
    assert host.netns == set()
    assert host.settings[(None, "/proc/sys/a")] == "7"


def test_error_for_a_lost_agent_contains_its_last_output() -> None:
    """Report why an agent died before its greeting."""
    with pytest.raises(AgentError, match=r"gone \(panicked\)"):
        Agent(Greeting())


def behind(inner: FakeHost) -> FakeHost:
    """Return a host with an agent of `inner` at a socket."""
    return FakeHost(behind={"/sock": lambda: FakeAgent(inner)})


def test_command_through_nested_relays_runs_only_on_the_innermost_host() -> None:
    """Run a command behind three relays there, and nowhere else."""
    inner = FakeHost()
    middle = behind(inner)
    outer = behind(middle)
    with Agent(FakeAgent(outer)) as here:
        first = Agent(RelayedTransport(here, "a", at_socket("/sock")), name="a")
        second = Agent(RelayedTransport(first, "a.b", at_socket("/sock")), name="b")
        assert second.run(("true",)).succeeded
        second.call("netns.create", {"name": "x"})
        assert (inner.netns, middle.netns, outer.netns) == ({"x"}, set(), set())
        assert (inner.ran, middle.ran, outer.ran) == ([(("true",), None)], [], [])
        second.close()
        assert inner.netns == set(), "the dead-man's switch works behind relays"
        assert first.run(("true",)).succeeded


def test_relay_to_a_socket_without_a_listener_is_refused() -> None:
    """Raise the refusal of the parent's agent."""
    with Agent(FakeAgent()) as here, pytest.raises(Refused, match="no socket /nowhere"):
        RelayedTransport(here, "a", at_socket("/nowhere"), timeout_ms=10)


def test_error_for_a_lost_guest_contains_its_last_console_line() -> None:
    """Report the panic at once, not a deadline."""
    console = Line()
    with Agent(FakeAgent(FakeHost(behind={"/con": lambda: console}))) as here:
        console.say("booting", "Kernel panic - not syncing: no init", None)
        transport = RelayedTransport(here, "con", at_socket("/con"))
        with pytest.raises(
            AgentLost, match=r"(?s)the agent of dut .*Kernel panic - not syncing: no init"
        ) as caught:
            Agent(transport, name="dut")
        assert caught.value.name == "dut"
        assert list(transport.noise) == ["booting", "Kernel panic - not syncing: no init"]


def test_death_of_a_relaying_agent_loses_all_agents_behind_it() -> None:
    """Answer a request to the inner agent with its loss."""
    outer = FakeAgent(behind(FakeHost()))
    inner = Agent(RelayedTransport(Agent(outer), "a", at_socket("/sock")), name="a")
    outer.kill()
    with pytest.raises(AgentLost, match="agent of a"):
        inner.ping()


def test_late_end_of_an_old_relay_does_not_close_the_new_relay_with_the_same_name() -> None:
    """Ignore the end of an old relay: a restarted guest has its predecessor's names."""
    inner = FakeHost()
    with Agent(FakeAgent(behind(inner))) as here:
        first = RelayedTransport(here, "dut:agent", at_socket("/sock"))
        Agent(first, name="dut").close()
        second = RelayedTransport(here, "dut:agent", at_socket("/sock"))
        first.end("Kernel panic, told by the console")
        assert Agent(second, name="dut").run(("true",)).succeeded
