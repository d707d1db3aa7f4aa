"""Build labs for benches."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from iolab.agent.client import Agent
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Setup
from iolab.experiment.model.packets import Packets
from iolab.lab.compose import compose
from iolab.lab.packets.placement import placement_of
from iolab.lab.topology import make_topology
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.lab_access import Site
from iolab.trial.packets.load import LoadBench

PAIR = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {pair: {ends: [near.p0, far.p1]}}
measure:
  it: {kind: latency, from: near.p0, to: far.p1, rate: 1kpps}
"""
"""Two directly connected ports."""
THROUGH = """
lab:
  machines: {tester: {kind: netns}, dut: {kind: netns, forward: xdp, device: DEVICE}}
  links: {west: {ends: [tester.p0, dut.eth0]}, east: {ends: [tester.p1, dut.eth1]}}
measure:
  it: {MEASURE, from: tester.p0, to: tester.p1}
"""
"""A reference device between two ports of a tester."""


M = TypeVar("M")


def setup_of(text: str) -> Setup:
    """Return the lab and the measures of the first cell of an experiment."""
    experiment = parse(text, "bench")
    return Resolver(experiment).setup(next(iter(cells(experiment))))


@contextmanager
def standing(agent: Agent, text: str, kind: type[M]) -> Iterator[tuple[Site, M]]:
    """Build the lab of an experiment with one measure, of a kind, and in one cell; remove it on exit."""
    setup = setup_of(text)
    (measure,) = setup.measures.values()
    assert isinstance(measure, kind)
    with built(Agents(agent), setup) as (site, _):
        yield site, measure


@contextmanager
def built(agents: Agents, setup: Setup) -> Iterator[tuple[Site, StandingLab]]:
    """Build a lab, and return it with the objects that measures need; remove it on exit."""
    lab, cpus = StandingLab(agents, lambda _: None), os.cpu_count() or 1
    placement = placement_of(setup, next(iter(setup.measures)), range(cpus))
    try:
        lab.change_to(compose(setup.lab, placement=placement, cpus=cpus))
        topology = make_topology(setup.lab)
        threads = {port.ref: lab.napi.at(port.netns, port.name, port.kernel) for port in topology.ports()}
        site = Site(
            agent=agents.here,
            lab=setup.lab,
            topology=topology,
            placement=placement,
            threads={ref: thread for ref, thread in threads.items() if placement and thread is not None},
            agents={kernel: agents.of(kernel) for kernel in agents},
        )
        yield site, lab
    finally:
        lab.take_down()


@contextmanager
def load_bench(agent: Agent, text: str) -> Iterator[LoadBench]:
    """Build a lab with open ports for load trials."""
    with standing(agent, text, Packets) as (site, measure), LoadBench(site, measure, 0.0) as bench:
        yield bench
