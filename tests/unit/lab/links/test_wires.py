"""A link with `wire:` as resources: changes while it runs, its memory, and conflicts."""

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab as load_lab

from iolab.errors import InputError
from iolab.experiment import Resolver, parse
from iolab.experiment.experiment import Lab
from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Host, Machine, Netns, Vm
from iolab.lab.actions import CarriedPort, ImpairWire, Run, StartWire
from iolab.lab.compose import compose
from iolab.lab.links.tc import netem_options
from iolab.lab.links.wires import MARGIN_BYTES, POLLING_PRIORITY, way_memory, wire_memory
from iolab.lab.packets.placement import placement_of
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.requirements.part_needs import check_packets
from iolab.lab.resources import difference
from iolab.lab.topology import make_topology
from iolab.messages.unmet import PlainUnbuilt


def wired(done: dict[str, object] | None, *ends: str) -> Lab:
    """Return a lab of one link."""
    ends = ends or ("near.eth0", "far.eth0")
    machines = {end.split(".", maxsplit=1)[0]: Netns.model_validate({"kind": "netns"}) for end in ends}
    link = Link.model_validate({"ends": list(ends)} | ({"wire": done} if done else {}))
    return Lab(machines, {"path": link}, {})


def test_emulated_link_creates_both_taps_and_a_separate_impairment_resource() -> None:
    """Create the taps with the link; use no veth pair."""
    found = {resource.key: resource for resource in compose(wired({"delay": "1ms"}))}
    assert "veth:path" not in found
    start, done = found["wire:path"].actions[0], found["impairments:path"].actions[0]
    assert isinstance(start, StartWire)
    assert isinstance(done, ImpairWire)
    assert start.ends == (("iolab-near", "eth0"), ("iolab-far", "eth0"))
    assert [way.delay for way in done.ways] == [1_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("more", "frame_bytes"),
    [
        ({}, None),
        ({"offload": {"tso": "off"}}, 1518),
        ({"offload": {"tso": "off"}, "mtu": 3000}, 3018),
        ({"offload": {"tso": "off"}, "mtu": 3001}, None),
        ({"offload": {"tso": "off", "gro": "off"}}, None),
        ({"offload": {"tso": "off", "tx_checksum": "on"}}, None),
        ({"offload": {"tso": "off"}, "shape": {"at": "near.eth0", "qdisc": "pacer", "rate": "1Gbit"}}, None),
    ],
)
def test_emulated_link_that_segments_gso_frames_uses_veth_pairs(
    more: dict[str, object], frame_bytes: int | None
) -> None:
    """Use them as far as their frames have the requested properties."""
    lab = wired({"delay": "1ms"})
    link = Link.model_validate(
        lab.links["path"].model_dump(exclude_unset=True) | {"wire": {"delay": "1ms"}} | more
    )
    (start,) = wire_starts(Lab(lab.machines, {"path": link}, {}))
    assert start.veth_frame_bytes == frame_bytes


def wire_starts(lab: Lab) -> list[StartWire]:
    """Return the actions that start emulated links."""
    found = (action for resource in compose(lab) for action in resource.actions)
    return [action for action in found if isinstance(action, StartWire)]


def test_impairment_change_affects_only_the_emulated_link() -> None:
    """Keep the lab; a link without a wire is a different link."""
    first, second = (compose(wired({"delay": delay})) for delay in ("1ms", "10ms"))
    change = difference(first, second)
    assert ([one.key for one in change.undo], [one.key for one in change.do]) == ([], ["impairments:path"])
    assert "wire:path" in [one.key for one in difference(first, compose(wired(None))).undo]


@pytest.mark.parametrize(
    ("given", "beyond"),
    [
        ({"delay": "1s"}, 1_250_000_000),
        ({"delay": "100ms", "rate": "1Gbit", "queue": "1M"}, 12_500_000 + (1 << 20)),
        ({"loss": 0.1}, 0),
    ],
)
def test_memory_of_an_emulated_link_is_rate_times_delay_plus_queue(
    given: dict[str, object], beyond: int
) -> None:
    """Compute 1.25 GB for 10 Gbit/s and a second."""
    assert way_memory(Impairments.model_validate(given)) == beyond + MARGIN_BYTES


def test_impairments_may_differ_per_direction() -> None:
    """Apply the keys of an end to its sent frames, in place of the wire's keys."""
    lab = wired({"delay": "10ms", "rate": "1Mbit", "sent_by": {"far.eth0": {"rate": "20Mbit", "codel": {}}}})
    (done,) = (one.actions[0] for one in compose(lab) if one.key == "impairments:path")
    assert isinstance(done, ImpairWire)
    assert [(way.rate, way.delay, way.codel is None) for way in done.ways] == [
        ("1000000bit", 10_000_000, True),
        ("20000000bit", 10_000_000, False),
    ]
    assert sum(done.memory_bytes) == wire_memory(lab.links["path"])


def test_netem_engine_uses_a_veth_pair_with_a_qdisc_at_each_end() -> None:
    """Apply each qdisc to the frames that its end sends."""
    bursts = {"to_bad": 0.01, "to_good": 0.25}
    given: dict[str, object] = {
        "emulator": "netem",
        "delay": "1ms",
        "sent_by": {"far.eth0": {"loss_bursts": bursts, "rate": "1Mbit"}},
    }
    lab = wired(given)
    found = {one.key: one for one in compose(lab)}
    assert "wire:path" not in found
    assert {"veth:path", "netem:near.eth0", "netem:far.eth0"} <= found.keys()
    wire = lab.links["path"].wire
    assert wire is not None
    assert netem_options(wire.way(lab.links["path"].ends[0])) == ("limit", "15880", "delay", "1000.000us")
    far = " ".join(netem_options(wire.way(lab.links["path"].ends[1])))
    assert far == "limit 1001 delay 1000.000us loss gemodel 1% 25% 100% 0% rate 1000000bit"
    needs = {need.name for need in lab_needs(lab) if isinstance(need, Need) and need.kind is NeedKind.FEATURE}
    assert "qdisc:netem" in needs
    assert "link:tun" not in needs


def test_guest_on_an_emulated_link_is_connected_by_a_dedicated_bridge() -> None:
    """Connect two bridges: one with the guest's tap, one with the far end of the namespace's veth pair."""
    machines: dict[str, Machine] = {
        "near": Netns.model_validate({"kind": "netns"}),
        "guest": Vm.model_validate({"kind": "vm"}),
    }
    link = Link.model_validate({"ends": ["near.eth0", "guest.eth0"], "wire": {"delay": "1ms"}})
    lab = Lab(machines, {"path": link}, {})
    found = {one.key: one for one in compose(lab)}
    start = found["wire:path"].actions[0]
    assert isinstance(start, StartWire)
    assert start.ends == (("iolab-link-path", "w0"), ("iolab-link-path", "w1"))
    enslaved = {
        " ".join(action.do.argv)
        for one in found.values()
        for action in one.actions
        if isinstance(action, Run) and "master" in action.do.argv
    }
    assert {"br0", "br1"} == {line.split()[6] for line in enslaved}
    assert not any(isinstance(need, PlainUnbuilt) for need in lab_needs(lab))


def test_emulated_link_needs_taps_memory_and_exactly_two_ends() -> None:
    """Report more ends as not supported."""
    wanted = lab_needs(wired({"delay": "1s"}))
    needs = {need.kind: need.name for need in wanted if isinstance(need, Need)}
    assert needs[NeedKind.MEMORY] == str(2 * (1_250_000_000 + MARGIN_BYTES))
    assert needs[NeedKind.FEATURE] == "link:tun"
    more = lab_needs(wired({"delay": "1s"}, "near.eth0", "far.eth0", "third.eth0"))
    assert any(isinstance(need, PlainUnbuilt) and need.code == "wire-unbuilt" for need in more)


@pytest.mark.parametrize(
    ("does", "with_streams"),
    [("wire: {delay: 1ms}", None), ("shape: {at: near.p0, qdisc: pacer, rate: 1Mbit}", POLLING_PRIORITY)],
)
def test_emulated_link_gets_realtime_priority_only_for_test_frames_or_pacing(
    does: str, with_streams: int | None
) -> None:
    """Set it only if frames must be spaced, because a busy-waiting thread uses the CPU of streams."""
    text = f"""
lab:
  machines: {{near: {{kind: netns}}, far: {{kind: netns}}}}
  links: {{path: {{ends: [near.p0, far.p0], {does}}}}}
measure: {{it: {{kind: latency, from: near.p0, to: far.p0, rate: 1kpps}}}}
"""
    setup = Resolver(parse(text, "lab.yaml")).setup({})
    for placement, priority in (
        (None, with_streams),
        (placement_of(setup, "it", (0, 1)), POLLING_PRIORITY),
    ):
        made = compose(setup.lab, placement=placement)
        (start,) = [action for one in made for action in one.actions if isinstance(action, StartWire)]
        assert start.priority == priority


def cabled(*ends: str, **keys: object) -> Lab:
    """Return a lab of hosts with a cable that iolab emulates or paces."""
    names = dict.fromkeys(end.split(".", maxsplit=1)[0] for end in ends)
    machines: dict[str, Machine] = {
        name: Host.model_validate({"kind": "host", "ssh": name}) for name in names
    }
    link = Link.model_validate({"ends": list(ends), "cable": True} | keys)
    return Lab(machines, {"path": link}, {})


def test_wire_on_a_cable_carries_the_labs_networks_on_the_port_of_the_first_end() -> None:
    """Merge no frames with LRO; keep the port."""
    found = {r.key: r for r in compose(cabled("a.eth1", "b.eth1", wire={"delay": "1ms"}, ip="both"))}
    (start,) = found["wire:path"].actions
    assert isinstance(start, StartWire)
    assert found["wire:path"].kernel == "a"
    assert start.on_port == CarriedPort("eth1", ("198.18.0.0/24", "2001:2::/64"))
    assert start.super_frames
    assert "offload:a.eth1:carried:lro" in found


def test_pacer_on_a_cable_is_on_the_shaped_port_and_carries_single_frames() -> None:
    """Use the shaped port, of any number of ends; switch GRO off there."""
    shape = {"at": "c.eth1", "qdisc": "pacer", "rate": "1Gbit"}
    lab = cabled("a.eth1", "b.eth1", "c.eth1", shape=shape)
    found = {resource.key: resource for resource in compose(lab)}
    (start,) = found["wire:path"].actions
    assert isinstance(start, StartWire)
    assert (found["wire:path"].kernel, start.super_frames, start.apart) == ("c", False, True)
    (impair,) = found["impairments:path"].actions
    assert isinstance(impair, ImpairWire)
    assert [pacing is not None for pacing in impair.pacing] == [True, False]
    assert "offload:c.eth1:carried:lro+gro" in found
    assert not any(isinstance(need, PlainUnbuilt) for need in lab_needs(lab))


def test_wire_on_a_cable_with_more_than_two_ends_is_refused() -> None:
    """Name the emulated link as unsupported."""
    found = lab_needs(cabled("a.eth1", "b.eth1", "c.eth1", wire={"delay": "1ms"}))
    assert [need.code for need in found if isinstance(need, PlainUnbuilt)] == ["wire-unbuilt"]


def test_frames_that_would_bypass_the_emulated_link_on_their_port_are_refused() -> None:
    """Name the port and the link: iolab's own frames do not pass the network stack."""
    found = load_lab()
    hosts: dict[str, Machine] = {
        name: Host.model_validate(
            {"kind": "host", "ssh": name} | ({"forward": "bridge"} if name == "dut" else {})
        )
        for name in found.machines
    }
    west = Link.model_validate(
        {"ends": list(found.links["west"].ends), "cable": True, "wire": {"delay": "1ms"}}
    )
    east = found.links["east"].model_copy(update={"cable": True})
    lab = Lab(hosts, {"west": west, "east": east}, {})
    with pytest.raises(InputError, match=r"tester.p0, whose frames iolab carries for link west"):
        check_packets(measure(), lab, make_topology(lab))
