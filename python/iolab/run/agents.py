"""The agents of a lab's kernels by name."""

from collections.abc import Iterator

from iolab.agent.client import Agent, AgentLost
from iolab.lab.kernels import HERE
from iolab.locale import Phrase, Text

ALIVE_DEADLINE_S = 15.0
"""An emulated guest on a busy host answers within a second."""


class Agents:
    """Who is asked for what is done on which kernel."""

    def __init__(self, here: Agent) -> None:
        self._open: dict[str, Agent] = {HERE: here}

    @property
    def here(self) -> Agent:
        """The agent of this computer."""
        return self._open[HERE]

    def __contains__(self, kernel: str) -> bool:
        return kernel in self._open

    def __iter__(self) -> Iterator[str]:
        """Give the kernels that have an agent, each after its parent."""
        return iter(tuple(self._open))

    def of(self, kernel: str) -> Agent:
        """Return the agent of a kernel.

        Raises:
            AgentLost: it has none: it is not running, or was lost.
        """
        agent = self._open.get(kernel)
        if agent is None:
            raise AgentLost(kernel, Phrase("run.agent-not-running", kernel=kernel))
        return agent

    def lost(self) -> dict[str, str]:
        """Ask every other kernel whether it is there; return those that are not, each with what it said last."""
        found: dict[str, str] = {}
        for kernel, agent in self._open.items():
            try:
                if kernel != HERE:
                    agent.call("agent.ping", {}, ALIVE_DEADLINE_S)
            except AgentLost as error:
                found[kernel] = str(agent.last_words() or error)
        return found

    def add(self, kernel: str, agent: Agent) -> None:
        """Take in the agent of a kernel that was reached or started."""
        self._open[kernel] = agent

    def drop(self, kernel: str) -> Text:
        """Close the agent of a kernel, if it has one: it undoes everything. Return what went wrong.

        Of one that is gone only our end of the way to it is left: it is closed, and what it says is known already.
        """
        agent = self._open.pop(kernel, None)
        if agent is None:
            return ""
        gone = agent.gone
        trouble = agent.close()
        return "" if gone else trouble

    def close(self) -> list[Text]:
        """Close all but this computer's, children before parents; return what went wrong, a sentence each."""
        troubles = [(kernel, self.drop(kernel)) for kernel in reversed(list(self)) if kernel != HERE]
        return [
            Phrase("run.closing-kernel-agent", kernel=kernel, trouble=trouble)
            for kernel, trouble in troubles
            if trouble
        ]
