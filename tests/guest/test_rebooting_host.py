"""A host that really reboots: a guest with an ssh server, reset in mid-run; the run waits for it and goes on."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.guest.labs import IOLAB, agents, ask_monitor, needs_guests, trials, unchanged_host
from tests.netns.sshd import keygen
from tests.netns.test_line import wait_for_trials

from iolab.agent.client import Agent, AgentLost
from iolab.agent.transport import find_agent
from iolab.experiment import Resolver, cells, parse
from iolab.image.build import find
from iolab.lab.compose import compose
from iolab.lab.guest import Guest
from iolab.run.agents import Agents
from iolab.run.guests import Guests
from iolab.run.hypervisor import Hypervisors, Launch
from iolab.run.standing import StandingLab

__all__ = ["agents", "needs_guests", "unchanged_host"]
pytestmark = pytest.mark.guest

HOSTS = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: host}
    pc7: {kind: vm, accel: tcg, image: host}
  links:
    ssh6: {ends: [ctl.c6, pc6.eth0], addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}}
    ssh7: {ends: [ctl.c7, pc7.eth0], addresses: {ctl.c7: 198.19.7.1/24, pc7.eth0: 198.19.7.2/24}}
    lan: {ends: [pc6.eth1, pc7.eth1], addresses: {pc6.eth1: 198.19.8.1/24, pc7.eth1: 198.19.8.2/24}}
measure:
  tcp: {kind: stream, from: pc6.eth1, to: pc7.eth1}
"""
"""Two guests that stand for two computers, each joined to where ssh is started, and to each other."""
LAB = """
lab:
  machines:
    pc6: {kind: host, ssh: pc6}
    pc7: {kind: host, ssh: pc7}
  links:
    lan: {ends: [pc6.eth1, pc7.eth1], cable: true, mtu: 1400}
measure:
  udp: {kind: stream, protocol: udp, rate: 5Mbit, from: pc6, to: pc7, duration: 3s}
blocks: 3
seed: 1
"""
SSHD = """
mkdir -p /run/sshd && cd ~root && mkdir -p .ssh && chmod 700 . .ssh
printf '%s' "$1" >.ssh/authorized_keys && printf '%s' "$2" >/run/sshd/key && chmod 600 /run/sshd/key
for setting in 'HostKey /run/sshd/key' 'PermitRootLogin prohibit-password' 'UsePAM no' 'UseDNS no' \
  'SetEnv IOLAB_STATE_DIR=/run/other'; do echo "$setting"; done >/run/sshd/config
mkdir -p -m 700 /run/other
ip link set lo up
ip addr add 198.19.$3.2/24 dev eth0 2>/dev/null || true; ip link set eth0 up; ip link set eth1 up
exec /usr/sbin/sshd -f /run/sshd/config
"""
"""What a computer's own boot does; the guest's own agent has a state folder that is not the one of agents by ssh."""

PATIENCE_S = 120
"""Everything is emulated, and the host's CPUs may be shared."""


class Rebooting(Hypervisors):
    """Starts guests that boot again when they are reset, where they otherwise end."""

    def prepare(self, guest: Guest, parent: str) -> Launch:
        """See Hypervisors."""
        launch = super().prepare(guest, parent)
        return replace(launch, argv=tuple(word for word in launch.argv if word != "-no-reboot"))


class Computers:
    """The two guests, and the way to them."""

    def __init__(self, agents: Agents, folder: Path) -> None:
        self._agents, self._folder = agents, folder
        experiment = parse(HOSTS, "hosts.yaml")
        self.lab = StandingLab(agents, lambda _: None, Guests(agents, Rebooting(agents)))
        self.lab.change_to(compose(Resolver(experiment).setup(next(cells(experiment))).lab))
        for name in ("key", "host_key"):
            keygen(folder / name)
        public = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text("".join(f"198.19.{number}.2 {public}" for number in (6, 7)))
        (folder / "config").write_text(
            f"IdentityFile {folder}/key\nUserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile none\n"
            + "".join(f"Host pc{number}\n HostName 198.19.{number}.2\n User root\n" for number in (6, 7))
        )
        for number in (6, 7):
            self.boot(number)

    @property
    def ssh(self) -> str:
        """The ssh command that reaches them, for IOLAB_SSH."""
        return f"nsenter --net=/run/netns/iolab-ctl ssh -F {self._folder}/config"

    def boot(self, number: int) -> None:
        """Do what a computer's boot does, as soon as its own agent answers."""
        keys = [(self._folder / name).read_text() for name in ("key.pub", "host_key")]
        done = self.agent(number).run(["sh", "-ec", SSHD, "boot", *keys, str(number)])
        assert done.succeeded, done.stderr

    def reset(self, number: int) -> None:
        """Press the reset button; come back when the kernel runs anew."""
        running = self.lab.guests.started(f"pc{number}")
        assert running is not None
        ask_monitor(Path(running.launch.monitor), "system_reset")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(AgentLost):
                self.agent(number).call("agent.ping", {}, 1.0)
                return
        raise AssertionError("it did not boot again")

    def agent(self, number: int) -> Agent:
        """Return the guest's own agent, which is its init."""
        return self._agents.of(f"pc{number}")


@pytest.fixture
def computers(agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Computers]:
    """Two computers with a kernel of their own."""
    if find("host", find_agent()) is None:
        pytest.skip("needs the guest image host with this agent: iolab image build host")
    folder = tmp_path / "computers"
    folder.mkdir()
    made = Computers(agents, folder)
    monkeypatch.setenv("IOLAB_SSH", made.ssh)
    yield made
    made.lab.take_down()


@pytest.mark.timeout(600)
def test_a_host_that_is_reset_in_mid_run_costs_a_trial_and_is_waited_for(
    computers: Computers, tmp_path: Path
) -> None:
    """The reason names it; the trials after it are measured; in the end both cables have their own MTU again."""
    (tmp_path / "lab.yaml").write_text(LAB)
    environment = {**os.environ, "IOLAB_STATE_DIR": str(tmp_path / "inner")}
    running = subprocess.Popen(
        [IOLAB, "run", "lab.yaml"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE
    )
    try:
        folder = wait_for_trials(tmp_path / "runs", 1, PATIENCE_S)
        time.sleep(1.5)
        computers.reset(7)
        computers.boot(7)
        _, errors = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    assert running.returncode == 1, errors
    found = trials(folder)
    assert [trial["status"] for trial in found] == ["ok", "failed", "ok"]
    assert "pc7" in str(found[1]["reason"])
    for number in (6, 7):
        (shown,) = json.loads(computers.agent(number).run(["ip", "-j", "addr", "show", "eth1"]).stdout)
        assert shown["mtu"] == 1500
        own = [one["local"] for one in shown["addr_info"] if one["family"] == "inet"]
        assert own == (["198.19.8.1"] if number == 6 else [])
