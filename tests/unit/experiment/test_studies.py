"""The five studies that define the scope, the quickstart and the starter: each is an experiment in this language."""

from pathlib import Path

import pytest

from iolab.experiment import Resolver, cells, load, parse, starter
from iolab.experiment.experiment import Experiment, Setup
from iolab.experiment.model.machines import Vm
from iolab.experiment.model.measures import DiskMeasure, Stream
from iolab.experiment.model.packets import Packets
from iolab.lab.compose import compose

STUDIES = Path(__file__).parent / "studies"
LABS = Path(__file__).parents[3] / "labs"


def resolved(experiment: Experiment) -> list[Setup]:
    """Return every cell, resolved."""
    resolver = Resolver(experiment)
    return [resolver.setup(cell) for cell in cells(experiment)]


@pytest.mark.parametrize(
    ("name", "count"),
    [("xen-vlan", 18), ("rate-control", 12), ("iscsi", 4), ("long-path", 56), ("kvm-forwarding", 56)],
)
def test_a_study_has_the_cells_it_names(name: str, count: int) -> None:
    """Every one of them resolves."""
    assert len(resolved(load(STUDIES / f"{name}.yaml"))) == count


def test_xen_vlan_sets_the_pair_of_both_streams() -> None:
    """Six ordered pairs, VLAN or not; the base's offload holds where a level says nothing."""
    last = resolved(load(STUDIES / "xen-vlan.yaml"))[-1]
    assert {(m.src, m.dst) for m in last.measures.values() if isinstance(m, Stream)} == {
        ("pc6dom1", "pc7dom1")
    }
    assert last.lab.links["lan"].vlan is None
    assert last.lab.links["lan"].offload.tx_checksum == "off"
    assert last.lab.machines["pc6dom1"].on == "pc6"


def test_rate_control_shapes_one_port_with_classes() -> None:
    """Rates are decimal, bursts binary; classes select by machine."""
    experiment = load(STUDIES / "rate-control.yaml")
    cell = {"pairs.flows": "both", "links.wire.shape": "htb with ceil"}
    shape = Resolver(experiment).setup(cell).lab.links["wire"].shape
    assert shape is not None
    first = shape.classes["g0"]
    assert (first.rate, first.ceil, first.burst) == (4 * 10**8, 6 * 10**8, 102_400)
    assert shape.classes["g1"].src == "g01"


def test_iscsi_measures_where_the_level_says() -> None:
    """`*.on` sets the place of the disk programs and of the stream."""
    setups = resolved(load(STUDIES / "iscsi.yaml"))
    for name in ("net", "hdparm", "thput", "bonnie"):
        measures = [setup.measures[name] for setup in setups]
        places = [measure.on for measure in measures if isinstance(measure, DiskMeasure | Stream)]
        assert places == ["pc2", "pc2", "pc2vm", "pc2vm"]


def test_long_path_varies_only_tcp_by_window() -> None:
    """UDP runs once per MTU and direction."""
    resolver = Resolver(load(STUDIES / "long-path.yaml"))
    assert resolver.touches("tcp.window", "tcp")
    assert not resolver.touches("tcp.window", "udp")
    assert resolver.touches("*.direction", "udp")
    wire = resolver.setup({"tcp.window": "256M"}).lab.links["path"].wire
    assert wire is not None
    assert (wire.delay, wire.rate, wire.queue) == (114_360_000, "1000000000bit", 32 * 2**20)


def test_kvm_forwarding_varies_the_guests_network_card() -> None:
    """A machine's key is a factor like any other."""
    setups = resolved(load(STUDIES / "kvm-forwarding.yaml"))
    nics = [
        machine.nic for setup in setups for machine in setup.lab.machines.values() if isinstance(machine, Vm)
    ]
    assert list(dict.fromkeys(nics)) == ["e1000", "virtio-net", "vhost-net", "macvtap"]


@pytest.mark.parametrize("path", sorted(LABS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_lab_that_is_shipped_is_right(path: Path) -> None:
    """`iolab check` has nothing to say about them."""
    assert resolved(load(path))


def test_the_quickstart_is_what_its_comment_says() -> None:
    """Eight combinations, two measures, three blocks; with a baseline for each factor."""
    experiment = load(LABS / "quickstart.yaml")
    assert len(resolved(experiment)) == 8
    assert experiment.blocks == 3
    assert len(experiment.tree["measure"]) == 2
    assert experiment.baseline.keys() == {factor.name for factor in experiment.factors}


@pytest.mark.parametrize(
    "name",
    ["mine", "My 2nd study", "x: y", "null", "true", "12", "", "#", '"', "{", "../a", "\n", "é", "x" * 500],
)
def test_the_starter_is_an_experiment_whatever_its_name(name: str) -> None:
    """Two namespaces, one link, one stream, one factor; commented."""
    text = starter(name)
    experiment = parse(text, "new.yaml")
    assert len(resolved(experiment)) == 2
    assert text.count("#") >= 5
    assert experiment.title


def test_a_second_guest_stands_beside_the_first_with_its_card_and_links_of_its_own() -> None:
    """A factor of every machine holds for the one that a level makes, which waits for nothing of the first to start."""
    experiment = load(LABS / "kvm-forwarding.yaml")
    cell = next(
        cell
        for cell in cells(experiment)
        if cell["machines.dut.count"] == "2"
        and cell["machines.*.nic"] == "macvtap"
        and cell["vcpus"] == "auto"
    )
    setup = Resolver(experiment).setup(cell)
    first, second = (setup.lab.machines[name] for name in ("dut1", "dut2"))
    assert isinstance(first, Vm)
    assert first == second
    assert setup.lab.links["west2"].ends == ("tester.dut2a", "dut2.eth0")
    for measure in setup.measures.values():
        assert isinstance(measure, Packets)
        pairs = [(pair.src, pair.dst) for pair in measure.pairs]
        assert pairs == [("tester.dut1a", "tester.dut1b"), ("tester.dut2a", "tester.dut2b")]
    resources = {one.key: one for one in compose(setup.lab, cpus=8)}
    before, needed = {"vm:dut2"}, ["vm:dut2"]
    while needed:
        new = set(resources[needed.pop()].needs) - before
        before |= new
        needed += new
    assert "vm:dut1" not in before
