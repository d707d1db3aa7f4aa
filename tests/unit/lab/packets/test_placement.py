"""Ports, interfaces and flows of packet trials."""

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
def test_frames_pass_the_device_in_both_directions(forward: str) -> None:
    """Check two links, and the reverse direction."""
    made = lab(forward=forward)
    there, back = ways(made, make_topology(made), measure(direction="both-ways"))
    assert there.hops == (("tester.p0", "dut.eth0"), ("dut.eth1", "tester.p1"))
    assert back.hops == (("tester.p1", "dut.eth1"), ("dut.eth0", "tester.p0"))
    assert there.name == "tester.p0->tester.p1"


def test_frames_are_addressed_to_the_first_router_or_to_the_far_port() -> None:
    """Use the address of a router, and pass bridges and XDP programs unchanged."""
    for forwards, port in (
        (("bridge", "xdp"), "tester.p1"),
        (("bridge", "route", "route"), "d1.in"),
        (("route",), "d0.in"),
    ):
        made = chain(*forwards)
        (way,) = ways(made, make_topology(made), measure())
        assert next_hop(made, way) == port
        assert len(way.hops) == len(forwards) + 1


def test_missing_path_is_refused_with_the_advice_to_set_forward() -> None:
    """Report that the device between the ports does not forward."""
    made = lab(forward="none")
    with pytest.raises(InputError, match="set `forward` on a machine"):
        ways(made, make_topology(made), measure())


@pytest.mark.parametrize("direction", ["one-way", "both-ways"])
def test_three_cpus_per_direction_give_every_thread_a_dedicated_cpu(direction: str) -> None:
    """Count sender, device and receiver."""
    made = lab()
    directions = ways(made, make_topology(made), measure(direction=direction))
    found = place(directions, range(3 * len(directions)), realtime=True)
    assert found.shared() == ()
    assert found.sender_priority is not None
    device, far = (found.priority(ref) or 0 for ref in ("dut.eth0", "tester.p1"))
    assert device < far < found.sender_priority


@pytest.mark.parametrize("cpus", range(1, 12))
def test_further_senders_use_the_remaining_cpus_and_shared_cpus_are_reported(cpus: int) -> None:
    """Need five CPUs for three senders, a device and a receiver."""
    made = lab()
    found = place(ways(made, make_topology(made), measure()), range(cpus), realtime=True, senders=3)
    used = [*found.sending("tester.p0"), *found.napi.values()]
    assert len(found.sending("tester.p0")) == 3
    assert set(used) <= set(range(cpus))
    assert bool(found.shared()) == (cpus < 5)
    assert (found.sender_priority is not None) == (cpus >= 5)


def test_number_of_automatic_senders_depends_on_cpus_and_flows() -> None:
    """Assign each flow to one sender; use one sender on paths that cannot distinguish senders."""
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
def test_every_thread_has_a_cpu_on_any_host_and_shared_cpus_are_reported(cpus: int, direction: str) -> None:
    """Keep a sender off its device's CPU with two CPUs or more."""
    made = lab()
    directions = ways(made, make_topology(made), measure(direction=direction))
    found = place(directions, range(cpus), realtime=True)
    used = {**found.senders, **found.receivers, **found.napi}
    assert set(used.values()) <= set(range(cpus))
    assert bool(found.shared()) == (cpus < 3 * len(directions))
    if cpus > 1:
        for way in directions:
            assert found.napi[way.arrivals[0]] != found.senders[way.source.ref]


def test_device_on_a_different_host_shares_no_cpu_with_the_sender() -> None:
    """Distinguish equal CPU numbers of two hosts: two CPUs suffice for the tester."""
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


def test_sender_has_no_realtime_priority_on_a_shared_cpu() -> None:
    """Avoid it, because the device would never run."""
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
    """Return the links of a lab's only path, and the places of bridge members."""
    experiment = parse(text, "lab.yaml")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    measure, topology = setup.measures["rate"], make_topology(setup.lab)
    assert isinstance(measure, Packets)
    (way,) = ways(setup.lab, topology, measure)
    wired, members = interfaces_passed(setup.lab, topology, way)
    return wired.hops, members


def test_path_through_a_bridging_host_includes_the_taps_of_its_guest() -> None:
    """Read the tap's counters for the guest, and the NIC's for the cable."""
    hops, members = found(ON_A_HOST.replace("NIC", "virtio-net"))
    assert hops == (
        ("tester.eth1", "pc1.eth1"),
        ("bridge port of dut.eth0", "dut.eth0"),
        ("dut.eth1", "bridge port of dut.eth1"),
        ("pc1.eth2", "tester.eth2"),
    )
    assert {(side.kernel, side.netns) for side in members.values()} == {("pc1", None)}


def test_path_through_a_macvtap_has_no_bridge_member() -> None:
    """Send frames directly from the NIC to the guest."""
    hops, members = found(ON_A_HOST.replace("NIC", "macvtap"))
    assert hops[1] == ("pc1.eth1", "dut.eth0")
    assert not members


def test_path_over_the_bridge_of_a_link_has_a_bridge_member_per_end() -> None:
    """Find the members in the link's namespace; a link of two ends has none."""
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


def test_path_below_a_tunnel_or_bond_is_found_through_the_underlay() -> None:
    """Return the underlay path of a tunnel, through routers, and one path per member of a bond."""
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
def test_flows_use_source_addresses_that_no_machine_has(
    make_lab: MakeLab, addresses: Mapping[str, str], flows: int, expected: tuple[str, int]
) -> None:
    """Spread flows over queues, accepted by routers, as far as there is room."""
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
    """Return the sweep of each field over the flows of a direction."""
    made, wanted = lab(), measure(**keys)
    return flow_sweeps(wanted, ways(made, make_topology(made), wanted)[index], index)


def told_apart(found: dict[str, Sweep], flows: int) -> int:
    """Return the number of distinct flows, walking the ranges like the agent."""
    parts = [(one.count, one.every) for one in found.values()]
    return len({tuple(flow // every % count for count, every in parts) for flow in range(flows)})


def test_without_flow_rules_address_and_port_change_together() -> None:
    """Make every flow different in both fields, whichever a NIC hashes."""
    found = sweeps(flows=100)
    assert (found["source_address"].count, found["source_port"].count) == (100, 100)
    assert {one.every for one in found.values()} == {1}


def test_more_flows_than_ports_use_every_combination_of_address_and_port() -> None:
    """Use 250 addresses of a /24 times 64 512 ports."""
    found = sweeps(flows=1_000_000)
    assert found["source_port"] == Sweep(1024, 64_512, 1, found["source_address"].count)
    assert told_apart(found, 1_000_000) == 1_000_000


def test_flow_rules_give_every_combination_in_their_order() -> None:
    """Change source addresses first, destination ports last."""
    rules = {
        "source": "198.18.0.10-198.18.0.19", "destination": "198.19.0.0/28",
        "source_port": "5000-5004", "destination_port": "80-81",
    }  # fmt: skip
    found = sweeps(flows=1600, flow_rules=rules)
    assert [found[name].every for name in FIELDS] == [1, 10, 160, 800]
    assert told_apart(found, 1600) == 1600


def test_fields_without_a_flow_rule_change_only_if_the_rules_give_too_few_flows() -> None:
    """Give a hundred ports a hundred flows; change the source address of the next flow."""
    found = sweeps(flows=200, flow_rules={"source_port": "2000-2099"})
    assert found["source_port"].every == 1
    assert found["source_address"].every == 100


def test_flows_of_the_reverse_direction_have_swapped_addresses_and_ports() -> None:
    """Swap them as in replies."""
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
        (
            {"protocol": "icmp", "flow_rules": {"destination_port": 9}},
            "destination_port` with `protocol: icmp",
        ),
    ],
)
def test_flow_rules_that_give_too_few_flows_are_refused(keys: Mapping[str, Any], words: str) -> None:
    """Refuse them before the lab is built."""
    with pytest.raises(InputError) as caught:
        sweeps(**keys)
    assert words in str(caught.value.problems[0])
