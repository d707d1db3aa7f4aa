"""Resources of a lab with guests: their kernels, link types, and restarts when a level changes."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.packets import Latency
from iolab.lab.actions import PinGuest, Run, StartGuest
from iolab.lab.compose import compose
from iolab.lab.guests.guest import Guest, MacvtapBackend, TapBackend, VhostUserBackend
from iolab.lab.packets.placement import place, ways
from iolab.lab.requirements.part_needs import check_ways
from iolab.lab.resources import Change, Resource, dependents, difference, guests
from iolab.lab.topology import make_topology

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
Made = dict[str, Resource]


def vm(**keys: object) -> dict[str, object]:
    """Return a virtual machine as written in a file."""
    return {"kind": "vm", **keys}


@pytest.fixture
def made(make_lab: MakeLab) -> Callable[..., Made]:
    """Provide a composer of labs whose resources are found by key."""

    def make(machines: Mapping[str, object], links: Mapping[str, object], cpus: int = 4) -> Made:
        return {resource.key: resource for resource in compose(make_lab(machines, links), cpus=cpus)}

    return make


def guest(lab: Made, name: str) -> Guest:
    """Return a guest of a lab."""
    (action,) = lab[f"vm:{name}"].actions
    assert isinstance(action, StartGuest)
    return action.guest


def typed(lab: Made, key: str) -> list[str]:
    """Return the commands of a resource."""
    return [" ".join(run.do.argv) for run in lab[key].actions if isinstance(run, Run)]


def forwarder(**keys: object) -> tuple[dict[str, object], dict[str, object]]:
    """Return a tester and a guest that bridges between its two ports."""
    return (
        {"t": "none", "dut": vm(cpus=2, **({"forward": "bridge"} | keys))},
        {"west": ["t.p0", "dut.eth0"], "east": ["t.p1", "dut.eth1"]},
    )


def test_tap_of_a_guest_nic_is_the_port_at_the_other_end_of_the_link(made: Callable[..., Made]) -> None:
    """Use no bridge and no veth; settings of the tap depend on the guest."""
    lab = made(*forwarder())
    west, east = guest(lab, "dut").nics
    assert west.backend == TapBackend("iolab-t", "p0")
    assert (west.name, east.name, west.mac != east.mac) == ("eth0", "eth1", True)
    assert lab["vm:dut"].needs == ("netns:t",)
    assert lab["tap:t.p0"].needs == ("netns:t", "vm:dut")
    assert not any(key.startswith(("veth:", "netns:link")) for key in lab)
    assert lab["address:t.p0"].needs == ("tap:t.p0",)


def test_settings_inside_a_guest_are_applied_in_the_guests_kernel(made: Callable[..., Made]) -> None:
    """Find its NICs by address and rename them to the ports' names."""
    lab = made(*forwarder())
    inside = {key for key, resource in lab.items() if resource.kernel == "dut"}
    assert {"card:dut.eth0", "bridge:dut.br0", "member:dut.eth1", "address:dut.br0", "ipv6:dut",
            "mtu:west:dut", "setting:dut:net.ipv4.ip_forward"} <= inside  # fmt: skip
    assert not any(resource.kernel for key, resource in lab.items() if key not in inside)
    assert typed(lab, "card:dut.eth0") == ["ip link set dev {found} name eth0 up"]
    shown = {expected.what: expected.expected for expected in lab["card:dut.eth0"].expect}
    assert shown["driver of dut.eth0"] == "virtio_net"
    assert shown["address of the card dut.eth0"] == guest(lab, "dut").nics[0].mac


def test_guest_nics_with_swapped_names_are_renamed_in_two_steps(made: Callable[..., Made]) -> None:
    """Use temporary names if eth0 is the name of a different port."""
    machines = {"a": "none", "b": "none", "g": vm()}
    lab = made(machines, {"x": ["a.p0", "g.eth1"], "y": ["b.p0", "g.eth0"]})
    assert typed(lab, "names:g") == [
        "ip link set dev {found} name card0",
        "ip link set dev {found} name card1",
    ]
    assert "names:g" in lab["card:g.eth0"].needs
    assert "names:g" not in made(machines, {"x": ["a.p0", "g.in"], "y": ["b.p0", "g.out"]})


def test_guest_nic_addresses_are_stable_and_locally_administered(
    made: Callable[..., Made],
) -> None:
    """Compare with fixed values, which do not depend on the rest of the lab."""
    macs = [nic.mac for nic in guest(made(*forwarder()), "dut").nics]
    assert macs == ["02:a1:d0:97:b6:08", "02:45:26:b5:51:1f"]
    alone = made({"t": "none", "dut": vm()}, {"other": ["t.p9", "dut.eth0"]})
    assert guest(alone, "dut").nics[0].mac == macs[0]


@pytest.mark.parametrize("count", [2, 3])
def test_link_between_two_guests_or_with_three_ends_is_a_bridge(
    made: Callable[..., Made], count: int
) -> None:
    """Put it into a separate namespace, with guests' taps and other veths as members."""
    machines = {"a": vm(), "b": vm(), "c": "none"}
    lab = made(machines, {"lan": ["a.eth0", "b.eth0", "c.eth0"][:count]})
    assert guest(lab, "b").nics[0].backend == TapBackend("iolab-link-lan", "p1")
    assert typed(lab, "side:b.eth0") == ["ip link set dev p1 master br0 up"]
    assert lab["side:b.eth0"].needs == ("bridge:lan", "vm:b")
    assert ("veth:c.eth0" in lab) == (count == 3)
    assert "netns:link-lan" in lab["vm:a"].needs


def test_macvtap_is_created_on_a_veth_before_the_guest_starts(made: Callable[..., Made]) -> None:
    """Create its lower device in the link's namespace; copy the NIC's address and pass every frame."""
    lab = made(*forwarder(nic="macvtap+vhost"))
    nic = guest(lab, "dut").nics[0]
    assert nic.backend == MacvtapBackend("iolab-link-west", "m1", vhost=True)
    assert lab["vm:dut"].needs == ("macvtap:dut.eth0", "macvtap:dut.eth1")
    assert typed(lab, "macvtap:dut.eth0")[0] == (
        f"ip link add link p1 name m1 address {nic.mac} type macvtap mode passthru"
    )
    assert typed(lab, "mtu:west") == [f"ip link set dev {name} mtu 1500" for name in ("p0", "p1", "m1")]


def test_macvtap_on_a_link_with_several_ends_is_connected_to_the_bridge_by_a_veth_pair(
    made: Callable[..., Made],
) -> None:
    """Add a veth pair, because a bridge member cannot carry a macvtap."""
    lab = made({"a": vm(nic="macvtap"), "b": vm()}, {"lan": ["a.eth0", "b.eth0"]})
    assert typed(lab, "macvtap:a.eth0")[:2] == [
        "ip link add dev l0 type veth peer name p0",
        "ip link set dev p0 master br0 up",
    ]
    assert guest(lab, "a").nics[0].backend == MacvtapBackend("iolab-link-lan", "m0")


def test_vhost_user_switch_creates_the_tap_of_the_guest(made: Callable[..., Made]) -> None:
    """Make it the port at the other end, or a bridge member, and remove it with the guest."""
    lab = made(*forwarder(nic="vhost-user"))
    assert guest(lab, "dut").nics[0].backend == VhostUserBackend("iolab-t", "p0", "eth0.sock")
    assert lab["tap:t.p0"].needs == ("netns:t", "vm:dut")
    several = made({"a": vm(nic="vhost-user"), "b": vm()}, {"lan": ["a.eth0", "b.eth0"]})
    assert guest(several, "a").nics[0].backend == VhostUserBackend("iolab-link-lan", "p0", "eth0.sock")
    assert typed(several, "side:a.eth0") == ["ip link set dev p0 master br0 up"]


def test_vhost_user_nic_has_exactly_the_used_queues(made: Callable[..., Made]) -> None:
    """Leave no spare queues, because a switch sends into every queue; a change restarts the guest."""
    assert guest(made(*forwarder(nic="vhost-user")), "dut").nics[0].queues == 1
    lab = made(*forwarder(nic="vhost-user", queues=2))
    assert guest(lab, "dut").nics[0].queues == 2
    assert typed(lab, "queues:dut.eth0") == ["ethtool -L eth0 combined 2"]


CHILDREN: dict[str, object] = {
    "h1": vm(cpus=2, memory="1G"), "h2": vm(), "g": vm(on="h1", memory="256M"),
    "n": {"kind": "netns", "on": "h2"},
}  # fmt: skip


def children(**lan: object) -> tuple[dict[str, object], dict[str, object]]:
    """Return two guests as hosts, one with a guest and one with a namespace, connected to its port."""
    links: dict[str, object] = {"lan": {"ends": ["h1.eth0", "h2.eth0"], **lan}}
    return CHILDREN, links | {"b1": ["h1.eth0", "g.eth0"], "b2": ["h2.eth0", "n.eth0"]}


def test_parent_bridges_its_port_with_the_nics_of_its_guests(made: Callable[..., Made]) -> None:
    """Use one segment and one subnet, with the parent's address on its bridge."""
    lab = made(*children())
    assert typed(lab, "member:h1.eth0") == ["ip link set dev eth0 master br0"]
    assert guest(lab, "g").nics[0].backend == TapBackend(None, "g.eth0")
    assert (lab["vm:g"].kernel, lab["side:g.eth0"].kernel, lab["card:g.eth0"].kernel) == ("h1", "h1", "g")
    assert typed(lab, "side:g.eth0") == ["ip link set dev g.eth0 master br0 up"]
    assert (lab["netns:n"].kernel, lab["netns:n"].needs) == ("h2", ("ipv6:h2",))
    (add, *_) = lab["veth:n.eth0"].actions
    assert isinstance(add, Run)
    assert add.do.netns is None
    assert " ".join(add.do.argv).startswith("ip link add dev n.eth0 type veth peer name eth0 address 02:")
    assert add.do.argv[-2:] == ("netns", "iolab-n")
    networks = {typed(lab, key)[0].split()[3].rpartition(".")[0] for key in lab if key.startswith("address:")}
    assert len(networks) == 1
    assert typed(lab, "address:h1.br0")[0].endswith("dev br0")
    assert "address:h1.eth0" not in lab


def test_path_between_nested_guests_includes_their_parents_ports(make_lab: MakeLab) -> None:
    """Include a port with guests twice: as the end of one link and the beginning of the next."""
    lab = make_lab(*children())
    latency = Latency.model_validate({"kind": "latency", "from": "g", "to": "n", "rate": "1kpps"})
    (way,) = ways(lab, make_topology(lab), latency)
    assert way.hops == (("g.eth0", "h1.eth0"), ("h1.eth0", "h2.eth0"), ("h2.eth0", "n.eth0"))
    compose(lab, placement=place((way,), range(4)), cpus=4)


def test_vlan_change_below_a_parents_bridge_restarts_no_guest(made: Callable[..., Made]) -> None:
    """Change the bridge's member to the VLAN interface; keep guests, bridges and their ports."""
    change = difference(tuple(made(*children()).values()), tuple(made(*children(vlan=100)).values()))
    done = {resource.key for resource in change.do}
    assert restarted(change) == set()
    assert {"vlan:h1.eth0", "member:h1.eth0", "address:h1.br0"} <= done
    assert done.isdisjoint({"bridge:h1.br0", "side:g.eth0", "card:g.eth0", "address:g.eth0", "netns:n"})
    lab = made(*children(vlan=100))
    assert typed(lab, "member:h1.eth0") == ["ip link set dev eth0.100 master br0"]


def test_backend_of_a_xen_domain_is_added_to_the_bridge_like_a_tap(made: Callable[..., Made]) -> None:
    """Create the domain without its bridge; reserve memory of Dom0."""
    machines = {
        "h": vm(image="xen", memory="1536M"),
        "d": vm(engine="xen", on="h", memory="256M"),
        "t": "none",
    }
    lab = made(machines, {"lan": ["h.eth0", "t.eth0"], "br": ["h.eth0", "d.eth0"]})
    assert guest(lab, "d").nics[0].backend == TapBackend(None, "d.eth0")
    assert "bridge:h.br0" not in lab["vm:d"].needs
    assert typed(lab, "side:d.eth0") == ["ip link set dev d.eth0 master br0 up"]
    assert (guest(lab, "h").domains_bytes, guest(lab, "d").image) == (256 << 20, "xen")
    assert (guest(lab, "h").domains_cpus, guest(lab, "d").own_cpus) == (1, (1,))
    shown = {expected.what: expected.expected for expected in lab["card:d.eth0"].expect}
    assert shown["driver of d.eth0"] == "vif"


def test_parent_guest_uses_an_image_that_can_start_guests(made: Callable[..., Made]) -> None:
    """Keep a written image; a nested guest has its parent's image."""
    lab = made(*children())
    assert [guest(lab, name).image for name in ("h1", "h2", "g")] == ["nested", "linux", "nested"]


def test_link_between_unconnectable_kernels_is_refused(made: Callable[..., Made]) -> None:
    """Refuse a guest of one host with a local namespace, which have no common kernel."""
    machines = {"h": vm(), "n": {"kind": "netns", "on": "h"}, "t": "none"}
    with pytest.raises(InputError, match=r"n\.eth0 on h, t\.eth0 on this host; allowed: machines on"):
        made(machines, {"x": ["n.eth0", "t.eth0"]})


def restarted(change: Change) -> set[str]:
    """Return the guests that a change restarts."""
    return {name for resource in change.do for name in guests(resource)}


def changed(made: Callable[..., Made], before: dict[str, object], after: dict[str, object]) -> Change:
    """Return the change from one forwarder to another."""
    return difference(tuple(made(*forwarder(**before)).values()), tuple(made(*forwarder(**after)).values()))


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        ({"pin": "none"}, {"pin": "auto"}, {"pin:dut"}),
        ({"pin": "auto"}, {"pin": [0, 3]}, {"pin:dut"}),
        ({"pin": [1]}, {"pin": [1], "pin_io": [0]}, {"pin:dut"}),
        ({"queues": 1}, {"queues": 2}, {"queues:dut.eth0", "queues:dut.eth1"}),
        ({"nic": "e1000", "ring": {"rx": 256}}, {"nic": "e1000", "ring": {"rx": 512}},
         {"ring:dut.eth0:rx", "ring:dut.eth1:rx"}),
    ],
)  # fmt: skip
def test_runtime_settings_of_a_guest_are_changed_in_place(
    made: Callable[..., Made], before: dict[str, object], after: dict[str, object], keys: set[str]
) -> None:
    """Undo nothing, and touch only those resources."""
    change = changed(made, before, after)
    assert change.undo == ()
    assert change.in_place == keys
    assert {resource.key for resource in change.do} == keys


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"nic": "e1000"}, {"nic": "virtio-net"}),
        ({"ring": {"rx": 256}}, {"ring": {"rx": 512}}),
        ({"memory": "512M"}, {"memory": "1G"}),
        ({"accel": "tcg"}, {"accel": "kvm"}),
    ],
)
def test_change_of_hypervisor_settings_restarts_the_guest(
    made: Callable[..., Made], before: dict[str, object], after: dict[str, object]
) -> None:
    """Restart everything in it or on its taps, and no namespace."""
    change = changed(made, before, after)
    assert restarted(change) == {"dut"}
    undone = {resource.key for resource in change.undo}
    assert {"vm:dut", "tap:t.p0", "address:t.p0", "card:dut.eth0", "pin:dut"} <= undone
    assert "netns:t" not in undone


def test_forwarding_and_kernel_settings_change_while_the_guest_runs(made: Callable[..., Made]) -> None:
    """Remove the bridge between the levels bridge and route; keep the NICs."""
    change = changed(
        made, {"forward": "bridge"}, {"forward": "route", "settings": {"net.ipv4.tcp_sack": "0"}}
    )
    assert restarted(change) == set()
    undone = {resource.key for resource in change.undo}
    assert "bridge:dut.br0" in undone
    assert undone.isdisjoint({"vm:dut", "card:dut.eth0", "tap:t.p0"})


def test_resources_on_the_taps_of_a_guest_depend_on_the_guest(made: Callable[..., Made]) -> None:
    """Undo them before the guest stops, and namespaces after it."""
    lab = made(*forwarder())
    carried = dependents(lab.values(), ["vm:dut"])
    assert {"tap:t.p0", "address:t.p0", "mtu:west", "card:dut.eth0"} <= carried
    assert carried.isdisjoint({"vm:dut", "netns:t"})


@pytest.mark.parametrize(
    ("pin", "cpus", "expected"),
    [
        ("none", 8, PinGuest("dut", (), ())),
        ("auto", 8, PinGuest("dut", (1, 2), (3, 4, 5, 6, 7))),
        ("auto", 2, PinGuest("dut", (1, 1), (1,))),
        ([3], 8, PinGuest("dut", (3, 3), ())),
    ],
)
def test_automatic_pins_keep_vcpus_off_the_first_cpu(
    made: Callable[..., Made], pin: object, cpus: int, expected: PinGuest
) -> None:
    """Keep written pins; assign CPUs in order with auto, and leave the rest to frames."""
    lab = made(*forwarder(pin=pin), cpus=cpus)
    assert lab["pin:dut"].actions == (expected,)
    wanted = [" ".join(map(str, expected.vcpus)), ",".join(map(str, expected.carriers))]
    assert [one.expected for one in lab["pin:dut"].expect] == [text for text in wanted if text]


@pytest.mark.parametrize(("pin", "vcpus"), [("none", ()), ("auto", (1, 2)), ([3], (3, 3))])
def test_pin_io_pins_vhost_threads_to_the_configured_cpus(
    made: Callable[..., Made], pin: object, vcpus: tuple[int, ...]
) -> None:
    """Place the vhost threads on the virtual CPUs' CPUs, or on others, and read them back."""
    lab = made(*forwarder(pin=pin, pin_io=[5, 4]), cpus=8)
    assert lab["pin:dut"].actions == (PinGuest("dut", vcpus, (5, 4)),)
    assert lab["pin:dut"].expect[-1].expected == "4,5"


MACHINES: dict[str, object] = {
    "a": "none", "b": "bridge", "c": "route", "v": vm(cpus=2), "w": vm(nic="macvtap", forward="route"),
    "x": vm(image="xen"), "d": vm(engine="xen", on="x"), "g": vm(on="v", nic="e1000"),
    "n": {"kind": "netns", "on": "v", "forward": "bridge"}, "m": {"kind": "netns", "on": "v"},
}  # fmt: skip
TOGETHER = (("a", "b", "c", "v", "w", "x"), ("v", "g", "n", "m"), ("g", "n", "m"), ("x", "d"))


@given(data=st.data())
def test_every_guest_starts_before_the_resources_inside_it(make_lab: MakeLab, data: st.DataObject) -> None:
    """Order requirements first, include the guest of a kernel, and give the same result twice."""
    links: dict[str, object] = {}
    for number in range(data.draw(st.integers(1, 4))):
        group = data.draw(st.sampled_from(TOGETHER))
        names = data.draw(st.lists(st.sampled_from(group), min_size=2, max_size=4, unique=True))
        vlan = data.draw(st.sampled_from([None, 7]))
        links[f"l{number}"] = {"ends": [f"{name}.p{number}" for name in names], "vlan": vlan}
    lab = make_lab(MACHINES, links)
    resources = compose(lab, cpus=4)
    done: dict[str, frozenset[str]] = {}
    for resource in resources:
        assert set(resource.needs) <= done.keys(), resource.key
        above = frozenset(name for key in resource.needs for name in done[key])
        assert not resource.kernel or resource.kernel in above, resource.key
        done[resource.key] = above | set(guests(resource))
    assert len(done) == len(resources)
    assert compose(lab, cpus=4) == resources


def test_pairs_of_ports_are_measured_concurrently_through_separate_guests(make_lab: MakeLab) -> None:
    """Check two guests: each pair has its own paths on one kernel, with a CPU per end."""
    lab = side_by_side(make_lab)
    measure = Latency.model_validate(SIDE_BY_SIDE | {"direction": "both-ways"})
    found = ways(lab, make_topology(lab), measure)
    assert [way.name for way in found] == ["t.p0->t.p1", "t.p1->t.p0", "t.p2->t.p3", "t.p3->t.p2"]
    assert {hop.partition(".")[0] for hop in found[2].arrivals[:-1]} == {"dut2"}
    check_ways("it", measure, lab, make_topology(lab))
    assert len(set(place(found, range(12)).senders.values())) == 4


def test_two_pairs_on_one_port_are_refused(make_lab: MakeLab) -> None:
    """Refuse them, because no port could show which guest sent a frame."""
    lab = side_by_side(make_lab)
    measure = Latency.model_validate(SIDE_BY_SIDE | {"pairs": [{"from": "t.p2", "to": "t.p1"}]})
    with pytest.raises(InputError):
        ways(lab, make_topology(lab), measure)


def side_by_side(make_lab: MakeLab) -> Lab:
    """Return a tester with two guests that bridge between two of its ports each."""
    bridge = vm(forward="bridge")
    links = {f"l{n}": [f"t.p{n}", f"dut{1 + n // 2}.eth{n % 2}"] for n in range(4)}
    return make_lab({"t": "none", "dut1": bridge, "dut2": bridge}, links)


SIDE_BY_SIDE = {"kind": "latency", "from": "t.p0", "to": "t.p1", "rate": "10kpps",
                "pairs": [{"from": "t.p2", "to": "t.p3"}]}  # fmt: skip
