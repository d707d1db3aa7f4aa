"""Queues and interrupts of another computer's own card: set for a run, read back by it, and as before afterwards."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.computers import Computers
from tests.guest.labs import PATIENCE_S
from tests.guest.rebooting import HOSTS
from tests.netns.conftest import IOLAB
from tests.netns.runs import trials

from iolab.image import Image
from iolab.run.agents import Agents
from iolab.run.guests.hypervisors import Hypervisors

LAB = """
lab:
  machines:
    pc6: {kind: host, ssh: pc6}
    pc7: {kind: host, ssh: pc7, host: {queues: 1, irq_cpus: [1]}}
  links:
    lan: {ends: [pc6.eth1, pc7.eth1], cable: true}
measure:
  udp: {kind: stream, protocol: udp, rate: 5Mbit, from: pc6, to: pc7, duration: 1s}
seed: 1
"""
SHOWN = """
ethtool -l eth1
for number in $(ls $(dirname $(readlink -f /sys/class/net/eth1/device))/msi_irqs); do
    echo $number $(cat /proc/irq/$number/smp_affinity_list)
done
"""


@pytest.fixture
def computers(
    agents: Agents, host: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Computers]:
    """Two computers with a kernel of their own; the card of pc7 has two queue pairs."""
    wide = HOSTS.replace("pc7: {kind: vm,", "pc7: {kind: vm, cpus: 2, queues: 2,")
    made = Computers(wide, Hypervisors(agents), tmp_path / "computers")
    monkeypatch.setenv("IOLAB_SSH", made.ssh)
    yield made
    made.lab.take_down()


def test_a_computers_own_card_is_set_and_put_back(computers: Computers, tmp_path: Path) -> None:
    """The trial counts, so what was read back was as applied; the commands are stored; nothing stays."""
    (tmp_path / "lab.yaml").write_text(LAB)
    before = computers.agent(7).run(["sh", "-ec", SHOWN]).stdout
    assert "Combined:\t2" in before
    environment = {**os.environ, "IOLAB_STATE_DIR": str(tmp_path / "inner")}
    done = subprocess.run(
        [IOLAB, "run", "lab.yaml"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / done.stdout.splitlines()[-1]
    (trial,) = trials(folder)
    assert trial["status"] == "ok"
    emulated = [one["machines"] for one in trial["warnings"] if one["code"] == "emulated"]
    assert emulated[0][:2] == ["pc6", "pc7"]
    typed = (folder / "commands.jsonl").read_text()
    assert '"ethtool","-L","eth1","combined","1"' in typed.replace(", ", ",")
    queue_interrupt = next(
        number for number, _ in map(str.split, before.splitlines()[-2:]) if f"/proc/irq/{number}/" in typed
    )
    assert f"echo 1 > /proc/irq/{queue_interrupt}/smp_affinity_list" in typed
    assert computers.agent(7).run(["sh", "-ec", SHOWN]).stdout == before
