"""A lab of two machines, for tests that measure nothing on it."""

from tests.fake_agent.agent import FakeAgent

from iolab.agent.client import Agent
from iolab.experiment.experiment import Lab
from iolab.lab.topology import make_topology
from iolab.trial.lab_access import Site


def bare_site() -> Site:
    """Return the site of a lab without machines."""
    lab = Lab({}, {}, {})
    return Site(agent=Agent(FakeAgent()), lab=lab, topology=make_topology(lab))
