"""Two guests that are hosts with machines of their own: routed, and with what only their kernels have, VLAN and fq."""

import json
from pathlib import Path

import pytest
from tests.guest.labs import measured
from tests.netns.runs import trials, value

pytestmark = pytest.mark.usefixtures("unchanged_host")

LAB = """
title: Two hosts on one computer
lab:
  machines:
    h1: {kind: vm, accel: tcg, forward: FORWARD}
    h2: {kind: vm, accel: tcg, forward: FORWARD}
    a: {kind: netns, on: h1}
    b: {kind: netns, on: h2}
  links:
    lan: {ends: [h1.eth0, h2.eth0]}
    in1: {ends: [h1.PORT, a.p0]}
    in2: {ends: [h2.PORT, b.p0], shape: none}
measure:
  stream: {kind: stream, protocol: tcp, from: b, to: a, duration: 1s}
"""
VLAN_AND_FQ = """factors:
  network:
    plain: {}
    shaped: {links.lan.vlan: 100, links.in2.shape: {at: b.p0, qdisc: fq, rate: 10Mbit}}
"""


def lab(forward: str, port: str) -> str:
    """Return the lab with hosts that bridge the interface of their link, or route to one of their own."""
    return LAB.replace("FORWARD", forward).replace("PORT", port)


def test_hosts_that_route_join_three_networks_and_are_described_in_the_runs_folder(tmp_path: Path) -> None:
    """The stream arrives; what the guests are lies beside what this computer is."""
    folder = measured(tmp_path, lab("route", "v0"))
    (trial,) = trials(folder)
    assert value(trial, "received_bps") > 10e6
    for name in ("h1", "h2"):
        machine = json.loads((folder / "machines" / f"{name}.json").read_text())
        assert machine["hello"]["capabilities"].count("machine") == 1
        assert machine["programs"]["iperf3"] is not None
        assert len(machine["guest"]["packages"]) == 64


def test_vlan_and_fq_work_between_hosts_whose_kernels_have_them(tmp_path: Path) -> None:
    """With a VLAN on the line the parents bridge its interfaces; a shaped sender keeps to its rate."""
    rows = trials(measured(tmp_path, lab("bridge", "eth0") + VLAN_AND_FQ))
    received = {row["cell"]["network"]: value(row, "received_bps") for row in rows}
    assert 2e6 < received["shaped"] < 10.4e6, "a host that stands still in between costs a sender its rate"
    assert received["plain"] > 1.5 * received["shaped"]
