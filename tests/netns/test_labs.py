"""Shipped labs in a reduced form: every trial succeeds, and the effect that each lab shows is visible."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.netns.runs import Iolab, trials, value

pytestmark = pytest.mark.netns
LABS = Path(__file__).parents[2] / "labs"
RRUL = {
    "queue: 1250000": "queue: 250000",
    "duration: 25s": "duration: 6s",
    "warm_up: 8s, duration: 15s": "warm_up: 3s, duration: 2s",
}
CONGESTION = {"warm_up: 6s, duration: 10s": "warm_up: 1s, duration: 1s"}
NODES = {"warm_up: 1s, duration: 5s": "duration: 1s"}
FULL = """
title: A full queue
lab:
  machines:
    home: {kind: netns}
    net: {kind: netns}
  links:
    line: {ends: [home.eth0, net.eth0], wire: {rate: 20Mbit, delay: 5ms, queue: 1250000}}
measure:
  fill: {kind: stream, protocol: udp, from: home, to: net, rate: 40Mbit, duration: 4s}
  icmp: {kind: ping, from: home, to: net, interval: 20ms, warm_up: 2s, duration: 1s, wait: 3s}
  both: {kind: together, of: {fill: 0s, icmp: 0s}}
blocks: 1
"""
QUEUE_AND_PATH_NS = 1250000 * 8 / 20e6 * 1e9 + 10e6


def run(iolab: Iolab, folder: Path, name: str, shorter: Mapping[str, str], only: str) -> list[dict[str, Any]]:
    """Run some cells of a lab once, with shorter durations; return its trials, which must all succeed."""
    text = (LABS / f"{name}.yaml").read_text()
    for written, instead in shorter.items():
        assert written in text
        text = text.replace(written, instead)
    (folder / f"{name}.yaml").write_text(text)
    done = iolab("run", f"{name}.yaml", "--blocks", "1", "--only", only)
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = (folder / "runs").iterdir()
    found = trials(kept)
    assert {trial["status"] for trial in found} == {"ok"}
    return found


@pytest.mark.full
def test_codel_reduces_the_round_trip_time_under_load(iolab: Iolab, tmp_path: Path) -> None:
    """Check echoes, datagrams and transactions behind four connections each way."""
    found = run(iolab, tmp_path, "rrul", RRUL, "load=loaded")
    by = {(one["measure"], one["cell"]["links.line.wire.codel"]): one for one in found}
    for measure, metric in (("icmp", "rtt_p50_ns"), ("udp", "rtt_p50_ns"), ("rr", "transaction_p50_ns")):
        long, short = (value(by[measure, queue], metric) for queue in ("codel off", "codel"))
        assert short < 0.6 * long, measure
        assert long > 60e6, measure


@pytest.mark.full
def test_full_queue_delay_equals_queue_length_plus_path_delay(iolab: Iolab, tmp_path: Path) -> None:
    """Expect half a second plus the path."""
    (tmp_path / "full.yaml").write_text(FULL)
    done = iolab("run", "full.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = (tmp_path / "runs").iterdir()
    (icmp,) = (one for one in trials(kept) if one["measure"] == "icmp")
    assert value(icmp, "rtt_p50_ns") == pytest.approx(QUEUE_AND_PATH_NS, rel=0.05)
    per_min = value(icmp, "round_trips_per_min")
    assert per_min == pytest.approx(60e9 / value(icmp, "rtt_mean_ns"))


@pytest.mark.full
def test_congestion_control_lab_runs_with_every_available_algorithm(iolab: Iolab, tmp_path: Path) -> None:
    """Check the algorithms that the kernel has."""
    modules = subprocess.run(
        ["sysctl", "-n", "net.ipv4.tcp_available_congestion_control"], capture_output=True
    )
    names = [name for name in ("cubic", "reno") if name.encode() in modules.stdout.split()]
    cells = f"path=town|radio,tcp.congestion={'|'.join(names)}"
    assert len(run(iolab, tmp_path, "congestion-control", CONGESTION, cells)) == 2 * len(names)


@pytest.mark.full
def test_fifty_nodes_lab_runs_with_two_and_ten_nodes(iolab: Iolab, tmp_path: Path) -> None:
    """Run both cells."""
    found = run(iolab, tmp_path, "fifty-nodes", NODES, "machines.node.count=2|10")
    assert len(found) == 2


def test_web_server_lab_receives_complete_pages(iolab: Iolab, tmp_path: Path) -> None:
    """Detect an error page by its length."""
    for program in ("nginx", "ab"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; scripts/packages.sh programs installs it")
    cells = "page=small page kept open|large page one each,links.lan.mtu=1500"
    found = run(iolab, tmp_path, "http", {"20000": "500"}, cells)
    pages = {trial["cell"]["page"]: value(trial, "page_bytes") for trial in found}
    assert pages == {"small page kept open": 1000, "large page one each": 100000}
    assert all(value(trial, "failed") == 0 for trial in found)
