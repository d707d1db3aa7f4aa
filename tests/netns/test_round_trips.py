"""Round trips between real namespaces: a known path is measured, and an unresponsive end is named."""

from pathlib import Path
from typing import Any

import pytest
from tests.netns.runs import Iolab, trials, value

pytestmark = pytest.mark.netns
LAB = """
title: Round trips
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    path: {ends: [near.eth0, far.eth0], wire: {delay: 20ms}}
blocks: 1
measure:
"""
KINDS = """
  icmp: {kind: ping, from: near, to: far, interval: 10ms, duration: 1s, wait: 30s}
  udp: {kind: ping, protocol: udp, from: near, to: far, interval: 10ms, duration: 1s, wait: 30s}
  rr: {kind: rr, from: near, to: far, duration: 1s, timeout: 30s}
  datagrams: {kind: rr, protocol: udp, from: near, to: far, duration: 1s, timeout: 30s}
  offered: {kind: rr, from: near, to: far, per_second: 10, connections: 2, duration: 1s, timeout: 30s}
  each: {kind: rr, from: near, to: far, connect_each: true, duration: 1s, timeout: 30s}
"""
PATH_NS = 40e6
"""Delay of the path in both directions together [ns]."""
SILENT = """
  icmp: {kind: ping, from: near, to: far, interval: 10ms, duration: 200ms, wait: 200ms}
"""


def records(iolab: Iolab, tmp_path: Path, text: str) -> dict[str, dict[str, Any]]:
    """Run an experiment; return its records by measure."""
    file = tmp_path / "round-trips.yaml"
    file.write_text(LAB + text)
    iolab("run", file)
    (folder,) = (tmp_path / "runs").iterdir()
    return {record["measure"]: record for record in trials(folder)}


@pytest.mark.full
def test_known_delay_of_a_path_is_measured_correctly(iolab: Iolab, tmp_path: Path) -> None:
    """Expect no less than the path's delay, and one more round trip for a new connection."""
    found = records(iolab, tmp_path, KINDS)
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(found, "ok"), found
    least = {name: "rtt_min_ns" if name in ("icmp", "udp") else "transaction_min_ns" for name in found}
    for name, metric in least.items():
        trips = 2 if name == "each" else 1
        assert trips * PATH_NS <= value(found[name], metric) < (trips + 0.9) * PATH_NS, name
    assert value(found["icmp"], "loss_ratio") == value(found["udp"], "loss_ratio") == 0
    assert value(found["rr"], "round_trips_per_min") < 60e9 / PATH_NS


def test_unresponsive_end_fails_the_trial_and_its_address_is_named(iolab: Iolab, tmp_path: Path) -> None:
    """Name the address in the reason."""
    lost = SILENT + "factors: {links.path.wire.loss: ['100%']}\n"
    (record,) = records(iolab, tmp_path, lost).values()
    assert (record["status"], record["reason"]["code"]) == ("failed", "nothing-answered")
    assert record["reason"]["address"] == "198.18.0.2"
