"""What is in effect: by place, as the kernel shows it."""

from iolab.agent.counters import QdiscCounters
from iolab.agent.messages import Observation, Reading, SettingValues
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import make_topology
from iolab.trial.in_effect import in_effect

LAB = Lab(
    {"near": Netns(kind="netns"), "far": Netns(kind="netns")},
    {"lan": Link(ends=(PortRef("near.eth0"), PortRef("far.eth0")))},
    {},
)


def test_machines_ports_and_processors_have_what_was_read() -> None:
    """Known names only; a place of which nothing was read is absent."""
    stack = {"net.ipv4.tcp_congestion_control": "bbr", "net.ipv4.unknown": "1"}
    settings = (
        SettingValues("stack", "", stack),
        SettingValues("interface", "eth0", {"mtu": "1500", "offloads": "tso gso"}),
    )
    queues = (QdiscCounters(interface="eth0", handle="0:", parent="root", drops=0, kind="fq_codel"),)
    governed = (SettingValues("processors", "0,1", {"governor": "performance"}),)
    reading = Reading(
        (
            Observation(sampler="settings", netns="iolab-near", begin_ns=1, end_ns=2, settings=settings),
            Observation(sampler="qdiscs", netns="iolab-near", begin_ns=1, end_ns=2, qdiscs=queues),
            Observation(sampler="processors", begin_ns=1, end_ns=2, settings=governed),
        )
    )
    assert in_effect(make_topology(LAB), {"": reading}) == {
        "near": {"congestion": "bbr"},
        "near.eth0": {"mtu": "1500", "offloads": "tso gso", "qdisc": "fq_codel"},
        "host": {"governor": "performance"},
    }
