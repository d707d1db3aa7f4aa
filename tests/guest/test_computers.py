"""Two computers, which are guests with an ssh server: their NICs are set and restored; one restarts during a run."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.computers import MEASURING, Computers
from tests.guest.labs import PATIENCE_S
from tests.netns.conftest import IOLAB
from tests.netns.runs import trials, wait_for_trials

from iolab.image import Image
from iolab.run.agents import Agents
from iolab.run.guests.hypervisors import Hypervisors

HOSTS = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: host}
    pc7: {kind: vm, cpus: 2, queues: 2, accel: tcg, image: host}
  links:
    ssh6: {ends: [ctl.c6, pc6.eth0], addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}}
    ssh7: {ends: [ctl.c7, pc7.eth0], addresses: {ctl.c7: 198.19.7.1/24, pc7.eth0: 198.19.7.2/24}}
    lan: {ends: [pc6.eth1, pc7.eth1], addresses: {pc6.eth1: 198.19.8.1/24, pc7.eth1: 198.19.8.2/24}}
measure:
  tcp: {kind: stream, from: pc6.eth1, to: pc7.eth1}
"""
"""Two guests that act as two computers, each connected to the namespace of ssh, and to each other."""
RESTART = """
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
CARDS = """
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


@pytest.fixture(scope="module")
def lasting_computers(
    host: Image, lasting_agents: Agents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Computers]:
    """Provide two computers with separate kernels; the NIC of pc7 has two queue pairs."""
    folder = tmp_path_factory.mktemp("hosts") / "computers"
    made = Computers(HOSTS, Hypervisors(lasting_agents), folder)
    yield made
    made.lab.take_down()


@pytest.fixture
def computers(lasting_computers: Computers, monkeypatch: pytest.MonkeyPatch) -> Computers:
    """Provide the computers over ssh; boot a computer that an earlier test left dead."""
    for number in lasting_computers.numbers:
        if not lasting_computers.answers(number):
            lasting_computers.restart(number)
    monkeypatch.setenv("IOLAB_SSH", lasting_computers.ssh)
    return lasting_computers


@pytest.mark.full
def test_settings_of_a_hosts_nic_are_applied_and_restored(computers: Computers, tmp_path: Path) -> None:
    """Require a valid trial and stored commands; compare the host's state before and after."""
    (tmp_path / "lab.yaml").write_text(CARDS)
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


@pytest.mark.full
def test_power_loss_of_a_host_fails_one_trial_and_the_run_continues(
    computers: Computers, tmp_path: Path
) -> None:
    """Report the lost host, measure the later trials, and restore the MTU of both cables."""
    (tmp_path / "lab.yaml").write_text(RESTART)
    environment = {**os.environ, "IOLAB_STATE_DIR": str(tmp_path / "inner")}
    running = subprocess.Popen(
        [IOLAB, "run", "lab.yaml"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        folder = wait_for_trials(tmp_path / "runs", 1, PATIENCE_S, running)
        computers.inside(6, MEASURING)  # the second of three trials has begun
        computers.restart(7)
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
        assert own == [f"198.19.8.{number - 5}"]
