"""An agent behind an agent, at any depth, on fakes."""

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost
from tests.unit.run.guests.fake_guests import Line

from iolab.agent.client import Agent, AgentLost, Refused
from iolab.agent.relay import RelayedTransport, at_socket


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
