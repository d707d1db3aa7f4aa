"""Segments, addresses, endpoints and routes; routes are checked by forwarding packets through the route tables."""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.links.overlays import unequal_mtus
from iolab.lab.topology import Endpoint, Topology, make_topology

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
CHAIN = ({"a": "none", "r": "route", "s": "route", "b": "none"}, {
    "first": ["a.eth0", "r.eth0"],
    "middle": ["r.eth1", "s.eth0"],
    "last": ["s.eth1", "b.eth0"],
})  # fmt: skip


def deliver(topology: Topology, source: Endpoint, target: Endpoint) -> list[str]:
    """Forward a packet by the route tables like kernels; return the machines on its path."""
    here, passed = source.machine, [source.machine]
    for _ in range(len(topology.machines) + 1):
        if here == target.machine:
            return passed
        assert here == source.machine or here in topology.routers, f"{here} does not forward"
        own = topology.endpoints(here)
        next_hop = target.address
        if not any(on_link(point, next_hop) for point in own):
            tables = [route for route in topology.routes() if route.machine == here]
            fitting = [one for one in tables if IPv4Address(target.address) in IPv4Network(one.destination)]
            assert len(fitting) == 1, f"{here} has {len(fitting)} routes to {target.address}"
            next_hop = fitting[0].gateway
            assert any(on_link(point, next_hop) for point in own), f"{next_hop} is not on link for {here}"
        segment = next(one for one in topology.segments if any(p.address == next_hop for p in one.endpoints))
        assert segment.has(here)
        here = next(point.machine for point in segment.endpoints if point.address == next_hop)
        passed.append(here)
    raise AssertionError(f"from {source.ref} to {target.ref}: a loop by {passed}")


def on_link(point: Endpoint, address: str) -> bool:
    """Return whether an address is in the network of an endpoint."""
    return IPv4Address(address) in IPv4Network(f"{point.address}/{point.prefix_length}", strict=False)


def test_host_reaches_itself_over_its_loopback_interface(make_lab: MakeLab) -> None:
    """Use either IP version, with or without links; a namespace has no such path."""
    topology = make_topology(
        make_lab({"here": {"kind": "host"}, "a": "none", "b": "none"}, {"x": ["a.eth0", "b.eth0"]})
    )
    loopback = topology.endpoint("here", "here")
    assert (loopback.interface, loopback.netns, loopback.address) == ("lo", None, "127.0.0.1")
    assert topology.endpoint("here", "here", ip=6).address == "::1"
    with pytest.raises(InputError, match="a at both ends"):
        topology.endpoint("a", "a")


def test_end_machines_reach_each_other_through_a_chain_of_routers(make_lab: MakeLab) -> None:
    """Check both directions, with static routes only."""
    topology = make_topology(make_lab(*CHAIN))
    a, b = topology.endpoint("a", "b"), topology.endpoint("b", "a")
    assert deliver(topology, a, b) == ["a", "r", "s", "b"]
    assert deliver(topology, b, a) == ["b", "s", "r", "a"]


@given(data=st.data())
def test_packets_pass_between_any_two_machines_for_which_endpoints_are_found(
    make_lab: MakeLab, data: st.DataObject
) -> None:
    """Check random labs of hosts, bridges and routers: delivery, or a clear error."""
    forwards = data.draw(st.lists(st.sampled_from(["none", "bridge", "route"]), min_size=2, max_size=6))
    machines = {f"m{number}": forward for number, forward in enumerate(forwards)}
    names = st.sampled_from(sorted(machines))
    pairs = data.draw(st.lists(st.lists(names, min_size=2, max_size=3, unique=True), min_size=1, max_size=6))
    links = {f"l{i}": [f"{machine}.p{i}" for machine in ends] for i, ends in enumerate(pairs)}
    topology = make_topology(make_lab(machines, links))
    addresses = [point.address for segment in topology.segments for point in segment.endpoints]
    assert len(addresses) == len(set(addresses))
    linked = sorted({machine for ends in pairs for machine in ends})
    unjoined: list[tuple[str, str]] = []
    for source in linked:
        for target in linked:
            if source == target:
                continue
            try:
                here, there = topology.endpoint(source, target), topology.endpoint(target, source)
            except InputError:
                unjoined.append((source, target))
                continue
            deliver(topology, here, there)
            deliver(topology, there, here)
    assert all((target, source) in unjoined for source, target in unjoined)
    direct = {(ends[0], ends[1]) for ends in pairs}
    assert not direct & set(unjoined)


def test_bridging_machine_joins_its_links_to_one_subnet(make_lab: MakeLab) -> None:
    """Give the address to the bridge, in the network of both ends."""
    lab = make_lab({"a": "none", "dut": "bridge", "b": "none"}, {
        "west": ["a.eth0", "dut.eth0"],
        "east": ["dut.eth1", "b.eth0"],
    })  # fmt: skip
    topology = make_topology(lab)
    (segment,) = topology.segments
    assert segment.links == ("west", "east")
    assert segment.network == "198.18.0.0/24"
    assert [(point.ref, point.interface) for point in segment.endpoints] == [
        ("a.eth0", "eth0"), ("dut.br0", "br0"), ("b.eth0", "eth0"),
    ]  # fmt: skip
    assert topology.endpoint("dut.eth1", "b").port == "br0"
    assert topology.routes() == ()


def test_machine_with_several_ports_is_addressed_on_the_port_of_the_path(make_lab: MakeLab) -> None:
    """Use a named port if it is on the path."""
    lab = make_lab({"a": "none", "b": "none", "c": "none"}, {
        "ab": ["a.p0", "b.p0"],
        "ac": ["a.p1", "c.p0"],
        "spare": ["a.p2", "c.p1"],
    })  # fmt: skip
    topology = make_topology(lab)
    assert topology.endpoint("a", "b").port == "p0"
    assert topology.endpoint("a", "c").port == "p1"
    assert topology.endpoint("a.p2", "c").port == "p2"
    assert topology.endpoint("c", "a.p2").port == "p1"
    with pytest.raises(InputError, match=r"no path of links from b to c"):
        topology.endpoint("b", "c")
    with pytest.raises(InputError, match=r"no path of links from a\.p1 to b"):
        topology.endpoint("a.p1", "b")
    with pytest.raises(InputError, match=r"allowed: a\.p0, a\.p1, a\.p2"):
        topology.endpoint("a.p7", "b")


def test_two_ports_of_one_tester_are_valid_endpoints(make_lab: MakeLab) -> None:
    """Send through the machine between them; refuse a machine at both ends."""
    lab = make_lab({"tester": "none", "dut": "route"}, {
        "west": ["tester.p0", "dut.eth0"],
        "east": ["tester.p1", "dut.eth1"],
    })  # fmt: skip
    topology = make_topology(lab)
    assert topology.endpoint("tester.p0", "tester.p1").interface == "p0"
    assert topology.endpoint("tester.p1", "tester.p0").interface == "p1"
    with pytest.raises(InputError, match="two machines, or two ports of one"):
        topology.endpoint("tester", "tester")


def test_automatic_addresses_do_not_overlap_written_ones(make_lab: MakeLab) -> None:
    """Take automatic addresses from the written network."""
    lab = make_lab({"a": "none", "b": "none", "c": "none"}, {
        "one": {"ends": ["a.p0", "b.p0"], "addresses": {"b.p0": "198.18.1.1/24"}},
        "two": ["a.p1", "c.p0"],
    })  # fmt: skip
    first, second = make_topology(lab).segments
    assert [point.address for point in first.endpoints] == ["198.18.1.2", "198.18.1.1"]
    assert not IPv4Network(first.network).overlaps(IPv4Network(second.network))


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ({"a.p0": "198.18.0.1/24", "b.p0": "198.18.0.1/24"}, "each address only once"),
        ({"a.p0": "fd00::1/64"}, "an IPv4 host address"),
        ({"a.p0": "128.0.0.1/1"}, "a prefix length from 8"),
        ({"a.p0": "127.0.0.5/8"}, "not loopback"),
        ({"a.p0": "224.0.0.5/24"}, "not multicast"),
        ({"a.p0": "0.0.0.5/24"}, "host address"),
    ],
)
def test_unusable_addresses_are_refused_and_their_link_is_named(
    make_lab: MakeLab, addresses: dict[str, str], message: str
) -> None:
    """Refuse duplicates, missing prefix lengths and other address families."""
    lab = make_lab({"a": "none", "b": "none"}, {"one": {"ends": ["a.p0", "b.p0"], "addresses": addresses}})
    with pytest.raises(InputError, match=rf"lab\.links\.one\.addresses.*{message}"):
        make_topology(lab)


def test_mtu_and_vlan_changes_keep_all_addresses(make_lab: MakeLab) -> None:
    """Derive a link's network from its place in the lab only."""
    machines = {"a": "none", "b": "none", "c": "none"}
    plain = make_topology(make_lab(machines, {"x": ["a.p0", "b.p0"], "y": ["b.p1", "c.p0"]}))
    other = {"x": {"ends": ["a.p0", "b.p0"], "vlan": 100}, "y": {"ends": ["b.p1", "c.p0"], "mtu": 9000}}
    tagged = make_topology(make_lab(machines, other))
    assert [segment.network for segment in plain.segments] == [segment.network for segment in tagged.segments]
    assert tagged.endpoint("a", "b").interface == "p0.100"


def test_more_than_512_network_segments_are_refused(make_lab: MakeLab) -> None:
    """Split 198.18.0.0/15 into 512 networks of 254 addresses."""
    links = {f"l{i}": [f"a.p{i}", f"b.p{i}"] for i in range(512)}
    networks = {
        segment.network for segment in make_topology(make_lab({"a": "none", "b": "none"}, links)).segments
    }
    assert len(networks) == 512
    assert all(IPv4Network(network).subnet_of(IPv4Network("198.18.0.0/15")) for network in networks)
    links["more"] = ["a.q", "b.q"]
    with pytest.raises(InputError, match="no free /24 network left"):
        make_topology(make_lab({"a": "none", "b": "none"}, links))


def lab(forward: str, mtu: int) -> Lab:
    """Return two links with a machine between."""
    return Lab(
        {
            "a": Netns(kind="netns"),
            "s": Netns.model_validate({"kind": "netns", "forward": forward}),
            "b": Netns(kind="netns"),
        },
        {
            "left": Link(ends=(PortRef("a.eth0"), PortRef("s.p0")), mtu=9000),
            "right": Link(ends=(PortRef("s.p1"), PortRef("b.eth0")), mtu=mtu),
        },
        {},
    )


def test_bridge_between_different_mtus_gives_a_warning_and_a_router_does_not() -> None:
    """Warn, because a bridge drops large frames; a router answers or fragments."""

    def found(one: Lab) -> list[dict[str, int]]:
        segments = (segment.links for segment in make_topology(one).segments)
        return [
            {link.link: link.mtu_bytes for link in warning.links} for warning in unequal_mtus(one, segments)
        ]

    assert found(lab("bridge", 1500)) == [{"left": 9000, "right": 1500}]
    assert found(lab("bridge", 9000)) == []
    assert found(lab("route", 1500)) == []
