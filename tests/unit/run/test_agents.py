"""The agents of a lab's kernels, and lost ones."""

from tests.fake_agent.agent import FakeAgent

from iolab.agent.client import GONE_DEADLINE_S, UNDO_DEADLINE_S, Agent
from iolab.run.agents import Agents


class Killed(FakeAgent):
    """A killed agent whose connection stays open until it is closed."""

    closed_within_s: float | None = None

    def close(self, deadline_s: float) -> str:
        """Close the connection."""
        self.closed_within_s = deadline_s
        return "was killed"


def test_connection_to_a_killed_agent_is_closed_with_a_short_deadline() -> None:
    """Close it soon, because the agent is known to be dead."""
    killed = Killed()
    agents = Agents(Agent(FakeAgent()))
    agents.add("pc6", Agent(killed, name="pc6"))
    killed.kill()
    assert set(agents.lost()) == {"pc6"}
    assert agents.drop("pc6") == ""
    assert killed.closed_within_s == GONE_DEADLINE_S
    assert "pc6" not in agents


def test_running_agent_is_given_the_full_deadline_to_undo_its_changes() -> None:
    """Report errors of the undo."""
    living = Killed()
    agents = Agents(Agent(FakeAgent()))
    agents.add("pc6", Agent(living, name="pc6"))
    assert [*map(str, agents.close())] == ["shutting down the agent of pc6: was killed"]
    assert living.closed_within_s == UNDO_DEADLINE_S
