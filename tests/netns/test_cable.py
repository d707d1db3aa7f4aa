"""Cables between two hosts, each with a separate sshd and /run: settings, read-back, and restoration on both."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.netns.cabled_hosts import agents, lab_of, pair, shown
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, Iolab, trials, until, value, wait_for_trials
from tests.netns.sshd import SshHost
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.agent.ssh import UNHEARD_S, SshTransport
from iolab.agent.transport import find_agent
from iolab.errors import LabError
from iolab.lab.compose import compose
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

__all__ = ["agents", "pair"]  # fixtures

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


def test_cable_settings_are_applied_read_back_and_restored(
    pair: tuple[SshHost, SshHost], agents: Agents
) -> None:
    """Check addresses, MTU and offloads on both hosts, and keep an existing address."""
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
    answer = pair[0].inside("bash -c ': </dev/tcp/198.18.0.2/9' 2>&1 || true")
    assert "refused" in answer, "who refuses has been reached"
    lab.change_to(compose(lab_of(LAB.replace("1400", "9000").replace("tso: off, ", ""))))
    assert lab.mismatches() == []
    assert "tcp-segmentation-offload: on" in shown(pair[1])
    lab.take_down()
    assert [shown(host) for host in pair] == before


def test_change_by_another_program_on_the_remote_host_is_detected(
    pair: tuple[SshHost, SshHost], agents: Agents
) -> None:
    """Name the host's port and both values."""
    lab = StandingLab(agents, lambda _: None)
    lab.change_to(compose(lab_of(LAB)))
    pair[1].inside("ip link set lan0 mtu 1300")
    sentence = in_words(lab.mismatches())
    assert "mtu of pc7.lan0 was set to 1400, but was read back as 1300" in sentence
    lab.take_down()


def test_lost_host_is_reported_and_the_other_host_is_restored(
    pair: tuple[SshHost, SshHost], agents: Agents
) -> None:
    """Reset one host during a change."""
    before = shown(pair[0])
    lab = StandingLab(agents, lambda _: None)
    lab.change_to(compose(lab_of(LAB)))
    pair[1].crash()
    with pytest.raises(LabError, match="pc7"):
        lab.change_to(compose(lab_of(LAB.replace("1400", "9000"))))
    assert shown(pair[0]) == before


RUN = (
    LAB.replace("to: pc7}", "to: pc7, duration: 1s}")
    + """
factors:
  links.lan.mtu: [1400, 9000]
blocks: 2
seed: 1
"""
)


@pytest.fixture
def iolab(pair: tuple[SshHost, SshHost], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the installed command in the test's folder."""
    (tmp_path / "lab.yaml").write_text(RUN)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        argv = [str(IOLAB), *map(str, arguments)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path)

    return run


def test_streams_between_two_hosts_are_measured_end_to_end(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Check rates and facts of both hosts; leave only the agent file."""
    before = [shown(host) for host in pair]
    done = iolab("run", "lab.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / done.stdout.splitlines()[-1]
    found = trials(folder)
    assert [trial["status"] for trial in found] == ["ok"] * 4
    assert min(value(trial, "received_bps") for trial in found) > 1e7
    assert set(json.loads((folder / "facts.json").read_text())["hosts"]) == {"pc6", "pc7"}
    assert [shown(host) for host in pair] == before
    assert [len(host.agents()) for host in pair] == [0, 0]


def test_missing_interface_of_a_host_is_reported_before_the_run(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Exit with status 3; name the host and its interfaces."""
    text = (tmp_path / "lab.yaml").read_text()
    (tmp_path / "lab.yaml").write_text(text.replace("pc7.lan0", "pc7.lan1"))
    refused = iolab("run", "lab.yaml")
    assert refused.returncode == 3
    assert "port pc7.lan1: pc7 has no interface lan1; it has eth0, lan0, lo" in refused.stderr


def test_unknown_host_key_ends_the_run_before_it_begins(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Exit with status 3; print the command that accepts the key, and accept nothing."""
    keys = tmp_path / "net/known_hosts"
    known = "".join(line for line in keys.read_text().splitlines(True) if pair[1].address not in line)
    keys.write_text(known)
    refused = iolab("run", "lab.yaml")
    assert refused.returncode == 3
    assert "connecting to pc7 with ssh: Host key verification failed" in refused.stderr
    assert "check the key and accept it once with `" in refused.stderr
    assert keys.read_text() == known
    assert not (tmp_path / "runs").exists()
    assert pair[0].agents() == []


def test_cable_on_the_ssh_interface_is_refused_before_any_change(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Check the interface of the address, and one below its bridge."""
    bridge = "ip link add br0 type bridge; ip link set eth0 master br0; ip addr flush dev eth0"
    pair[1].inside(f"{bridge}; ip addr add {pair[1].address}/24 dev br0; ip link set br0 up")
    state = "ip -4 -o addr; cat /sys/class/net/*/mtu; ethtool -k eth0; tc qdisc; ls /run/netns"
    before = [host.inside(state) for host in pair]
    text = (tmp_path / "lab.yaml").read_text()
    (tmp_path / "lab.yaml").write_text(text.replace("6.lan0", "6.eth0").replace("7.lan0", "7.eth0"))
    refused = iolab("run", "lab.yaml")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    for name in ("pc6", "pc7"):
        assert f"port {name}.eth0: eth0 carries an SSH connection to or from {name}" in refused.stderr
    assert not (tmp_path / "runs").exists()
    assert [host.inside(state) for host in pair] == before


@pytest.mark.full
def test_cut_connection_fails_one_trial_and_the_run_continues(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Report the host, and connect again once its agent has ended."""
    running = subprocess.Popen(
        [IOLAB, "run", "lab.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    folder = wait_for_trials(tmp_path / "runs", 1)
    pair[1].cut()
    until(lambda: any(trial["status"] == "failed" for trial in trials(folder)))
    pair[1].mend()
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1, errors
    statuses = [trial["status"] for trial in trials(folder)]
    assert statuses[0] == "ok"
    assert "failed" in statuses
    (reason, *_) = [t["reason"] for t in trials(folder) if t["status"] == "failed"]
    assert "pc7" in reason["said"]
    assert (
        f"the connection to pc7 was lost. The agent on pc7 undoes all changes within {UNHEARD_S} s"
        in reason["said"]
    )
    assert iolab("resume", folder, "--retry-failed").returncode == 0
    assert shown(pair[0]).count("mtu 1500") == shown(pair[1]).count("mtu 1500") == 1


@pytest.mark.full
def test_changes_of_a_killed_agent_are_undone_by_the_next_agent(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Accept the journal of the same run without `clean`."""
    before = shown(pair[1])
    running = subprocess.Popen(
        [IOLAB, "run", "lab.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    folder = wait_for_trials(tmp_path / "runs", 1)
    pair[1].inside(f"kill -9 {pair[1].agents()[0]}")
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1, errors
    found = trials(folder)
    assert sorted(trial["status"] for trial in found) == ["failed", "ok", "ok", "ok"]
    (reason,) = [trial["reason"] for trial in found if trial["status"] == "failed"]
    assert "pc7" in reason["said"]
    assert "run `iolab clean --host pc7` to undo the remaining changes" in reason["said"]
    assert shown(pair[1]) == before
    assert iolab("resume", folder, "--retry-failed").returncode == 0


@pytest.mark.full
def test_changes_of_an_agent_killed_in_the_last_trial_are_undone(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Connect at the end of the run."""
    before = shown(pair[1])
    (tmp_path / "lab.yaml").write_text(
        RUN.replace("[1400, 9000]", "[1400]").replace("duration: 1s", "duration: 20s")
    )
    running = subprocess.Popen(
        [IOLAB, "run", "lab.yaml", "--blocks", "1"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    until(lambda: "mtu 1400" in shown(pair[1]))
    pair[1].inside(f"kill -9 {pair[1].agents()[0]}")
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1, errors
    assert shown(pair[1]) == before


@pytest.mark.full
def test_clean_and_doctor_work_on_a_remote_host(pair: tuple[SshHost, SshHost], iolab: Iolab) -> None:
    """Remove the agent's file, too."""
    before = shown(pair[0])
    agent = Agent(SshTransport("pc6", find_agent()), name="pc6")
    undo = {"kind": "command", "argv": ["ip", "link", "set", "lan0", "mtu", "1500"]}
    agent.run(["ip", "link", "set", "lan0", "mtu", "1400"], undo=undo, undo_key="mtu:pc6.lan0")
    pair[0].inside(f"kill -9 {pair[0].agents()[0]}")
    agent.close()
    cleaned = iolab("clean", "--host", "pc6")
    assert (cleaned.returncode, "left by the killed agent" in cleaned.stdout) == (0, True), cleaned.stderr
    assert shown(pair[0]) == before
    assert not pair[0].cache.exists()
    examined = iolab("doctor", "--host", "root@pc6")
    assert "privilege: root" in examined.stdout
    assert "QEMU: " in examined.stdout
