"""The pacer on a kernel: rates of classes alone and together, read-back, and changes while it runs."""

import pytest
from tests.netns.runs import Measured

from iolab.analysis.shaper_check import HELD_UP
from iolab.experiment import Resolver, cells, parse
from iolab.lab.compose import compose
from iolab.results.trial import Status
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.store.read import load_run

pytestmark = pytest.mark.netns

EXPERIMENT = """
title: A pacer
lab:
  machines:
    a: {kind: netns}
    b: {kind: netns}
    switch: {kind: netns, forward: bridge}
    far: {kind: netns}
  links:
    a: {ends: [a.eth0, switch.v0]}
    b: {ends: [b.eth0, switch.v1]}
    wire:
      ends: [switch.eth0, far.eth0]
      shape:
        at: switch.eth0
        qdisc: pacer
        rate: 30Mbit
        classes: {a: {rate: 20Mbit, ceil: 30Mbit, from: a}, b: {rate: 10Mbit, from: b}}
measure:
  udp: {kind: stream, protocol: udp, rate: 40Mbit, duration: 2s}
factors:
  udp.flows:
    both: [{from: a, to: far}, {from: b, to: far}]
    first: [{from: a, to: far}]
    second: [{from: b, to: far}]
  links.wire.shape.classes.b:
    without ceil: {rate: 10Mbit, from: b}
    with ceil: {rate: 10Mbit, ceil: 30Mbit, from: b}
"""
RATES_MBPS = {
    ("both", "without ceil"): [20, 10],
    ("both", "with ceil"): [20, 10],
    ("first", "without ceil"): [30],
    ("first", "with ceil"): [30],
    ("second", "without ceil"): [10],
    ("second", "with ceil"): [30],
}
PAYLOAD_SHARE = 1448 / (1448 + 8 + 20 + 14 + 4)
"""Share of a frame with FCS that iperf3 sends in a datagram over a link of MTU 1500."""

BUSY_RATIO = 0.15
"""A stalled sender leaves its share to the other class on a busy host; benches/truth/pacer.py has exact figures."""


@pytest.mark.full
def test_shaper_classes_get_their_rates_under_contention_and_their_ceils_when_alone(
    measured: Measured,
) -> None:
    """Send UDP above all rates; accept a reported stall.

    The taps are made once.
    """
    folder = measured(EXPERIMENT)
    for record in load_run(folder).trials:
        assert record.result.status is Status.OK, record.result.reason
        cell = (str(record.cell["udp.flows"]), str(record.cell["links.wire.shape.classes.b"]))
        metrics = [metric for metric in record.result.metrics if metric.name == "received_bps"]
        flows = [metric.value for metric in metrics if not metric.dimensions.whole] or [metrics[0].value]
        expected = [rate * 1e6 * PAYLOAD_SHARE for rate in RATES_MBPS[cell]]
        held_up = any(isinstance(one, HELD_UP) for one in record.result.warnings)
        assert held_up or flows == pytest.approx(expected, rel=BUSY_RATIO), cell
    (log,) = folder.glob("**/commands.jsonl")
    assert log.read_text().count("wire.start") == 1


REMADE = """
lab:
  machines:
    near: {kind: netns}
    mid: {kind: netns, forward: bridge}
    far: {kind: netns}
  links: {west: {ends: [near.eth0, mid.eth0]}, east: {ends: [mid.eth1, far.eth0]}}
measure: {up: {kind: stream, from: near, to: far, duration: 1s}}
factors:
  links.east.shape: {plain: none, paced: {at: mid.eth1, qdisc: pacer, rate: 100Mbit}}
"""


def test_recreated_port_keeps_its_ethernet_address(unchanged_host: None) -> None:
    """Ping through levels with and without a pacer."""
    experiment = parse(REMADE, "remade.yaml")
    with open_agent() as agent:
        lab = StandingLab(Agents(agent), lambda _: None)
        try:
            for cell in (*cells(experiment), *cells(experiment)):
                lab.change_to(compose(Resolver(experiment).setup(cell).lab))
                ping = ("ping", "-q", "-c", "2", "-i", "0.1", "-W", "1", "198.18.0.3")
                said = agent.run(ping, netns="iolab-near").stdout
                assert " 0% packet loss" in said, (cell, said)
        finally:
            lab.take_down()
