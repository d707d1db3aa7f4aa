"""A host that really reboots: a guest with an ssh server, reset in mid-run; the run waits for it and goes on."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.guest.computers import MEASURING, Computers
from tests.guest.labs import PATIENCE_S
from tests.guest.rebooting import HOSTS
from tests.netns.conftest import IOLAB
from tests.netns.runs import trials, wait_for_trials

from iolab.image import Image
from iolab.lab.guests.guest import Guest
from iolab.run.agents import Agents
from iolab.run.guests.hypervisors import Hypervisors, Launch

LAB = """
lab:
  machines:
    pc6: {kind: host, ssh: pc6}
    pc7: {kind: host, ssh: pc7}
  links:
    lan: {ends: [pc6.eth1, pc7.eth1], cable: true, mtu: 1400}
measure:
  udp: {kind: stream, protocol: udp, rate: 5Mbit, from: pc6, to: pc7, duration: 6s}
blocks: 3
seed: 1
"""


class Rebooting(Hypervisors):
    """Starts guests that boot again when they are reset, where they otherwise end."""

    def prepare(self, guest: Guest, parent: str) -> Launch:
        """See Hypervisors."""
        launch = super().prepare(guest, parent)
        return replace(launch, argv=tuple(word for word in launch.argv if word != "-no-reboot"))


@pytest.fixture
def computers(
    host: Image, agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Computers]:
    """Two computers with a kernel of their own."""
    made = Computers(HOSTS, Rebooting(agents), tmp_path / "computers")
    monkeypatch.setenv("IOLAB_SSH", made.ssh)
    yield made
    made.lab.take_down()


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
        computers.inside(6, MEASURING)  # the second of three trials has begun
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
