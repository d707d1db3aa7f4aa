"""A lab that stands, with its ports open for load trials: what the benches of packet trials share."""

from collections.abc import Iterator
from contextlib import contextmanager

from iolab.agent.client import Agent
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.packets import Packets
from iolab.lab.compose import compose
from iolab.lab.packets.placement import placement_of
from iolab.lab.topology import make_topology
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.lab_access import ArrivalThread, Site
from iolab.trial.packets.load import LoadBench

PAIR = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {pair: {ends: [near.p0, far.p1]}}
measure:
  it: {kind: latency, from: near.p0, to: far.p1, rate: 1kpps}
"""
"""Two ports with nothing between them."""
THROUGH = """
lab:
  machines: {tester: {kind: netns}, dut: {kind: netns, forward: xdp, device: DEVICE}}
  links: {west: {ends: [tester.p0, dut.eth0]}, east: {ends: [tester.p1, dut.eth1]}}
measure:
  it: {MEASURE, from: tester.p0, to: tester.p1}
"""
"""A reference device between two ports of a tester."""


@contextmanager
def standing(agent: Agent, text: str, cpus: int) -> Iterator[tuple[Site, Packets]]:
    """Build the lab of an experiment with one cell and one measure; leaving takes it down."""
    experiment = parse(text, "bench")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    measure = setup.measures["it"]
    assert isinstance(measure, Packets)
    lab, placement = StandingLab(Agents(agent), lambda _: None), placement_of(setup, "it", range(cpus))
    try:
        lab.change_to(compose(setup.lab, placement=placement))
        topology = make_topology(setup.lab)
        threads = {port.ref: lab.napi.at(port.netns, port.name) for port in topology.ports()}
        known: dict[str, ArrivalThread] = {
            ref: thread for ref, thread in threads.items() if thread is not None
        }
        site = Site(agent=agent, lab=setup.lab, topology=topology, placement=placement, threads=known)
        yield site, measure
    finally:
        lab.take_down()


@contextmanager
def load_bench(agent: Agent, text: str, cpus: int) -> Iterator[LoadBench]:
    """The same with its ports open."""
    with standing(agent, text, cpus) as (site, measure), LoadBench(site, measure, 0.0) as bench:
        yield bench
