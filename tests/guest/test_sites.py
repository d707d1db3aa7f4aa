"""The study labs on other hosts, reached by real sshds: a site changes names only, and what it lacks is left out."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.guest.computers import Computers
from tests.guest.labs import PATIENCE_S
from tests.guest.xen_hosts import BOOT, WithRoom
from tests.netns.conftest import IOLAB
from tests.netns.runs import trials, until, value
from tests.netns.sshd import Network, SshHost

from iolab.experiment import load
from iolab.run.agents import Agents

LABS = Path(__file__).parents[2] / "labs"
Iolab = Callable[..., subprocess.CompletedProcess[str]]

RACK = """
hosts: {tester: tester, pc1: pc1}
on: {dut: pc1}
cables:
  west: [tester.west0, pc1.west0]
  east: [tester.east0, pc1.east0]
"""
TWO_XEN_HOSTS = """
hosts: {pc6: pc6, pc7: pc7}
cables: {lan: [pc6.eth1, pc7.eth1]}
"""
COMPUTERS = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: xen, cpus: 2, memory: 2G}
    pc7: {kind: vm, accel: tcg, image: xen, cpus: 2, memory: 2G}
  links:
    ssh6: {ends: [ctl.c6, pc6.eth0], addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}}
    ssh7: {ends: [ctl.c7, pc7.eth0], addresses: {ctl.c7: 198.19.7.1/24, pc7.eth0: 198.19.7.2/24}}
    cable: {ends: [pc6.eth1, pc7.eth1]}
measure:
  tcp: {kind: stream, from: ctl, to: pc6}
"""


def one_cell(lab: Path, site: Path) -> str:
    """Return a selection of one cell that the lab's quick run has; what that leaves open is as in the baseline."""
    study = load(lab, site)
    quick = {name: labels[0] for name, labels in study.quick[0].items()}
    return ",".join(f"{name}={label}" for name, label in {**study.baseline, **quick}.items())


@pytest.fixture
def rack(network: Network) -> tuple[SshHost, SshHost]:
    """A tester and a host for guests, joined by two cables."""
    hosts = network.host("tester"), network.host("pc1")
    for cable in ("west0", "east0"):
        network.cable(*hosts, cable)
    return hosts


def test_the_kvm_study_runs_on_a_tester_and_a_host_for_its_guest(
    rack: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Frames go from the tester's card through the guest on the other host and back; both are left as they were."""

    def shown() -> list[str]:
        command = "ip -o link | cut -d ' ' -f 2,4-; ls /run/netns"
        return [line for host in rack for line in host.inside(command).splitlines()]

    until(lambda: not any("state DOWN" in line for line in shown()), never="the cables have no carrier")
    before = shown()
    lab, site = LABS / "kvm-forwarding.yaml", tmp_path / "rack.yaml"
    site.write_text(RACK)
    checked = iolab("check", lab, "--on", site)
    assert checked.returncode == 0, checked.stderr
    done = iolab("run", lab, "--on", site, "--only", one_cell(lab, site), "--blocks", 1, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = trials(tmp_path / done.stdout.splitlines()[-1])
    assert {row["status"] for row in rows} == {"ok"}
    for row in rows:
        assert row["guests"]["dut"]["on"] == "pc1"
    figures = [figure for row in rows for figure in row["metrics"]]
    assert max(one["value"] for one in figures if one["name"] == "forwarded_fps") > 100, (
        "a busy computer may leave a search without a rate, but no load curve without frames"
    )
    shared = [warning for row in rows for warning in row["warnings"] if warning["code"] == "cpu-shared"]
    assert "dut" not in str(shared)
    assert "pc1" not in str(shared), "CPUs of another host are no CPUs of the tester's"
    assert shown() == before


@pytest.fixture
def xen_hosts(
    disk_of_images: Path, agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Computers]:
    """Two computers that run Xen, joined by a cable, each with an sshd."""
    made = Computers(
        COMPUTERS,
        WithRoom(agents, disk_of_images),
        tmp_path / "computers",
        boot=BOOT + "ip link set eth1 up\n",
    )
    monkeypatch.setenv("IOLAB_SSH", made.ssh)
    yield made
    made.lab.take_down()


def test_the_xen_study_runs_on_two_hosts_that_run_xen(xen_hosts: Computers, tmp_path: Path) -> None:
    """What were virtual computers are hosts by ssh, each with its domain; one cell of the study is measured."""
    lab, site = LABS / "xen-vlan.yaml", tmp_path / "xen.yaml"
    site.write_text(TWO_XEN_HOSTS)
    environment = {**os.environ, "IOLAB_STATE_DIR": str(tmp_path / "inner")}
    argv = [IOLAB, "run", lab, "--on", site, "--only", one_cell(lab, site), "--blocks", "1"]
    done = subprocess.run(
        [*map(str, argv)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = trials(tmp_path / done.stdout.splitlines()[-1])
    assert {row["status"] for row in rows} == {"ok"}
    assert {guest["on"] for row in rows for guest in row["guests"].values()} == {"pc6", "pc7"}
    assert min(value(row, "received_bps") for row in rows) > 1e5
