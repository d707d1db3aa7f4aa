"""An agent on a clean host: here, or on another host by ssh."""

from collections.abc import Iterator
from contextlib import contextmanager

from iolab.agent.client import UNDO_DEADLINE_S, Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import LocalTransport, find_agent
from iolab.errors import AgentError, UnsupportedError


@contextmanager
def open_agent(host: str | None = None, *, leave_file: bool = True) -> Iterator[Agent]:
    """Start the agent here, or on another host by ssh; leaving undoes everything it changed.

    Without `leave_file` the agent's file is removed from that other host too.

    Raises:
        AgentError: it cannot be reached or started, or undoing left something behind.
    """
    agent = _agent_here() if host is None else agent_on(host, host, leave_file=leave_file)
    try:
        yield agent
    except BaseException as error:
        if trouble := agent.close():
            raise AgentError(f"{error or 'interrupted'}; {_left_behind(trouble)}") from error
        raise
    if trouble := agent.close():
        raise AgentError(_left_behind(trouble))


def agent_on(host: str, name: str, *, leave_file: bool = True) -> Agent:
    """Start the agent on another host by ssh, for the machine of that name.

    Raises:
        AgentError: it cannot be reached or started.
    """
    transport = SshTransport(host, find_agent(), leave_file=leave_file)
    try:
        return Agent(transport, name=name)
    except BaseException:
        transport.close(UNDO_DEADLINE_S)
        raise


def _agent_here() -> Agent:
    return Agent(LocalTransport(find_agent()))


def _left_behind(trouble: str) -> str:
    advice = "" if "iolab clean" in trouble else "; run `iolab clean` to undo what it left"
    return f"closing the agent: it {trouble}{advice}"


def refuse_unclean(agent: Agent, host: str | None = None) -> None:
    """Raise unless this host, or the one that is reached by ssh as `host`, is free and clean.

    Raises:
        UnsupportedError: another agent holds it, or a dead one left changes.
    """
    name, clean = ("the host", "iolab clean") if host is None else (host, f"iolab clean --host {host}")
    if agent.hello.busy_pid is not None:
        raise UnsupportedError(
            f"preparing {name}: another lab holds it (agent process {agent.hello.busy_pid}); "
            "wait for it to end, or end it"
        )
    left = sum(predecessor.entries for predecessor in agent.hello.predecessors)
    if left:
        raise UnsupportedError(
            f"preparing {name}: {left} changes of an agent that was killed are not undone; run `{clean}` first"
        )
