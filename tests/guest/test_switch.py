"""NICs served by a user-space switch through memory that it shares with the guest: vhost-user, end to end."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.guest.labs import PATIENCE_S, run_in_background
from tests.netns.runs import processes_with, trials, until, value

pytestmark = [pytest.mark.usefixtures("switch", "unchanged_host"), pytest.mark.full]

SWITCHED = """
title: Cards carried by a switch in user space
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
    dut: {kind: vm, accel: tcg, nic: vhost-user, ring: {rx: 1024}, forward: bridge}
  links:
    west: {ends: [near.p0, dut.eth0]}
    east: {ends: [far.p1, dut.eth1]}
measure:
  delay: {kind: latency, from: near.p0, to: far.p1, frame_size: 64, rate: 200pps, duration: 1s}
  stream: {kind: stream, protocol: tcp, from: near, to: far, duration: 4s}
blocks: 2
seed: 1
"""


@pytest.fixture
def switch(newer_qemu: None) -> None:
    """Skip the test without a user-space switch."""
    if shutil.which("dpdk-testpmd") is None:
        pytest.skip("needs dpdk-testpmd; scripts/packages.sh guest installs it (package dpdk-dev)")


def test_user_space_switch_carries_frames_and_is_restarted_after_a_kill(tmp_path: Path) -> None:
    """Check whole frames at both ends, and the polling threads of each switch.

    If a switch is killed, its trial fails: the guest continues to run with a NIC that no switch serves, and the reason
    names the NIC. The next trial's stream is received, because the checksums of its frames are complete before the
    switch, which completes none.
    """
    file = tmp_path / "lab.yaml"
    file.write_text(SWITCHED)
    running = run_in_background(tmp_path, file)
    _kill_in_mid_trial(tmp_path / "state", "dpdk-testpmd")
    said = running.communicate(timeout=PATIENCE_S)[0]
    assert running.returncode == 1, said
    rows = trials(tmp_path / said.splitlines()[-1])
    first, second = (row for row in rows if row["measure"] == "stream")
    assert (first["status"], second["status"]) == ("failed", "ok"), (first["reason"], second["reason"])
    assert "the switch of eth" in str(first["reason"])
    assert value(second, "received_bps") > 1e6
    for trial in (row for row in rows if row["measure"] == "delay"):
        assert value(trial, "loss_ratio") < 0.05, "a busy host may cost frames: a switch waits for no guest"
        _says_what_its_switches_take(trial)


def _says_what_its_switches_take(trial: dict[str, Any]) -> None:
    assert trial["guests"]["dut"]["polling"] == ["eth0", "eth1"]
    for card in ("eth0", "eth1"):
        taken = value(trial, "thread_cpu_ratio", machine="dut", role="guest", thread=f"switch {card}")
        assert taken > 0.05, "it takes what CPU there is"
    (polling,) = (one for one in trial["warnings"] if one["code"] == "polling")
    assert polling["cards"] == ["dut.eth0", "dut.eth1"]


def _kill_in_mid_trial(state: Path, program: str) -> None:
    """Wait until the lab exists and a stream's client runs, then kill one process of that name."""
    found: dict[int, str] = {}

    def runs() -> bool:
        found.clear()
        found.update(processes_with(f"IOLAB_STATE_DIR={state}"))
        return list(found.values()).count("iperf3") == 2

    until(runs, PATIENCE_S, "no stream was begun")
    os.kill(next(pid for pid, name in found.items() if name == program), signal.SIGKILL)
