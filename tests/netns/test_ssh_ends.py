"""Every way in which an agent on another host ends, by a real sshd in namespaces: what it made is taken back."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.netns.runs import until
from tests.netns.sshd import Network, changes, make_lab, reach

from iolab.agent.client import Agent
from iolab.agent.ssh import LEASE_S
from iolab.errors import AgentError, UnsupportedError
from iolab.run.hosts import hosts

pytestmark = pytest.mark.netns
GONE_S = LEASE_S + 40
"""Until both ends of a cut connection must have seen it, on a host that is busy or stands still for a while."""


def test_closing_undoes_everything(network: Network) -> None:
    """The dead-man's switch works over ssh as it does here."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    assert changes(pc6).split() == ["iolab-far", "iolab0"]
    assert agent.close() == ""
    assert changes(pc6) == ""


def test_a_killed_controller_leaves_nothing_there(network: Network) -> None:
    """Its pipes close, ssh ends, the agent undoes."""
    pc6 = network.host("pc6")
    code = (
        "import time; from tests.netns.sshd import make_lab, reach; agent = reach('pc6'); make_lab(agent); "
        "print('made', flush=True); time.sleep(60)"
    )
    controller = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"made\n"
    assert changes(pc6)
    controller.kill()
    controller.communicate()
    until(lambda: not pc6.agents())
    assert changes(pc6) == ""
    until(lambda: not any("agent" in name for name in pc6.names()))


@pytest.mark.full
def test_a_cut_cable_ends_both_sides(network: Network) -> None:
    """Neither end hears of it, both see it: the request fails, says so, the agent there undoes when its lease ends."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    pending = agent.begin("command.run", {"argv": ["sleep", "100"], "timeout_ms": 120_000})
    pc6.cut()
    began = time.monotonic()
    with pytest.raises(AgentError, match=rf"connection to pc6 is cut.*undoes everything within {LEASE_S} s"):
        pending.result(GONE_S)
    assert time.monotonic() - began < GONE_S
    until(lambda: not pc6.agents(), GONE_S)
    assert time.monotonic() - began < GONE_S
    assert changes(pc6) == ""
    assert pc6.processes("sleep 100") == []
    assert "pc6 was lost" in agent.close()
    pc6.mend()
    with reach("pc6") as again:
        assert again.hello.predecessors == ()


def test_a_killed_agent_is_told_at_once_and_cleaned_later(network: Network) -> None:
    """The connection stands, so it was the agent; what it left is refused by the next until it is undone."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    pc6.inside(f"kill -9 {pc6.agents()[0]}")
    with pytest.raises(AgentError, match="iolab clean --host pc6"):
        agent.ping()
    agent.close()
    assert changes(pc6)
    with reach("pc6") as again:
        (left,) = again.hello.predecessors
        assert left.entries == 2
        assert again.undo(left.journal).failed == ()
    assert changes(pc6) == ""


def make_what_cannot_be_undone(agent: Agent) -> None:
    """Change nothing, and journal an undo that fails."""
    undo = {"kind": "command", "argv": ["sh", "-c", "echo it is in use >&2; exit 1"]}
    agent.run(["true"], undo=undo, undo_key="mtu:pc6.lan0")


def test_what_could_not_be_undone_is_told_when_the_agent_ends(network: Network) -> None:
    """Which change, why, and what to do; the next agent refuses the host until then."""
    network.host("pc6")
    agent = reach("pc6")
    make_what_cannot_be_undone(agent)
    told = agent.close()
    assert "not undone: mtu:pc6.lan0" in told
    assert "it is in use" in told
    assert "`iolab clean --host pc6`" in told
    with pytest.raises(
        UnsupportedError, match=r"preparing pc6: 1 changes .*run `iolab clean --host pc6` first"
    ):
        hosts.reach("pc6", "pc6")


def test_what_could_not_be_undone_after_a_disconnect_is_told_when_the_host_is_reached_again(
    network: Network,
) -> None:
    """The agent was alone when it found out; a run that comes back tries once more, and names change and reason."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_what_cannot_be_undone(agent)
    pc6.kill("sshd: root")
    agent.close()
    until(lambda: not pc6.agents())
    told = r"preparing pc6: 1 changes .* cannot be undone \(mtu:pc6.lan0: .*it is in use.*`iolab clean --host pc6`"
    with pytest.raises(UnsupportedError, match=told):
        hosts.reach("pc6", "pc6", agent.hello.pid)
    assert pc6.agents() == []


@pytest.mark.full
def test_a_host_that_reboots_is_lost_and_comes_back_clean(network: Network) -> None:
    """Everything there ends at once; the next connection finds nothing to undo and the file still there."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    pc6.crash()
    with pytest.raises(AgentError, match="pc6"):
        agent.ping()
    agent.close()
    pc6.start()
    with reach("pc6") as again:
        assert again.hello.predecessors == ()
    assert (pc6.folder / "log").read_text().count("Accepted publickey") == 2
