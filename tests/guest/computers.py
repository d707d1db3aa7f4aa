"""Guests that act as whole computers: with a separate kernel and a real sshd, and outside the lab under test.

They are named pc6, pc7 and so on; eth0 leads to the namespace `ctl`, where ssh is started.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.guest.labs import PATIENCE_S
from tests.netns.sshd import keygen

from iolab.agent.client import Agent, AgentLost
from iolab.agent.transport import LocalTransport, find_agent
from iolab.experiment import Resolver, cells, parse
from iolab.lab.compose import compose
from iolab.lab.resources import dependents
from iolab.run.agents import Agents
from iolab.run.guests.guests import Guests
from iolab.run.guests.hypervisors import Hypervisors
from iolab.run.lab.standing_lab import StandingLab

SSHD = """
mkdir -p /run/sshd && cd ~root && mkdir -p .ssh && chmod 700 . .ssh
printf '%s' "$1" >.ssh/authorized_keys && printf '%s' "$2" >/run/sshd/key && chmod 600 /run/sshd/key
for setting in 'HostKey /run/sshd/key' 'PermitRootLogin prohibit-password' 'UsePAM no' 'UseDNS no' \
  'SetEnv IOLAB_STATE_DIR=/run/other'; do echo "$setting"; done >/run/sshd/config
mkdir -p -m 700 /run/other
ip link set lo up
ip addr add 198.19.$3.2/24 dev eth0 2>/dev/null || true; ip link set eth0 up
"""
"""Boot script of a computer; the guest's own agent has a different state folder from agents over ssh."""
LISTEN = "exec /usr/sbin/sshd -f /run/sshd/config\n"
MEASURING = "until pgrep -x -a iperf3 | grep -q -e --client; do sleep 1; done; "
"""Waits on a computer until it sends; after PATIENCE_S the test fails."""
PATIENCE_MS = int(PATIENCE_S * 1000)


class Computers:
    """Computers, and the connections to them."""

    def __init__(
        self, lab: str, hypervisors: Hypervisors, folder: Path, *, boot: str = "ip link set eth1 up\n"
    ) -> None:
        self._folder, self._boot, self._agents = folder, boot, hypervisors.agents
        folder.mkdir()
        experiment = parse(lab, "computers.yaml")
        wanted = Resolver(experiment).setup(next(cells(experiment))).lab
        self.lab = StandingLab(self._agents, lambda _: None, Guests(self._agents, hypervisors))
        self._wanted = compose(wanted)
        self.lab.change_to(self._wanted)
        self.numbers = [int(name[2:]) for name, machine in wanted.machines.items() if machine.kind == "vm"]
        for name in ("key", "host_key"):
            keygen(folder / name)
        public = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text("".join(f"198.19.{number}.2 {public}" for number in self.numbers))
        (folder / "config").write_text(
            f"IdentityFile {folder}/key\nUserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile none\n"
            + "".join(
                f"Host pc{number}\n HostName 198.19.{number}.2\n User root\n" for number in self.numbers
            )
        )
        with ThreadPoolExecutor(len(self.numbers)) as workers:
            list(workers.map(self.boot, self.numbers))

    @property
    def ssh(self) -> str:
        """Return the ssh command that reaches them, for IOLAB_SSH."""
        return f"nsenter --net=/run/netns/iolab-ctl ssh -F {self._folder}/config"

    def boot(self, number: int) -> None:
        """Run the boot script of a computer as soon as its own agent answers."""
        keys = [(self._folder / name).read_text() for name in ("key.pub", "host_key")]
        script = SSHD + self._boot + LISTEN
        argv = ["sh", "-ec", script, "boot", *keys, str(number)]
        done = self.agent(number).run(argv, timeout_ms=PATIENCE_MS)
        assert done.succeeded, done.stderr

    def restart(self, number: int) -> None:
        """Power a computer off and on: an emulated kernel that is reset may hang."""
        name = f"pc{number}"
        running = self.lab.guests.started(name)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        gone = {f"vm:{name}", *dependents(self._wanted, [f"vm:{name}"])}
        self.lab.change_to(tuple(one for one in self._wanted if one.key not in gone))
        self.lab.change_to(self._wanted)
        self.boot(number)

    def answers(self, number: int) -> bool:
        """Return whether the computer's own agent answers."""
        with suppress(AgentLost):
            self.agent(number).call("agent.ping", {}, 5.0)
            return True
        return False

    def agent(self, number: int) -> Agent:
        """Return the computer's own agent, which is its init."""
        return self._agents.of(f"pc{number}")

    def inside(self, number: int, script: str) -> str:
        """Return the output of a script on the computer, run by its own agent; fail after the time limit."""
        done = self.agent(number).run(["sh", "-c", script], timeout_ms=PATIENCE_MS)
        assert not done.timed_out, f"pc{number} had not done it after {PATIENCE_S:.0f} s: {script}"
        return done.stdout


@contextmanager
def computers_for_runs(lab: str, folder: Path) -> Iterator[Computers]:
    """Start computers that runs of iolab reach by ssh; the runs have a state folder of their own.

    A run that ends undoes all changes of its agent's state folder, and must not undo the computers.
    """
    with Agent(LocalTransport(find_agent())) as here:
        computers = Computers(lab, Hypervisors(Agents(here)), folder / "computers", boot="")
        try:
            os.environ["IOLAB_SSH"] = computers.ssh
            os.environ["IOLAB_STATE_DIR"] = str(folder / "state")
            yield computers
        finally:
            computers.lab.take_down()
