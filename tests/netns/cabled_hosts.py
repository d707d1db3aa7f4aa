"""Two hosts with a separate sshd and /run each, which a cable joins, and their agents: fixtures of tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netns.sshd import Network, SshHost

from iolab.agent.client import Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import LocalTransport, find_agent
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab
from iolab.run.agents import Agents


def lab_of(text: str) -> Lab:
    """Return the lab of an experiment of one cell."""
    experiment = parse(text, "lab.yaml")
    return Resolver(experiment).setup(next(cells(experiment))).lab


def shown(host: SshHost) -> str:
    """Return the state that a lab could change on the cable's end."""
    return host.inside(
        "ip -4 -o addr show dev lan0; ip -o link show dev lan0; ethtool -k lan0; ls /run/netns"
    )


@pytest.fixture
def pair(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SshHost, SshHost]:
    """Provide two hosts connected by a cable separate from the network of ssh; it has an address already."""
    monkeypatch.setenv("IOLAB_STATE_DIR", str(tmp_path / "state"))
    pc6, pc7 = network.host("pc6"), network.host("pc7")
    network.cable(pc6, pc7, "lan0")
    pc6.inside("ip addr add 198.18.251.6/24 dev lan0")
    return pc6, pc7


@pytest.fixture
def agents(pair: tuple[SshHost, SshHost]) -> Iterator[Agents]:
    """Provide agents on both hosts, and locally."""
    found = Agents(Agent(LocalTransport(find_agent())))
    for host in pair:
        found.add(host.name, Agent(SshTransport(host.name, find_agent()), name=host.name))
    yield found
    assert found.close() == []
    assert found.here.close() == ""
