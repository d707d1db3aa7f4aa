"""Lab resources of packet trials: NAPI on every port, threads of receiving ports, neighbours of routers, devices."""

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import PinNapi, Run, StartDevice
from iolab.lab.compose import compose
from iolab.lab.packets.placement import place, senders_of, ways
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.requirements.part_needs import check_packets, measure_needs
from iolab.lab.resources import Resource, difference
from iolab.lab.topology import make_topology
from iolab.messages.places import ForMeasure, KeyOf


def arranged(made: Lab, cpus: int = 4, **keys: object) -> dict[str, Resource]:
    """Return the resources for packets of a lab, by key."""
    directions = ways(made, make_topology(made), measure(**keys))
    placement = place(directions, range(cpus), realtime=True)
    return {resource.key: resource for resource in compose(made, placement=placement)}


def test_every_port_gets_the_offloads_that_enable_napi() -> None:
    """Enable GRO, and disable TSO and GSO, at both ends of both links; keep settings of the file."""
    found = arranged(lab())
    for ref in ("tester.p0", "tester.p1", "dut.eth0", "dut.eth1"):
        change = found[f"napi:{ref}"].actions[0]
        assert isinstance(change, Run)
        assert change.do.argv[3:] == ("tso", "off", "gso", "off", "gro", "on")
        assert {e.expected for e in found[f"napi:{ref}"].expect} == {"tso off", "gso off", "gro on"}
    links = {name: link.model_copy(update={"offload": link.offload.model_copy(update={"gro": "off"})})
             for name, link in lab().links.items()}  # fmt: skip
    change = arranged(Lab(lab().machines, links, {}))["napi:dut.eth0"].actions[0]
    assert isinstance(change, Run)
    assert change.do.argv[3:] == ("tso", "off", "gso", "off")


def test_only_receiving_ports_get_a_napi_thread() -> None:
    """Check the device's first port and the far one, and all four both ways."""
    for direction, expected in (("one-way", 2), ("both-ways", 4)):
        found = arranged(lab(), direction=direction)
        pins = [a for r in found.values() for a in r.actions if isinstance(a, PinNapi)]
        assert len(pins) == expected


def test_several_senders_get_a_queue_each_and_a_napi_thread_at_the_far_end() -> None:
    """Set the queues of both ends before the threads, and read them back."""
    made = lab()
    placement = place(ways(made, make_topology(made), measure()), range(8), senders=3)
    found = {resource.key: resource for resource in compose(made, placement=placement)}
    runs = [a for a in found["senders:tester.p0"].actions if isinstance(a, Run)]
    assert [run.do.argv for run in runs] == [
        ("ethtool", "-L", "eth0", "rx", "3"),
        ("ethtool", "-L", "p0", "tx", "3"),
    ]
    assert {e.expected for e in found["senders:tester.p0"].expect} == {"rx 3", "tx 3"}
    (pin,) = (a for a in found["napi_cpu:dut.eth0"].actions if isinstance(a, PinNapi))
    assert pin.queues == 3
    assert "senders:tester.p0" in found["napi_cpu:dut.eth0"].needs
    (far,) = (a for a in found["napi_cpu:tester.p1"].actions if isinstance(a, PinNapi))
    assert far.queues == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "no line_rate"),
        ({"line_rate": "1Gbit", "senders": 2, "flows": 2}, "one sender fills the line"),
        ({"line_rate": "1Gbit", "path": "bpf_live"}, "path: bpf_live"),
    ],
)
def test_gap_frames_need_a_line_rate_and_one_sender(wrong: dict[str, object], words: str) -> None:
    """Use one sender for `auto`."""
    made = lab()
    good = measure(spacing="gap-frames", line_rate="1Gbit", senders="auto", flows=64)
    check_packets(good, made, make_topology(made))
    assert senders_of(good, 1, 64) == 1
    with pytest.raises(InputError, match=words):
        check_packets(measure(spacing="gap-frames", **wrong), made, make_topology(made))


def test_several_senders_need_a_number_of_flows_that_can_be_divided_among_them() -> None:
    """Refuse other flows, which two threads would number."""
    made = lab()
    check_packets(measure(senders=4, flows=64), made, make_topology(made))
    with pytest.raises(InputError, match="multiple of 3"):
        check_packets(measure(senders=3, flows=64), made, make_topology(made))
    assert Need(NeedKind.CPU, "3", KeyOf(key="senders", part=ForMeasure(measure="it"))) in measure_needs(
        "it", measure(senders=4, flows=64)
    )
    assert not any(
        getattr(need, "kind", None) is NeedKind.CPU for need in measure_needs("it", measure(senders="auto"))
    )
    with pytest.raises(InputError, match="bpf_live"):
        check_packets(measure(senders=2, flows=64, path="bpf_live"), made, make_topology(made))


def test_stream_measures_get_no_packet_resources() -> None:
    """Change nothing of the file's lab."""
    keys = {resource.key.partition(":")[0] for resource in compose(lab())}
    assert not keys & {"napi", "napi_cpu", "neighbour"}


def test_change_from_streams_to_packets_affects_only_offloads_threads_and_neighbours() -> None:
    """Recreate no namespace, link or address."""
    made = lab(forward="route")
    change = difference(compose(made), tuple(arranged(made).values()))
    assert change.undo == ()
    assert {resource.key.partition(":")[0] for resource in change.do} == {"napi", "napi_cpu", "neighbour"}


def test_router_has_permanent_neighbour_entries_for_the_tester() -> None:
    """Add one entry per port of the tester, with the address at lab creation."""
    found = arranged(lab(forward="route"))
    entries = [r for key, r in found.items() if key.startswith("neighbour:")]
    assert len(entries) == 2
    for entry in entries:
        action = entry.actions[0]
        assert isinstance(action, Run)
        assert action.find is not None
        assert "permanent" in action.do.argv


def test_reference_device_is_one_program_per_direction_with_its_capacity() -> None:
    """Check 20 000 frames/s."""
    found = arranged(lab(forward="xdp", device={"rate": "20kpps", "burst": 32}))
    started = {a.interface: a for r in found.values() for a in r.actions if isinstance(a, StartDevice)}
    assert {name: one.towards for name, one in started.items()} == {"eth0": "eth1", "eth1": "eth0"}
    assert started["eth0"].impairments.stages() == (
        {
            "kind": "line",
            "rate": {"kind": "frames", "frames": 20_000, "per_ns": 1_000_000_000, "burst_frames": 32},
            "queue": {"kind": "frames", "frames": 0},
        },
    )


def test_reference_device_with_three_ports_is_refused() -> None:
    """Report the number of ports."""
    machines = {"d": Netns(kind="netns", forward="xdp"), "a": Netns(kind="netns")}
    links = {f"l{i}": Link(ends=(PortRef(f"a.p{i}"), PortRef(f"d.e{i}"))) for i in range(3)}
    with pytest.raises(InputError, match="3 ports"):
        compose(Lab(machines, links, {}))


@pytest.mark.parametrize(
    ("device", "stages"),
    [
        ({"delay": "1ms"}, ["delay"]),
        ({"stall": {"length": "2ms", "every": "5s"}}, ["stall"]),
        (
            {"reorder": {"ratio": "1%", "by": "1ms"}, "loss": 0.001, "rate": "10Mbit"},
            ["loss", "line", "reorder"],
        ),
        ({}, []),
    ],
)
def test_both_directions_of_a_reference_device_have_the_same_stages_in_fixed_order(
    device: dict[str, object], stages: list[str]
) -> None:
    """Use the language's order, whatever the file's."""
    found = arranged(lab(forward="xdp", device=device))
    started = [a for r in found.values() for a in r.actions if isinstance(a, StartDevice)]
    kinds = [[stage["kind"] for stage in one.impairments.stages()] for one in started]
    assert kinds == [stages, stages]


def test_thread_of_a_reference_device_runs_on_the_cpu_of_its_ingress_port() -> None:
    """Give it a priority below the sending threads, because it never sleeps; without arrivals it needs no CPU."""
    found = arranged(lab(forward="xdp", device={"delay": "1ms"}))
    started = {a.interface: a for r in found.values() for a in r.actions if isinstance(a, StartDevice)}
    pins = {a.interface: a for r in found.values() for a in r.actions if isinstance(a, PinNapi)}
    assert started["eth0"].cpu == pins["eth0"].cpu
    assert (started["eth0"].priority or 99) < (pins["eth0"].priority or 0)
    assert (started["eth1"].cpu, started["eth1"].priority) == (None, None)
    program = arranged(lab(forward="xdp", device={"rate": "1kpps"}))["device:dut.eth0"].actions[0]
    assert isinstance(program, StartDevice)
    assert (program.cpu, program.priority) == (None, None)
