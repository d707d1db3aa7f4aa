"""Cables between two hosts, each with an sshd and a /run of its own: what is set, read back, and put back on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netns.sshd import SSHD, Network, SshHost

from iolab.agent.client import Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import LocalTransport, find_agent
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab
from iolab.lab.compose import compose
from iolab.run.agents import Agents, LabError
from iolab.run.standing import StandingLab

pytestmark = pytest.mark.netns

LAB = """
lab:
  machines:
    pc6: {kind: host, ssh: pc6}
    pc7: {kind: host, ssh: pc7}
  links:
    lan: {ends: [pc6.lan0, pc7.lan0], cable: true, mtu: 1400, offload: {tso: off, tx_checksum: off}}
measure:
  tcp: {kind: stream, from: pc6, to: pc7}
"""


def lab_of(text: str) -> Lab:
    """Return the lab of an experiment of one cell."""
    experiment = parse(text, "lab.yaml")
    return Resolver(experiment).setup(next(cells(experiment))).lab


def shown(host: SshHost) -> str:
    """Return what a lab could change of the cable's end."""
    return host.inside("ip -4 -o addr show dev lan0; ip -o link show dev lan0; ethtool -k lan0; ls /run/netns")


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SshHost, SshHost]]:
    """Two hosts joined by a cable of their own, beside the network that ssh uses; it has an address already."""
    if SSHD is None:
        pytest.skip("needs sshd; scripts/packages.sh ssh installs it")
    network = Network(tmp_path / "net")
    monkeypatch.setenv("IOLAB_SSH", network.ssh)
    monkeypatch.setenv("IOLAB_STATE_DIR", str(tmp_path / "state"))
    pc6, pc7 = network.host("pc6"), network.host("pc7")
    network.cable(pc6, pc7, "lan0")
    pc6.inside("ip addr add 198.18.251.6/24 dev lan0")
    yield pc6, pc7
    network.close()


@pytest.fixture
def agents(pair: tuple[SshHost, SshHost]) -> Iterator[Agents]:
    """Agents on both, and here."""
    found = Agents(Agent(LocalTransport(find_agent())))
    for host in pair:
        found.add(host.name, Agent(SshTransport(host.name, find_agent()), name=host.name))
    yield found
    assert found.close() == []
    assert found.here.close() == ""


def test_a_cable_is_set_read_back_and_put_back(pair: tuple[SshHost, SshHost], agents: Agents) -> None:
    """Addresses, MTU and offloads on both hosts; the address it had stays; in the end both are as they were."""
    before = [shown(host) for host in pair]
    lab = StandingLab(agents, lambda _: None)
    lab.change_to(compose(lab_of(LAB)))
    assert lab.mismatches() == []
    for host in pair:
        text = shown(host)
        assert "mtu 1400" in text
        assert "tcp-segmentation-offload: off" in text
        assert "tx-checksumming: off" in text
    assert "198.18.251.6/24" in shown(pair[0])
    pair[0].inside("timeout 5 busybox ping -c 1 198.18.0.2 || ping -c 1 -W 5 198.18.0.2")
    lab.change_to(compose(lab_of(LAB.replace("1400", "9000").replace("tso: off, ", ""))))
    assert lab.mismatches() == []
    assert "tcp-segmentation-offload: on" in shown(pair[1])
    lab.take_down()
    assert [shown(host) for host in pair] == before


def test_what_somebody_changes_behind_our_back_is_noticed_on_the_other_host(
    pair: tuple[SshHost, SshHost], agents: Agents
) -> None:
    """The read-back names the host's port and both values."""
    lab = StandingLab(agents, lambda _: None)
    lab.change_to(compose(lab_of(LAB)))
    pair[1].inside("ip link set lan0 mtu 1300")
    (sentence,) = lab.mismatches()
    assert "mtu of pc7.lan0 was read back as 1300 where 1400 was applied" in sentence
    lab.take_down()


def test_a_host_lost_while_the_lab_stands_is_told_and_the_other_is_put_back(
    pair: tuple[SshHost, SshHost], agents: Agents
) -> None:
    """A reset of one host fails the change with its name; the other one is as before."""
    before = shown(pair[0])
    lab = StandingLab(agents, lambda _: None)
    lab.change_to(compose(lab_of(LAB)))
    pair[1].crash()
    with pytest.raises(LabError, match="pc7"):
        lab.change_to(compose(lab_of(LAB.replace("1400", "9000"))))
    assert shown(pair[0]) == before
