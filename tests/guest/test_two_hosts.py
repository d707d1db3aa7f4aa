"""Two guests that act as hosts with machines: routed, and with VLAN and fq, which only their kernels have."""

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
    h1: {kind: vm, accel: tcg, forward: bridge}
    h2: {kind: vm, accel: tcg, forward: bridge}
    a: {kind: netns, on: h1}
    b: {kind: netns, on: h2}
  links:
    lan: {ends: [h1.eth0, h2.eth0]}
    in1: {ends: [h1.eth0, a.p0]}
    in2: {ends: [h2.eth0, b.p0], shape: none}
measure:
  stream: {kind: stream, protocol: tcp, from: b, to: a, duration: 1s}
factors:
  network:
    bridged: {}
    shaped: {links.lan.vlan: 100, links.in2.shape: {at: b.p0, qdisc: fq, rate: 10Mbit}}
    routed: {"machines.*.forward": route, links.in1.ends: [h1.v0, a.p0], links.in2.ends: [h2.v0, b.p0]}
"""


@pytest.mark.full
def test_hosts_route_bridge_and_shape_with_vlan_and_fq(tmp_path: Path) -> None:
    """Use the link's own interface, or its VLAN, as bridge port; limit a shaped sender."""
    folder = measured(tmp_path, LAB)
    received = {row["cell"]["network"]: value(row, "received_bps") for row in trials(folder)}
    assert 2e6 < received["shaped"] < 10.4e6, "a host that stands still in between costs a sender its rate"
    assert received["bridged"] > 1.5 * received["shaped"]
    assert received["routed"] > 10e6
    for name in ("h1", "h2"):
        machine = json.loads((folder / "machines" / f"{name}.json").read_text())
        assert machine["hello"]["capabilities"].count("machine") == 1
        assert machine["programs"]["iperf3"] is not None
        assert len(machine["guest"]["packages"]) == 64
