"""The last a guest can tell: what it could not undo. When it has ended there is nobody left to ask."""

from iolab.agent.client import Agent
from iolab.errors import AgentError

ALIVE_DEADLINE_S = 3.0
"""An emulated guest on a busy host answers within a second; a dead one is not waited for longer [s]."""
UNDO_DEADLINE_S = 15.0
"""Under emulation an undo takes up to half a second; the end does not wait for ever [s]."""
SHOWN = 3
"""Failures that are reported in full."""


def undo_before_end(agent: Agent) -> str:
    """Let a guest that is about to end undo everything; return what it could not, in words, or nothing.

    Of one that is gone, or does not answer, nothing is known, and nothing is waited for.
    """
    if agent.gone:
        return ""
    try:
        agent.call("agent.ping", {}, ALIVE_DEADLINE_S)
        failed = agent.undo(deadline_s=UNDO_DEADLINE_S).failed
    except AgentError:
        return ""
    if not failed:
        return ""
    said = "; ".join(f"{failure.undo_key}: {failure.reason}" for failure in failed[:SHOWN])
    more = f"; and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    return f"ending guest {agent.name}: what it could not undo before: {said}{more}"
