"""A guest with macvtaps in the lab of an ordinary user: sudo opens their devices, and frames pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netns.ordinary_user import OrdinaryUser, is_possible

from iolab.experiment import Resolver, cells, parse
from iolab.lab.compose import compose
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

LAB = """
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
    dut: {kind: vm, memory: 256M, pin: none, accel: tcg, nic: macvtap, forward: route}
  links:
    west: {ends: [near.p0, dut.eth0]}
    east: {ends: [far.p1, dut.eth1]}
measure:
  tcp: {kind: stream, from: near, to: far}
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[OrdinaryUser]:
    """Provide a user whom sudo allows to open macvtaps."""
    if not is_possible():
        pytest.skip(
            "needs root, sudo (scripts/packages.sh ssh installs it), and a Python outside of root's home folder"
        )
    made = OrdinaryUser(tmp_path / "user")
    yield made
    made.close()


def test_guest_of_an_ordinary_user_forwards_between_its_macvtaps(user: OrdinaryUser) -> None:
    """Send a megabyte through the guest, after a valid read-back."""
    experiment = parse(LAB, "lab.yaml")
    wanted = compose(Resolver(experiment).setup(next(cells(experiment))).lab)
    with user.agent() as agent:
        assert agent.hello.rootless
        lab = StandingLab(Agents(agent), lambda _: None)
        lab.change_to(wanted)
        assert lab.mismatches() == []
        shown = agent.run(["ip", "-br", "-4", "addr", "show", "p1"], netns="iolab-far").stdout
        address = shown.split()[2].partition("/")[0]
        ready = {"kind": "listening", "protocol": "tcp", "port": 5201}
        server = {"id": "server", "argv": ["iperf3", "-s", "-1"], "netns": "iolab-far", "ready": ready}
        agent.call("process.start", server)
        crossed = agent.run(["iperf3", "-c", address, "-n", "1M"], netns="iolab-near", timeout_ms=180_000)
        assert crossed.succeeded, crossed.stdout + crossed.stderr
        lab.take_down()
