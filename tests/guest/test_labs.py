"""Labs with real guests, end to end: built, measured, read back, and removed."""

import os
import signal
import time
from pathlib import Path

import pytest
from tests.guest.labs import PATIENCE_S, ask_monitor, measured, run_in_background, wait_for_console
from tests.netns.runs import Iolab, processes_with, trials, until, value

MIDDLE = """
title: A guest in the middle
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
    dut: {kind: vm, accel: tcg, forward: bridge, settings: {kernel.unknown_nmi_panic: 1}}
  links:
    west: {ends: [near.p0, dut.eth0]}
    east: {ends: [dut.eth1, far.p1]}
measure:
  stream: {kind: stream, protocol: udp, rate: 5Mbit, from: near, to: far, duration: 5s}
blocks: BLOCKS
seed: 1
"""
ROW = """
title: A row of guests, each with other cards
lab:
  machines:
    tester: {kind: netns}
    g1: {GUEST, nic: e1000}
    g2: {GUEST, nic: e1000e}
    g3: {GUEST, nic: rtl8139}
    g4: {GUEST, nic: vmxnet3}
  links:
    l0: {ends: [tester.p0, g1.eth0]}
    l1: {ends: [g1.eth1, g2.eth0]}
    l2: {ends: [g2.eth1, g3.eth0]}
    l3: {ends: [g3.eth1, g4.eth0]}
    l4: {ends: [g4.eth1, tester.p1]}
measure:
  delay: {kind: latency, from: tester.p0, to: tester.p1, frame_size: 64, rate: 200pps, duration: 1s}
""".replace("GUEST", "kind: vm, accel: tcg, memory: 384M, forward: bridge")


def experiment(path: Path, *, blocks: int = 1) -> Path:
    """Write an experiment with a guest between two namespaces."""
    file = path / "guest.yaml"
    file.write_text(MIDDLE.replace("BLOCKS", str(blocks)))
    return file


def test_every_emulated_nic_carries_frames_as_soon_as_its_guest_is_ready(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Chain all NICs, so that a frame passes each of them; e1000 once delayed frames for hundreds of ms."""
    folder = measured(tmp_path, ROW)
    (trial,) = trials(folder)
    assert value(trial, "loss_ratio") < 0.1, "a busy host may cost some frames"
    assert value(trial, "latency_p50_ns") < 100e6
    assert {guest["accel"] for guest in trial["guests"].values()} == {"tcg"}
    (packages,) = {guest["packages"] for guest in trial["guests"].values()}
    assert "\niperf3=" in (folder / "packages" / f"{packages}.txt").read_text()
    assert "emulated" in [warning["code"] for warning in trial["warnings"]]


@pytest.mark.full
def test_guest_panic_fails_the_trial_and_the_guest_is_restarted(iolab: Iolab, tmp_path: Path) -> None:
    """Quote the console in the reason; measure later trials."""
    file = experiment(tmp_path, blocks=2)
    running = run_in_background(tmp_path, file)
    guest = wait_for_console(tmp_path / "state", "dut")
    _wait_for_client(tmp_path / "state")
    ask_monitor(guest / "monitor", "inject-nmi")
    said, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1, said
    folder = tmp_path / said.splitlines()[-1]
    first, second = trials(folder)
    assert (first["status"], second["status"]) == ("failed", "ok"), second["reason"]
    assert "dut" in str(first["reason"])
    assert "panic" in str(first["reason"])


def test_kill_9_of_the_controller_leaves_no_guest(iolab: Iolab, tmp_path: Path) -> None:
    """Let the agent end the guest and undo the rest."""
    running = run_in_background(tmp_path, experiment(tmp_path))
    guest = wait_for_console(tmp_path / "state", "dut")
    time.sleep(0.5)  # the guest boots, and nothing is ready yet
    running.kill()
    running.communicate()
    _wait_for_end(tmp_path / "state")
    assert not guest.exists()


@pytest.mark.full
def test_changes_of_a_killed_agent_are_undone_by_clean(iolab: Iolab, tmp_path: Path) -> None:
    """Check namespaces and the scratch folder, too."""
    running = run_in_background(tmp_path, experiment(tmp_path))
    guest = wait_for_console(tmp_path / "state", "dut")
    time.sleep(0.5)  # the guest boots, and nothing is ready yet
    for child in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
    said, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 3, said
    _wait_for_end(tmp_path / "state")
    assert iolab("clean").returncode == 0
    assert not guest.exists()


def _wait_for_end(state: Path) -> None:
    """Wait until the guest, and the agent that undoes the rest, have ended."""
    until(lambda: not processes_with(f"IOLAB_STATE_DIR={state}"), never="the guest or its agent runs on")


def _wait_for_client(state: Path) -> None:
    """Wait until a stream's client runs."""

    def runs() -> bool:
        return list(processes_with(f"IOLAB_STATE_DIR={state}").values()).count("iperf3") >= 2

    until(runs, PATIENCE_S, "no stream was begun")
