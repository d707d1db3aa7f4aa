"""A study's lab on remote hosts, reached by real sshds: a site changes only names, and missing parts are left out."""

from pathlib import Path

import pytest
from tests.guest.labs import PATIENCE_S, one_cell, short_study
from tests.netns.runs import Iolab, trials, until
from tests.netns.sshd import Network, SshHost

RACK = """
hosts: {tester: tester, pc1: pc1}
on: {dut1: pc1}
cables:
  west1: [tester.west0, pc1.west0]
  east1: [tester.east0, pc1.east0]
"""


@pytest.fixture
def rack(network: Network) -> tuple[SshHost, SshHost]:
    """Provide a tester and a host for guests, connected by two cables."""
    hosts = network.host("tester"), network.host("pc1")
    for cable in ("west0", "east0"):
        network.cable(*hosts, cable)
    return hosts


@pytest.mark.full
def test_kvm_study_runs_on_a_tester_and_a_host_with_a_guest(
    rack: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Send frames through the guest on the other host; restore both."""

    def shown() -> list[str]:
        command = "ip -o link | cut -d ' ' -f 2,4-; ls /run/netns"
        return [line for host in rack for line in host.inside(command).splitlines()]

    until(lambda: not any("state DOWN" in line for line in shown()), never="the cables have no carrier")
    before = shown()
    lab, site = (
        short_study(tmp_path, "kvm-forwarding.yaml", {"limit: 30s": "limit: 10s"}),
        tmp_path / "rack.yaml",
    )
    site.write_text(RACK)
    checked = iolab("check", lab, "--on", site)
    assert checked.returncode == 0, checked.stderr
    done = iolab("run", lab, "--on", site, "--only", one_cell(lab, site), "--blocks", 1, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = trials(tmp_path / done.stdout.splitlines()[-1])
    assert {row["status"] for row in rows} == {"ok"}
    for row in rows:
        assert row["guests"]["dut1"]["on"] == "pc1"
    figures = [figure for row in rows for figure in row["metrics"]]
    assert max(one["value"] for one in figures if one["name"] == "forwarded_fps") > 100, (
        "a busy computer may leave a search without a rate, but no load curve without frames"
    )
    shared = [warning for row in rows for warning in row["warnings"] if warning["code"] == "cpu-shared"]
    assert "dut" not in str(shared)
    assert "pc1" not in str(shared), "CPUs of another host are no CPUs of the tester's"
    assert shown() == before
