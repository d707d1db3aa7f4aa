"""A lab, an agent and simulated devices for tests of packet trials; no kernel, no real time."""

from tests.fake_agent.agent import FakeAgent
from tests.fake_agent.traffic import Forwards, Passed

from iolab.agent.client import Agent
from iolab.clock import VirtualClock
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.packets import Packets
from iolab.experiment.model.quantities import PortRef
from iolab.lab.packets.placement import place, ways
from iolab.lab.topology import make_topology
from iolab.trial.lab_access import Site
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import LoadTrial

ENDS = {"from": "tester.p0", "to": "tester.p1"}


def lab(**dut: object) -> Lab:
    """Return a tester with a device under test between its ports."""
    machines = {
        "tester": Netns(kind="netns"),
        "dut": Netns.model_validate({"kind": "netns", "forward": "bridge"} | dut),
    }
    links = {
        "west": Link(ends=(PortRef("tester.p0"), PortRef("dut.eth0"))),
        "east": Link(ends=(PortRef("tester.p1"), PortRef("dut.eth1"))),
    }
    return Lab(machines, links, {})


def simulated(device: Device, seed: int = 1) -> Forwards:
    """Return the effect of a simulated device on a load."""
    bench = Bench(device, seed)

    def forwards(fps: float, duration_ns: int) -> Passed:
        result = bench.measure(LoadTrial(intended_fps=fps, duration_ns=duration_ns))
        held_ns = device.stall_ns if result.perturbed else 0
        parts = {
            "sent_slices_frames": bench.flow.sent,
            "slices_frames": bench.flow.received,
            "arrived_slices_frames": bench.flow.arrived,
            "least_latency_slices_ns": bench.flow.least_ns,
            "after_end_frames": bench.flow.late,
        }
        return Passed(result.intended_frames, result.offered_frames, result.forwarded_frames, held_ns, parts)

    return forwards


def site(
    measure: Packets, forwards: Forwards, *, cpus: int = 4, broken: str = "", forward: str = "bridge"
) -> Site:
    """Return a lab with that device; `broken` is an interface that is down."""
    transport = FakeAgent(forwards=forwards, clock=VirtualClock(now=1))
    if broken:
        transport.traffic.broken[broken] = (100, "is down")
    made = lab(forward=forward)
    topology = make_topology(made)
    placement = place(ways(made, topology, measure), range(cpus))
    return Site(agent=Agent(transport), lab=made, topology=topology, placement=placement)
