"""Labs with real guests, end to end: built, measured, read back, and gone afterwards."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.guest.labs import (
    ask_monitor,
    iolab,
    needs_guests,
    processes_with,
    run_in_background,
    trials,
    unchanged_host,
    wait_for_console,
)

__all__ = ["iolab", "needs_guests", "unchanged_host"]
pytestmark = pytest.mark.guest

Iolab = Callable[..., subprocess.CompletedProcess[str]]

MIDDLE = """
title: A guest in the middle
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
    dut: {kind: vm, accel: tcg, forward: FORWARD, settings: {kernel.unknown_nmi_panic: 1}}
  links:
    west: {ends: [near.p0, dut.eth0]}
    east: {ends: [dut.eth1, far.p1]}
measure:
  stream: {kind: stream, protocol: udp, rate: 5Mbit, from: near, to: far, duration: DURATION}
FACTORS
blocks: BLOCKS
seed: 1
"""
CARDS = (("e1000", "e1000e", "macvtap"), ("rtl8139", "vmxnet3", "virtio-net"))


def experiment(
    path: Path, *, forward: str = "bridge", duration: str = "1s", factors: str = "", blocks: int = 1
) -> Path:
    """Write an experiment with a guest between two namespaces."""
    file = path / "guest.yaml"
    text = MIDDLE.replace("FORWARD", forward).replace("DURATION", duration)
    file.write_text(text.replace("FACTORS", factors).replace("BLOCKS", str(blocks)))
    return file


def folder_of(done: subprocess.CompletedProcess[str], tmp_path: Path) -> Path:
    """Return the run's folder, which is the last line printed."""
    return tmp_path / done.stdout.splitlines()[-1]


@pytest.mark.parametrize("cards", CARDS)
def test_every_card_that_this_computer_can_give_carries_frames_through_a_bridging_guest(
    cards: tuple[str, ...], iolab: Iolab, tmp_path: Path
) -> None:
    """One guest after another; each receives what was sent, and says that it was emulated."""
    factors = f"factors: {{machines.dut.nic: [{', '.join(cards)}]}}"
    done = iolab("run", experiment(tmp_path, factors=factors))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = trials(folder_of(done, tmp_path))
    assert sorted(row["cell"]["machines.dut.nic"] for row in rows) == sorted(cards)  # type: ignore[index]
    for row in rows:
        received = row["metrics"]["received_bps"]["value"]  # type: ignore[index]
        assert received == pytest.approx(5e6, rel=0.2), row["cell"]
        assert row["guests"]["dut"]["accel"] == "tcg"  # type: ignore[index]
        assert "emulated" in [warning["code"] for warning in row["warnings"]]  # type: ignore[attr-defined]


def test_a_routing_guest_joins_two_networks_and_is_described_in_the_runs_folder(
    iolab: Iolab, tmp_path: Path
) -> None:
    """The stream arrives; what the guest is lies beside what this computer is."""
    done = iolab("run", experiment(tmp_path, forward="route"))
    assert done.returncode == 0, done.stdout + done.stderr
    folder = folder_of(done, tmp_path)
    assert trials(folder)[0]["status"] == "ok"
    machine = json.loads((folder / "machines" / "dut.json").read_text())
    assert machine["hello"]["capabilities"].count("machine") == 1
    assert machine["programs"]["iperf3"] is not None
    assert len(machine["guest"]["packages"]) == 64


def test_a_guest_that_panics_in_mid_trial_costs_that_trial_and_is_begun_anew_for_the_next(
    iolab: Iolab, tmp_path: Path
) -> None:
    """The reason has the console's words; the trials after it are measured."""
    file = experiment(tmp_path, duration="4s", blocks=2)
    running = run_in_background(tmp_path, file)
    guest = wait_for_console(tmp_path / "state", "dut")
    _wait_for_client(tmp_path / "state")
    ask_monitor(guest / "monitor", "inject-nmi")
    said, _ = running.communicate(timeout=100)
    assert running.returncode == 1, said
    folder = tmp_path / said.splitlines()[-1]
    first, second = trials(folder)
    assert (first["status"], second["status"]) == ("failed", "ok")
    assert "dut" in str(first["reason"])
    assert "panic" in str(first["reason"])


def test_what_kill_9_of_the_controller_leaves_is_nothing(iolab: Iolab, tmp_path: Path) -> None:
    """The agent ends the guest and undoes the rest; the host is as it was."""
    running = run_in_background(tmp_path, experiment(tmp_path))
    guest = wait_for_console(tmp_path / "state", "dut")
    time.sleep(0.5)
    running.kill()
    running.communicate()
    _wait_for_end(tmp_path / "state")
    assert not guest.exists()


def test_what_kill_9_of_the_agent_leaves_is_undone_by_clean(iolab: Iolab, tmp_path: Path) -> None:
    """The guest dies with its agent; namespaces and scratch folder go with `iolab clean`."""
    running = run_in_background(tmp_path, experiment(tmp_path))
    guest = wait_for_console(tmp_path / "state", "dut")
    time.sleep(0.5)
    for child in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
    said, _ = running.communicate(timeout=30)
    assert running.returncode == 3, said
    _wait_for_end(tmp_path / "state")
    assert iolab("clean").returncode == 0
    assert not guest.exists()


def _wait_for_end(state: Path, deadline_s: float = 30) -> None:
    """Wait until the guest, and the agent that undoes the rest, have ended."""
    end = time.monotonic() + deadline_s
    while processes_with(f"IOLAB_STATE_DIR={state}"):
        assert time.monotonic() < end, "the guest or its agent runs on"
        time.sleep(0.05)


def _wait_for_client(state: Path, deadline_s: float = 60) -> None:
    """Wait until a stream's client runs."""
    end = time.monotonic() + deadline_s
    while processes_with(f"IOLAB_STATE_DIR={state}").count("iperf3") < 2:
        assert time.monotonic() < end, "no stream was begun"
        time.sleep(0.1)
