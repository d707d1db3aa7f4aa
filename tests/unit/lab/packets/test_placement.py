"""Where packet trials have their ports, interfaces and flows."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.packets import Forwarding, Latency, Packets
from iolab.experiment.model.quantities import PortRef
from iolab.lab.links.link_topology import Side
from iolab.lab.packets.flow_addresses import FIELDS, Sweep, flow_sweeps, source_addresses
from iolab.lab.packets.placement import next_hop, place, senders_of, stream_way, ways
from iolab.lab.packets.resources import interfaces_passed, ways_below
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
    with pytest.raises(InputError, match="set `forward` on a machine"):
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


ON_A_HOST = """
lab:
  machines:
    tester: {kind: host, ssh: tester}
    pc1: {kind: host, ssh: pc1}
    dut: {kind: vm, on: pc1, nic: NIC, forward: bridge}
  links:
    cable-west: {ends: [tester.eth1, pc1.eth1], cable: true}
    cable-east: {ends: [tester.eth2, pc1.eth2], cable: true}
    west: {ends: [pc1.eth1, dut.eth0]}
    east: {ends: [pc1.eth2, dut.eth1]}
measure:
  rate: {kind: forwarding, from: tester.eth1, to: tester.eth2}
"""
SWITCHED = """
lab:
  machines:
    tester: {kind: netns}
    dut: {kind: vm, forward: bridge}
    other: {kind: vm}
  links:
    west: {ends: [tester.p0, dut.eth0, other.eth0]}
    east: {ends: [dut.eth1, tester.p1]}
measure:
  rate: {kind: forwarding, from: tester.p0, to: tester.p1}
"""


def found(text: str) -> tuple[tuple[tuple[str, str], ...], dict[str, Side]]:
    """Return the wires of a lab's only way, and where the members of bridges are."""
    experiment = parse(text, "lab.yaml")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    measure, topology = setup.measures["rate"], make_topology(setup.lab)
    assert isinstance(measure, Packets)
    (way,) = ways(setup.lab, topology, measure)
    wired, members = interfaces_passed(setup.lab, topology, way)
    return wired.hops, members


def test_a_host_that_bridges_its_cards_to_a_guest_passes_frames_through_the_guests_taps() -> None:
    """The tap's counters tell what the guest did not take; the card's own are those of the cable."""
    hops, members = found(ON_A_HOST.replace("NIC", "virtio-net"))
    assert hops == (
        ("tester.eth1", "pc1.eth1"),
        ("bridge port of dut.eth0", "dut.eth0"),
        ("dut.eth1", "bridge port of dut.eth1"),
        ("pc1.eth2", "tester.eth2"),
    )
    assert {(side.kernel, side.netns) for side in members.values()} == {("pc1", None)}


def test_a_macvtap_on_the_hosts_card_has_no_member_of_a_bridge() -> None:
    """Frames go from the card to the guest as they always did."""
    hops, members = found(ON_A_HOST.replace("NIC", "macvtap"))
    assert hops[1] == ("pc1.eth1", "dut.eth0")
    assert not members


def test_a_links_own_bridge_has_a_member_for_each_end() -> None:
    """In the namespace of the link; a link of two ends has none."""
    hops, members = found(SWITCHED)
    assert hops == (
        ("tester.p0", "bridge port of tester.p0"),
        ("bridge port of dut.eth0", "dut.eth0"),
        ("dut.eth1", "tester.p1"),
    )
    assert {side.netns for side in members.values()} == {"iolab-link-west"}


TUNNELLED = """
lab:
  machines:
    n1: {kind: netns}
    r: {kind: netns, forward: route}
    n2: {kind: netns}
  links:
    u1: {ends: [n1.eth0, r.e0]}
    u2: {ends: [r.e1, n2.eth0]}
    one: {ends: [n1.m0, n2.m0]}
    two: {ends: [n1.m1, n2.m1]}
    tunnel: {ends: [n1.t0, n2.t0], over: [u1, u2], tunnel: vxlan}
    bond: {ends: [n1.b0, n2.b0], over: [one, two], bond: balance-rr}
measure:
  tcp: {kind: stream, from: n1.t0, to: n2.t0}
"""


def test_what_carries_a_tunnel_or_a_bond_is_found_below_it() -> None:
    """Of a tunnel the way of its packets, through routers; of a bond a way by each of its links."""
    experiment = parse(TUNNELLED, "lab.yaml")
    lab = Resolver(experiment).setup(next(cells(experiment))).lab
    topology = make_topology(lab)

    def below(source: str, target: str) -> list[tuple[tuple[str, str], ...]]:
        ends = topology.endpoint(source, towards=target), topology.endpoint(target, towards=source)
        return [way.hops for way in ways_below(lab, stream_way(lab, topology, *ends))]

    assert below("n1.t0", "n2.t0") == [(("n1.eth0", "r.e0"), ("r.e1", "n2.eth0"))]
    assert below("n1.b0", "n2.b0") == [(("n1.m0", "n2.m0"),), (("n1.m1", "n2.m1"),)]
    assert below("n1.eth0", "n2.eth0") == []


MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]


@pytest.mark.parametrize(
    ("addresses", "flows", "expected"),
    [
        ({}, 1, ("198.18.0.1", 1)),
        ({}, 64, ("198.18.0.4", 64)),
        ({}, 4096, ("198.18.0.4", 251)),
        ({"tester.p0": "198.18.9.1/29", "tester.p1": "198.18.9.2/29"}, 8, ("198.18.9.4", 3)),
    ],
)
def test_flows_come_from_addresses_that_no_machine_has(
    make_lab: MakeLab, addresses: Mapping[str, str], flows: int, expected: tuple[str, int]
) -> None:
    """So a card that chooses a queue by addresses spreads them, and a router lets them in; as many as have room."""
    machines = {"tester": "none", "dut": "bridge"}
    links = {
        "west": {"ends": ["tester.p0", "dut.eth0"],
                 "addresses": {end: value for end, value in addresses.items() if end.endswith("p0")}},
        "east": {"ends": ["tester.p1", "dut.eth1"],
                 "addresses": {end: value for end, value in addresses.items() if end.endswith("p1")}},
    }  # fmt: skip
    lab = make_lab(machines, links)
    measure = Forwarding.model_validate({"kind": "forwarding", "from": "tester.p0", "to": "tester.p1"})
    (way,) = ways(lab, make_topology(lab), measure)
    assert source_addresses(way, way.source, flows) == expected


def sweeps(index: int = 0, **keys: Any) -> dict[str, Sweep]:
    """Return what the flows of a direction have in each field."""
    made, wanted = lab(), measure(**keys)
    return flow_sweeps(wanted, ways(made, make_topology(made), wanted)[index], index)


def told_apart(found: dict[str, Sweep], flows: int) -> int:
    """Count the flows that differ, as the agent walks the ranges."""
    parts = [(one.count, one.every) for one in found.values()]
    return len({tuple(flow // every % count for count, every in parts) for flow in range(flows)})


def test_without_rules_address_and_port_change_together() -> None:
    """Whichever a card looks at, each flow is another one to it."""
    found = sweeps(flows=100)
    assert (found["source_address"].count, found["source_port"].count) == (100, 100)
    assert {one.every for one in found.values()} == {1}


def test_more_flows_than_ports_have_every_combination() -> None:
    """A /24 has room for 250 addresses: times 64 512 ports."""
    found = sweeps(flows=1_000_000)
    assert found["source_port"] == Sweep(1024, 64_512, 1, found["source_address"].count)
    assert told_apart(found, 1_000_000) == 1_000_000


def test_rules_give_every_combination_in_their_order() -> None:
    """Source addresses change first, destination ports last."""
    rules = {
        "source": "198.18.0.10-198.18.0.19", "destination": "198.19.0.0/28",
        "source_port": "5000-5004", "destination_port": "80-81",
    }  # fmt: skip
    found = sweeps(flows=1600, flow_rules=rules)
    assert [found[name].every for name in FIELDS] == [1, 10, 160, 800]
    assert told_apart(found, 1600) == 1600


def test_what_no_rule_gives_changes_only_where_the_rules_are_not_enough() -> None:
    """A hundred ports are a hundred flows; of the hundred and first the source address is another one."""
    found = sweeps(flows=200, flow_rules={"source_port": "2000-2099"})
    assert found["source_port"].every == 1
    assert found["source_address"].every == 100


def test_flows_of_the_way_back_have_them_the_other_way_round() -> None:
    """As answers would."""
    rules = {"source": "198.18.0.10", "destination": "198.19.0.5", "destination_port": 80}
    found = sweeps(1, direction="both-ways", flow_rules=rules)
    assert (found["source_address"].first, found["destination_address"].first) == (
        "198.19.0.5",
        "198.18.0.10",
    )
    assert found["source_port"].first == 80


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"flows": 11, "flow_rules": {"source": "198.18.0.1-198.18.0.10", "source_port": 9}},
            "at most 10 flows",
        ),
        ({"flow_rules": {"source": "2001:2::1"}}, "`flow_rules` with IPv4 addresses"),
        ({"protocol": "icmp", "flow_rules": {"destination_port": 9}}, "destination_port with protocol: icmp"),
    ],
)
def test_rules_that_do_not_give_the_flows_are_refused(keys: Mapping[str, Any], words: str) -> None:
    """Before anything is built."""
    with pytest.raises(InputError) as caught:
        sweeps(**keys)
    assert words in str(caught.value.problems[0])
