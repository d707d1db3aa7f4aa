"""An empty lab on a fake agent, and the log that it writes."""

from tests.fake_agent.agent import FakeAgent, FakeHost, Programs, no_programs

from iolab.agent.client import Agent
from iolab.results.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab


def standing(host: FakeHost, programs: Programs = no_programs) -> tuple[StandingLab, list[CommandRecord]]:
    """Return an empty lab on a fake host, and the log it writes."""
    log: list[CommandRecord] = []
    return StandingLab(Agents(Agent(FakeAgent(host, programs))), log.extend), log
