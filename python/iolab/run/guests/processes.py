"""Programs that agents supervise for guests: hypervisors and switches. Whether they ended, how, and ending them."""

from collections.abc import Iterable

from iolab.agent.client import Agent, AgentLost, Refused
from iolab.agent.messages import ProcessEnded

GRACE_MS = 500
END_DEADLINE_S = 10.0


def ended(agent: Agent, process: str, timeout_ms: int) -> ProcessEnded | None:
    """Return how a process ended, within a time; None: it runs, or nobody can tell."""
    try:
        return agent.wait(process, timeout_ms)
    except (Refused, AgentLost):
        return None


def how(end: ProcessEnded) -> str:
    """Return how a process ended, in words."""
    return f"signal {end.signal}" if end.signal is not None else f"status {end.exit_status}"


def stop_together(processes: Iterable[tuple[Agent, str]]) -> None:
    """End processes of several agents; what is gone already is passed over."""
    params = [(agent, {"id": process, "grace_ms": GRACE_MS}) for agent, process in processes]
    for pending in [agent.begin("process.stop", one) for agent, one in params]:
        try:
            pending.result(END_DEADLINE_S)
        except (Refused, AgentLost):
            continue
