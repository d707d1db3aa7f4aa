"""The client and relays against the fake agent: requests, replies, refusals, and an agent that dies."""

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
    """A transport that says one line and then nothing."""

    notice_s = 0.0

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    def send(self, line: str) -> None:
        """Take anything."""

    def receive(self) -> str | None:
        """Give the lines, then the end."""
        return self.lines.pop(0) if self.lines else None

    def close(self, deadline_s: float) -> str:
        """End."""
        return ""

    def last_words(self) -> str:
        """Leave a log."""
        return "panicked"


def test_a_command_gives_its_output_and_status() -> None:
    """What a program printed and how it ended come back as written."""
    agent = Agent(
        FakeAgent(programs=lambda argv, netns: Outcome(stdout=f"{argv[1]} in {netns}", exit_status=3))
    )
    result = agent.run(["say", "hello"], netns="near")
    assert (result.stdout, result.exit_status, result.succeeded) == ("hello in near", 3, False)


def test_requests_sent_together_get_their_own_replies() -> None:
    """Replies are matched by id, in the order of the requests."""
    agent = Agent(FakeAgent(programs=lambda argv, _: Outcome(stdout=argv[0])))
    results = agent.run_all([(("a",), None), (("b",), None), (("c",), None)])
    assert [result.stdout for result in results] == ["a", "b", "c"]


class Counting(Greeting):
    """A transport that answers when the agent's limit is reached, or all was asked."""

    def __init__(self, greeting: str, total: int) -> None:
        super().__init__(greeting)
        self.total, self.asked, self.most = total, 0, 0
        self.answers: queue.Queue[str] = queue.Queue()
        self.held: list[str] = []

    def send(self, line: str) -> None:
        """Hold a request until as many wait as may."""
        self.asked += 1
        self.held.append(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": None}))
        self.most = max(self.most, len(self.held))
        if len(self.held) == MOST_AT_ONCE or self.asked == self.total:
            for answer in self.held:
                self.answers.put(answer)
            self.held = []

    def receive(self) -> str | None:
        """Give the greeting, then each answer."""
        return self.lines.pop(0) if self.lines else self.answers.get()


def test_no_more_requests_are_under_way_than_an_agent_takes() -> None:
    """A lab of hundreds of machines asks for more at once than an agent works on; none of it is refused."""
    greeting = FakeAgent().receive()
    assert greeting is not None
    transport = Counting(greeting, 3 * MOST_AT_ONCE)
    agent = Agent(transport)
    for pending in [agent.begin("agent.ping", {}) for _ in range(transport.total)]:
        assert pending.result(10) is None
    assert transport.most <= MOST_AT_ONCE


def test_a_missing_program_is_refused_with_its_reason() -> None:
    """The agent's error keeps its code and its data."""
    agent = Agent(FakeAgent(programs=lambda *_: None))
    with pytest.raises(Refused, match="iperf4") as caught:
        agent.run(["iperf4"])
    assert caught.value.code == -32001
    assert caught.value.data == {"errno": 2, "path": "iperf4"}


def test_a_dead_agent_fails_every_request_and_says_what_to_do() -> None:
    """A wait for a dead agent ends at once, and the error says how to clean up."""
    transport = FakeAgent()
    agent = Agent(transport)
    pending = agent.begin("agent.ping", {})
    assert pending.result(1)["now_ns"] >= 0
    transport.kill()
    with pytest.raises(AgentError, match=r"gone"):
        agent.ping()


def test_an_answer_is_waited_for_until_a_cut_connection_is_noticed() -> None:
    """The reason is then what the connection says, not that an answer came late."""
    line = Line(FakeAgent().receive())
    line.notice_s = 10
    agent = Agent(line)
    cut = threading.Timer(0.1, line.close, [0])
    cut.start()
    with pytest.raises(AgentError, match=r"agent\.ping: the agent is gone"):
        agent.call("agent.ping", {}, deadline_s=0.01)


def test_an_answer_that_never_comes_is_given_up_after_its_deadline() -> None:
    """The error says how long it waited."""
    with pytest.raises(AgentError, match=r"agent\.ping: no answer after 1 s"):
        Agent(Line(FakeAgent().receive())).call("agent.ping", {}, deadline_s=0.6)


@pytest.mark.parametrize("spoken", ["2.0", "1.5", "1", "one", "1.x", ""])
def test_an_agent_of_another_version_is_refused_naming_both(spoken: str) -> None:
    """An older one would leave out what figures are made of, and nobody would see it."""
    hello = json.loads(FakeAgent().receive() or "")
    hello["params"]["protocol"] = spoken
    with pytest.raises(AgentError, match=rf"protocol {spoken}; allowed: 1\.6 and later 1\.x"):
        Agent(Greeting(json.dumps(hello)))


@pytest.mark.parametrize("spoken", ["1.6", "1.7", "1.10"])
def test_a_newer_minor_version_is_spoken_to(spoken: str) -> None:
    """It says more, which is passed over."""
    hello = json.loads(FakeAgent().receive() or "")
    hello["params"]["protocol"] = spoken
    assert Agent(Greeting(json.dumps(hello))).hello.protocol == spoken


def test_a_greeting_of_another_shape_is_refused_without_a_traceback() -> None:
    """A missing field is named."""
    with pytest.raises(AgentError, match="protocol"):
        Agent(Greeting('{"jsonrpc":"2.0","method":"hello","params":{}}'))


def test_lines_that_are_not_protocol_are_passed_over() -> None:
    """Noise before the greeting does not matter."""
    hello = FakeAgent().receive()
    assert hello is not None
    agent = Agent(Greeting("noise", "[1]", "{}", hello))
    assert agent.hello.version == "0.1.0"


def test_closing_undoes_every_change_in_reverse() -> None:
    """The dead-man's switch of the fake runs undo commands backwards and restores originals."""
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


def test_what_a_lost_agent_wrote_last_is_in_the_message() -> None:
    """An agent that dies before its greeting tells why."""
    with pytest.raises(AgentError, match=r"gone \(panicked\)"):
        Agent(Greeting())


def behind(inner: FakeHost) -> FakeHost:
    """Return a host behind whose socket an agent of `inner` answers."""
    return FakeHost(behind={"/sock": lambda: FakeAgent(inner)})


def test_an_agent_behind_two_others_is_asked_as_one_of_this_computer() -> None:
    """A command that is run three relays deep is run there, and nowhere else."""
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


def test_a_socket_where_nobody_answers_is_refused() -> None:
    """The refusal of the parent's agent is the caller's to tell."""
    with Agent(FakeAgent()) as here, pytest.raises(Refused, match="no socket /nowhere"):
        RelayedTransport(here, "a", at_socket("/nowhere"), timeout_ms=10)


def test_what_a_guest_said_last_is_told_when_it_is_gone() -> None:
    """Whoever waits for its answer learns of the panic at once, not of a deadline."""
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


def test_when_the_agent_in_between_dies_all_behind_it_are_lost() -> None:
    """A request to the inner one is answered with its loss."""
    outer = FakeAgent(behind(FakeHost()))
    inner = Agent(RelayedTransport(Agent(outer), "a", at_socket("/sock")), name="a")
    outer.kill()
    with pytest.raises(AgentLost, match="agent of a"):
        inner.ping()


def test_a_relay_that_ends_late_does_not_silence_the_one_that_took_its_name() -> None:
    """A guest begun anew has its predecessor's names; what still knows of the old one may end it again."""
    inner = FakeHost()
    with Agent(FakeAgent(behind(inner))) as here:
        first = RelayedTransport(here, "dut:agent", at_socket("/sock"))
        Agent(first, name="dut").close()
        second = RelayedTransport(here, "dut:agent", at_socket("/sock"))
        first.end("Kernel panic, told by the console")
        assert Agent(second, name="dut").run(("true",)).succeeded
