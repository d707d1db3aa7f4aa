"""The agents of a lab's kernels: what becomes of one that is lost."""

from tests.fake_agent.agent import FakeAgent

from iolab.agent.client import GONE_DEADLINE_S, UNDO_DEADLINE_S, Agent
from iolab.run.agents import Agents


class Killed(FakeAgent):
    """An agent that is killed; the way to it stays open until it is closed."""

    closed_within_s: float | None = None

    def close(self, deadline_s: float) -> str:
        """Close the way."""
        self.closed_within_s = deadline_s
        return "was killed"


def test_the_way_to_a_killed_agent_is_closed_and_not_waited_for_long() -> None:
    """A connection to its host would stay open until the run ends; that it was killed is known already."""
    killed = Killed()
    agents = Agents(Agent(FakeAgent()))
    agents.add("pc6", Agent(killed, name="pc6"))
    killed.kill()
    assert set(agents.lost()) == {"pc6"}
    assert agents.drop("pc6") == ""
    assert killed.closed_within_s == GONE_DEADLINE_S
    assert "pc6" not in agents


def test_an_agent_that_lives_is_given_time_to_undo_everything() -> None:
    """The error says what went wrong then."""
    living = Killed()
    agents = Agents(Agent(FakeAgent()))
    agents.add("pc6", Agent(living, name="pc6"))
    assert [*map(str, agents.close())] == ["during shutdown, the agent of pc6 was killed"]
    assert living.closed_within_s == UNDO_DEADLINE_S
