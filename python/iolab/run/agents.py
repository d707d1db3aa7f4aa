"""The agents of a lab's kernels, by kernel name."""

from collections.abc import Iterator

from iolab.agent.client import Agent, AgentLost
from iolab.lab.kernels import HERE
from iolab.locale import Phrase, Text

ALIVE_DEADLINE_S = 15.0
"""Time limit for an answer; an emulated guest on a busy host answers within a second."""


class Agents:
    """The agents of all kernels."""

    def __init__(self, here: Agent) -> None:
        self._open: dict[str, Agent] = {HERE: here}

    @property
    def here(self) -> Agent:
        """The agent of the local host."""
        return self._open[HERE]

    def __contains__(self, kernel: str) -> bool:
        return kernel in self._open

    def __iter__(self) -> Iterator[str]:
        """Yield the kernels with an agent, each after its parent."""
        return iter(tuple(self._open))

    def of(self, kernel: str) -> Agent:
        """Return the agent of a kernel.

        Raises:
            AgentLost: the kernel has no agent: the agent is not running, or was lost.
        """
        agent = self._open.get(kernel)
        if agent is None:
            raise AgentLost(kernel, Phrase("run.agent-not-running", kernel=kernel))
        return agent

    def lost(self) -> dict[str, str]:
        """Ping every other kernel; return the kernels that do not answer, each with its last output."""
        found: dict[str, str] = {}
        for kernel, agent in self._open.items():
            try:
                if kernel != HERE:
                    agent.call("agent.ping", {}, ALIVE_DEADLINE_S)
            except AgentLost as error:
                found[kernel] = str(agent.last_words() or error)
        return found

    def add(self, kernel: str, agent: Agent) -> None:
        """Add the agent of a kernel that was reached or started."""
        self._open[kernel] = agent

    def drop(self, kernel: str) -> Text:
        """Close the agent of a kernel, if there is one; the agent then undoes all its changes. Return the errors as
        text.

        For a lost agent, only the local end of the connection is closed.
        """
        agent = self._open.pop(kernel, None)
        if agent is None:
            return ""
        gone = agent.gone
        trouble = agent.close()
        return "" if gone else trouble

    def close(self) -> list[Text]:
        """Close all agents except the local one, children before parents; return the errors, each as a sentence."""
        troubles = [(kernel, self.drop(kernel)) for kernel in reversed(list(self)) if kernel != HERE]
        return [
            Phrase("run.closing-kernel-agent", kernel=kernel, trouble=trouble)
            for kernel, trouble in troubles
            if trouble
        ]
