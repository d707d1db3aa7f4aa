"""Domains on Xen hosts, reached by ssh: created from iolab's image, lost, never left behind; the study."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.computers import MEASURING, Computers
from tests.guest.labs import PATIENCE_S, one_cell, short_study
from tests.guest.xen_hosts import BOOT, COMPUTERS, WithRoom
from tests.netns.conftest import IOLAB
from tests.netns.runs import Iolab, trials, value, wait_for_trials
from tests.netns.sshd import Network

from iolab.report.locale import EN
from iolab.run.agents import Agents
from iolab.run.doctor.findings import Grade, xen_finding

LAB = """
lab:
  machines:
    pc6: {kind: host, ssh: pc6}
    dom1: {kind: vm, engine: xen, on: pc6, memory: 256M, pin: [2]}
  links:
    lan: {ends: [pc6.p0, dom1.eth0]}
measure:
  udp: {kind: stream, protocol: udp, rate: 1Mbit, from: pc6, to: dom1, duration: 15s}
blocks: 2
seed: 1
"""
TWO_XEN_HOSTS = """
hosts: {pc6: pc6, pc7: pc7}
cables: {lan: [pc6.eth1, pc7.eth1]}
"""
LEFT = (
    "xl list | tail -n +2 | cut -d ' ' -f 1; losetup -a; grep /run/other /proc/mounts; "
    "ls /run/other/f; ls -d /sys/class/net/*/"
)
"""State that a domain could leave behind; the file of the bonding module stays next to the interfaces once loaded."""


@pytest.fixture(scope="module")
def lasting_computers(
    disk_of_image: Path, lasting_agents: Agents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Computers]:
    """Provide two Xen hosts, each with a separate kernel, root file system and sshd."""
    hypervisors = WithRoom(lasting_agents, disk_of_image)
    made = Computers(COMPUTERS, hypervisors, tmp_path_factory.mktemp("xen") / "computers", boot=BOOT)
    yield made
    made.lab.take_down()


@pytest.fixture
def computers(lasting_computers: Computers, monkeypatch: pytest.MonkeyPatch) -> Computers:
    """Provide the Xen hosts over ssh."""
    monkeypatch.setenv("IOLAB_SSH", lasting_computers.ssh)
    return lasting_computers


@pytest.mark.full
def test_lost_xen_domain_is_recreated_and_no_domain_outlives_the_agent(
    computers: Computers, tmp_path: Path
) -> None:
    """Destroy it by hand: its trial fails, and the next one measures a new domain until the host's agent is killed."""
    (tmp_path / "lab.yaml").write_text(LAB)
    before = computers.inside(6, LEFT)
    assert before.startswith("Domain-0\n"), "only Dom0 runs"
    environment = {**os.environ, "IOLAB_STATE_DIR": str(tmp_path / "inner")}
    found = xen_finding(computers.agent(6))
    assert re.fullmatch(
        r"4\.\S+, running as Dom0; \d+ of \d+ MiB and 1 of 3 CPUs are free for Xen domains",
        EN.said.say_all(found.seen),
    )
    assert found.grade is Grade.GOOD, EN.said.advise_all(found.seen)
    running = subprocess.Popen(
        [IOLAB, "run", "lab.yaml"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        computers.inside(6, MEASURING + "xl destroy dom1")
        wait_for_trials(tmp_path / "runs", 1, PATIENCE_S, running)
        computers.inside(6, MEASURING + "pkill -9 -f '^[^ ]*/agent-[0-9a-f]* --silence-s'")
        _, errors = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    (folder,) = (tmp_path / "runs").iterdir()
    destroyed, killed = trials(folder)
    assert [destroyed["status"], killed["status"]] == ["failed", "failed"], errors
    assert "dom1" in str(destroyed["reason"])
    assert "pc6" in str(killed["reason"])
    assert computers.inside(6, LEFT) == before


@pytest.mark.full
def test_xen_study_runs_on_two_xen_hosts(computers: Computers, tmp_path: Path) -> None:
    """Replace virtual hosts by hosts over ssh, each with a domain; measure one cell."""
    lab = short_study(tmp_path, "xen-vlan.yaml", {"duration: 10s": "duration: 3s"})
    site = tmp_path / "xen.yaml"
    site.write_text(TWO_XEN_HOSTS)
    environment = {**os.environ, "IOLAB_STATE_DIR": str(tmp_path / "inner")}
    argv = [IOLAB, "run", lab, "--on", site, "--only", one_cell(lab, site), "--blocks", "1"]
    done = subprocess.run(
        [*map(str, argv)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = trials(tmp_path / done.stdout.splitlines()[-1])
    assert {row["status"] for row in rows} == {"ok"}
    domains = [guest for row in rows for guest in row["guests"].values()]
    assert {(guest["on"], guest["accel"]) for guest in domains} == {("pc6", "xen"), ("pc7", "xen")}
    assert min(value(row, "received_bps") for row in rows) > 1e5


@pytest.mark.full
def test_host_without_xen_is_refused_before_anything_is_created(
    iolab: Iolab, tmp_path: Path, network: Network
) -> None:
    """Report the unmet requirement and an alternative; copy nothing."""
    host = network.host("pc6")
    (tmp_path / "lab.yaml").write_text(LAB)
    done = iolab("run", "lab.yaml")
    assert done.returncode != 0
    told = " ".join((done.stdout + done.stderr).split())
    assert (
        "machine dom1: pc6 does not run Xen, or is not its Dom0; put the guest on a VM with `image: xen`"
        in told
    )
    assert "xl is not installed" in told
    assert not list(host.cache.glob("image-*"))
