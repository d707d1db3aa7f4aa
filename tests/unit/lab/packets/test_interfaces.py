"""What frames pass between the ports of a way, and so what is counted there."""

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.packets import Packets
from iolab.lab.links.link_topology import Side
from iolab.lab.packets.placement import stream_way, ways
from iolab.lab.packets.resources import interfaces_passed, ways_below
from iolab.lab.topology import make_topology

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
