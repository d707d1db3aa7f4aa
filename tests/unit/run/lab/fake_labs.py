"""An empty lab on a fake agent, and the log that it writes."""

from iolab.agent.client import Agent
from iolab.agent.fake import FakeAgent, FakeHost
from iolab.record.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab


def standing(host: FakeHost, programs: object = None) -> tuple[StandingLab, list[CommandRecord]]:
    """Return an empty lab on a fake host, and the log it writes."""
    log: list[CommandRecord] = []
    fake = FakeAgent(host, programs) if programs else FakeAgent(host)  # type: ignore[arg-type]
    return StandingLab(Agents(Agent(fake)), log.extend), log
