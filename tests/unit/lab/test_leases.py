"""The leases of a lab on each host: for the objects that it changes there, and the CPUs that it uses exclusively."""

from itertools import product

import pytest

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.packets import Packets
from iolab.lab.compose import compose
from iolab.lab.leases import LONGEST_NAME, leases_of, tag_of, tagged
from iolab.lab.packets.placement import placed, ways
from iolab.lab.topology import make_topology
from iolab.registry.registry import measure_kinds

PAIR = "machines: {near: {kind: netns}, far: {kind: netns}}, links: {lan: {ends: [near.eth0, far.eth0]}}"
STREAM = "{kind: stream, from: near, to: far}"


def leased(lab: str, measure: str = STREAM, tag: str = "abcde", cpus: int = 4) -> dict[str, set[str]]:
    """Return the leases of a lab with one measure, by kernel."""
    experiment = parse(f"lab: {{{lab}}}\nmeasure: {{it: {measure}}}\n", "lab.yaml")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    made, it = tagged(setup.lab, tag), setup.measures["it"]
    topology, placement = make_topology(made), None
    if isinstance(it, Packets):
        placement = placed(made, it, ways(made, topology, it), range(cpus))
    resources = compose(made, placement=placement, cpus=cpus, other_cpus={"pc": cpus})
    row = measure_kinds()[it.kind]
    alone = product(row.kernels(it, topology), row.alone)
    found: dict[str, set[str]] = {}
    for kernel, name in leases_of(made, topology, resources, placement, alone):
        found.setdefault(kernel, set()).add(name)
    return found


def test_lab_of_namespaces_leases_only_its_names() -> None:
    """Begin all names of a lab with its letters, so that any number of other labs can run at the same time."""
    assert leased(PAIR) == {"": {"names:abcde-"}}


def test_labs_of_different_plans_lease_no_common_resource() -> None:
    """Derive the letters from the plan's digest."""
    one, other = tag_of("1f"), tag_of("20")
    assert leased(PAIR, tag=one)[""].isdisjoint(leased(PAIR, tag=other)[""])


@pytest.mark.parametrize(
    ("lab", "measure", "resources"),
    [
        pytest.param(
            PAIR.replace("near: {kind: netns}", "near: {kind: netns, program_cpus: [0, 2]}"),
            STREAM,
            {"cpu:0", "cpu:2"},
            id="programs on CPUs",
        ),
        pytest.param(
            PAIR,
            "{kind: latency, rate: 1kpps, from: near, to: far}",
            {"cpu:0", "cpu:1"},
            id="packet threads",
        ),
        pytest.param(
            "machines: {here: {kind: host, settings: {net.core.rmem_max: '1000000'}}}",
            "{kind: stream, from: here, to: here}",
            {"port:lo", "setting:net.core.rmem_max"},
            id="a host's loopback and setting",
        ),
        pytest.param(
            "machines: {here: {kind: host, processors: {governor: performance}}}",
            "{kind: stream, from: here, to: here}",
            {"port:lo", "processors"},
            id="governor",
        ),
        pytest.param(
            "machines: {here: {kind: host, run: {it: {do: ['true'], undo: ['true']}}}}",
            "{kind: stream, from: here, to: here}",
            {"port:lo", "host"},
            id="commands of the user",
        ),
        pytest.param(
            "machines: {a: {kind: netns, disks: [{volume: data}]}}, volumes: {data: {size: 16M}}",
            "{kind: disk, program: fio, on: a, size: 4M, fio: {each: 1s, blocks: [4K], depths: [1]}}",
            {"volume:data", "page-cache"},
            id="a disk",
        ),
    ],
)
def test_resources_that_a_lab_uses_exclusively_are_leased(
    lab: str, measure: str, resources: set[str]
) -> None:
    """Lease these resources in addition to the lab's names."""
    assert leased(lab, measure)[""] - {"names:abcde-"} == resources


def test_each_host_has_separate_leases_and_guests_have_none() -> None:
    """Lease ports and networks on their host; a guest's kernel needs no lease, because it ends with the lab."""
    lab = """machines: {here: {kind: host}, pc: {kind: host, ssh: root@pc},
      dut: {kind: vm, on: pc, pin: auto, cpus: 1}},
      links: {lan: {ends: [here.eth7, pc.eth8], cable: true}, down: {ends: [pc.eth8, dut.eth0]}}"""
    found = leased(lab, "{kind: stream, from: here, to: dut}")
    assert sorted(found) == ["", "pc"]
    assert {"names:abcde-", "port:eth7", "network:198.18.0.0_24"} <= found[""]
    assert {"names:abcde-", "port:eth8"} <= found["pc"]
    assert any(name.startswith("cpu:") for name in found["pc"])
    assert not any(name.startswith("cpu:") for name in found[""])


def test_long_resource_name_is_shortened_and_stays_unique() -> None:
    """Shorten the name, because agents refuse names of more than 120 characters."""
    names = [
        next(name for name in leased(f"machines: {{here: {{kind: host, settings: {{{'a' * 150}{end}: '1'}}}}}}",
             "{kind: stream, from: here, to: here}")[""] if name.startswith("setting:a"))
        for end in "xy"
    ]  # fmt: skip
    assert max(map(len, names)) <= LONGEST_NAME
    assert names[0] != names[1]
