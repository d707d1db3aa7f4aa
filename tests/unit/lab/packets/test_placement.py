"""Which way frames go, and where each part of a packet trial runs."""

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab

from iolab.errors import InputError
from iolab.experiment import Resolver, parse
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.packets import Latency
from iolab.experiment.model.quantities import PortRef
from iolab.lab.packets.placement import next_hop, place, senders_of, ways
from iolab.lab.topology import make_topology


def chain(*forwards: str) -> Lab:
    """Return a tester with several devices in a row."""
    machines = {"tester": Netns(kind="netns")}
    machines |= {
        f"d{i}": Netns.model_validate({"kind": "netns", "forward": f}) for i, f in enumerate(forwards)
    }
    ends = [
        "tester.p0",
        *(f"d{i}.{side}" for i in range(len(forwards)) for side in ("in", "out")),
        "tester.p1",
    ]
    links = {
        f"l{i}": Link(ends=(PortRef(ends[2 * i]), PortRef(ends[2 * i + 1]))) for i in range(len(forwards) + 1)
    }
    return Lab(machines, links, {})


@pytest.mark.parametrize("forward", ["bridge", "route", "xdp"])
def test_frames_go_through_the_device_and_back(forward: str) -> None:
    """Two links, and the other direction the other way round."""
    made = lab(forward=forward)
    there, back = ways(made, make_topology(made), measure(direction="both-ways"))
    assert there.hops == (("tester.p0", "dut.eth0"), ("dut.eth1", "tester.p1"))
    assert back.hops == (("tester.p1", "dut.eth1"), ("dut.eth0", "tester.p0"))
    assert there.name == "tester.p0->tester.p1"


def test_frames_are_addressed_to_the_first_router_or_the_far_port() -> None:
    """Bridges and XDP programs pass frames on as they are; a router is who takes them in."""
    for forwards, port in (
        (("bridge", "xdp"), "tester.p1"),
        (("bridge", "route", "route"), "d1.in"),
        (("route",), "d0.in"),
    ):
        made = chain(*forwards)
        (way,) = ways(made, make_topology(made), measure())
        assert next_hop(made, way) == port
        assert len(way.hops) == len(forwards) + 1


def test_no_way_is_told_with_what_is_allowed() -> None:
    """The device between the ports does not forward."""
    made = lab(forward="none")
    with pytest.raises(InputError, match="let a machine forward"):
        ways(made, make_topology(made), measure())


@pytest.mark.parametrize("direction", ["one-way", "both-ways"])
def test_with_enough_cpus_nothing_shares_one(direction: str) -> None:
    """Three for each direction: sender, device, receiver."""
    made = lab()
    directions = ways(made, make_topology(made), measure(direction=direction))
    found = place(directions, range(3 * len(directions)), realtime=True)
    assert found.shared() == ()
    assert found.sender_priority is not None
    device, far = (found.priority(ref) or 0 for ref in ("dut.eth0", "tester.p1"))
    assert device < far < found.sender_priority


@pytest.mark.parametrize("cpus", range(1, 12))
def test_further_senders_have_the_cpus_that_are_left(cpus: int) -> None:
    """Three senders and a device and a receiver: five CPUs; with fewer, the plan says what shares one."""
    made = lab()
    found = place(ways(made, make_topology(made), measure()), range(cpus), realtime=True, senders=3)
    used = [*found.sending("tester.p0"), *found.napi.values()]
    assert len(found.sending("tester.p0")) == 3
    assert set(used) <= set(range(cpus))
    assert bool(found.shared()) == (cpus < 5)
    assert (found.sender_priority is not None) == (cpus >= 5)


def test_as_many_senders_as_find_a_cpu_and_share_the_flows() -> None:
    """A flow is of one sender; paths that do not tell senders apart have one."""
    for cpus, flows, keys, expected in (
        (2, 64, {}, 1),
        (3, 64, {}, 1),
        (6, 64, {}, 4),
        (6, 6, {}, 3),
        (16, 1, {}, 1),
        (16, 64, {"path": "af_packet"}, 1),
        (2, 64, {"senders": 8}, 8),
    ):
        wanted = measure(**{"senders": "auto", "flows": flows, **keys})
        assert senders_of(wanted, 1, cpus) == expected, (cpus, flows, keys)


@pytest.mark.parametrize("cpus", range(1, 9))
@pytest.mark.parametrize("direction", ["one-way", "both-ways"])
def test_on_any_host_every_part_has_a_cpu_and_sharing_is_told(cpus: int, direction: str) -> None:
    """Whatever shares a CPU is in the text; from two CPUs on a sender is kept from its own device."""
    made = lab()
    directions = ways(made, make_topology(made), measure(direction=direction))
    found = place(directions, range(cpus), realtime=True)
    used = {**found.senders, **found.receivers, **found.napi}
    assert set(used.values()) <= set(range(cpus))
    assert bool(found.shared()) == (cpus < 3 * len(directions))
    if cpus > 1:
        for way in directions:
            assert found.napi[way.arrivals[0]] != found.senders[way.source.ref]


def test_a_device_on_another_host_shares_no_cpu_with_the_sender() -> None:
    """Ports of two hosts have CPUs of the same numbers, which are different ones: two suffice to the tester."""
    made = parse(OTHER_HOST, "lab.yaml")
    setup = Resolver(made).setup({})
    rate = setup.measures["rate"]
    assert isinstance(rate, Latency)
    found = place(ways(setup.lab, make_topology(setup.lab), rate), range(2))
    assert found.shared() == ()
    assert found.senders == {"tester.eth1": 0}
    assert found.receivers == {"tester.eth2": 1}
    assert set(found.napi) == {"tester.eth2"}


OTHER_HOST = """
lab:
  machines: {tester: {kind: host, ssh: a}, pc1: {kind: host, ssh: b, forward: bridge}}
  links:
    west: {ends: [tester.eth1, pc1.eth1], cable: true}
    east: {ends: [tester.eth2, pc1.eth2], cable: true}
measure: {rate: {kind: latency, from: tester.eth1, to: tester.eth2, rate: 1kpps}}
"""


def test_a_sender_has_no_realtime_priority_where_others_need_its_cpu() -> None:
    """Both directions on two CPUs: it would never let the device run."""
    made = lab()
    directions = ways(made, make_topology(made), measure(direction="both-ways"))
    assert place(directions, range(2), realtime=True).sender_priority is None
    assert place(directions, range(2), realtime=True).priority("dut.eth0") is not None
    assert place(directions, range(2)).priority("dut.eth0") is None
