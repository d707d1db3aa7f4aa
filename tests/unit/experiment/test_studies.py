"""The five studies that define the scope, the quickstart and the starter: each is a valid experiment."""

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
def test_study_has_the_stated_number_of_cells(name: str, count: int) -> None:
    """Resolve every one of them."""
    assert len(resolved(load(STUDIES / f"{name}.yaml"))) == count


def test_xen_vlan_study_varies_the_machine_pair_of_both_streams() -> None:
    """Check six ordered pairs, with VLAN or not; the base's offload is the default."""
    last = resolved(load(STUDIES / "xen-vlan.yaml"))[-1]
    assert {(m.src, m.dst) for m in last.measures.values() if isinstance(m, Stream)} == {
        ("pc6dom1", "pc7dom1")
    }
    assert last.lab.links["lan"].vlan is None
    assert last.lab.links["lan"].offload.tx_checksum == "off"
    assert last.lab.machines["pc6dom1"].on == "pc6"


def test_rate_control_study_shapes_one_port_with_classes() -> None:
    """Read rates as decimal, bursts as binary; classes select by machine."""
    experiment = load(STUDIES / "rate-control.yaml")
    cell = {"pairs.flows": "both", "links.wire.shape": "htb with ceil"}
    shape = Resolver(experiment).setup(cell).lab.links["wire"].shape
    assert shape is not None
    first = shape.classes["g0"]
    assert (first.rate, first.ceil, first.burst) == (4 * 10**8, 6 * 10**8, 102_400)
    assert shape.classes["g1"].src == "g01"


def test_iscsi_study_measures_on_the_machine_of_the_level() -> None:
    """Set the machine of the disk programs and of the stream by `*.on`."""
    setups = resolved(load(STUDIES / "iscsi.yaml"))
    for name in ("net", "hdparm", "thput", "bonnie"):
        measures = [setup.measures[name] for setup in setups]
        places = [measure.on for measure in measures if isinstance(measure, DiskMeasure | Stream)]
        assert places == ["pc2", "pc2", "pc2vm", "pc2vm"]


def test_long_path_study_varies_the_window_of_the_tcp_measure_only() -> None:
    """Run UDP once per MTU and direction."""
    resolver = Resolver(load(STUDIES / "long-path.yaml"))
    assert resolver.touches("tcp.window", "tcp")
    assert not resolver.touches("tcp.window", "udp")
    assert resolver.touches("*.direction", "udp")
    wire = resolver.setup({"tcp.window": "256M"}).lab.links["path"].wire
    assert wire is not None
    assert (wire.delay, wire.rate, wire.queue) == (114_360_000, "1000000000bit", 32 * 2**20)


def test_kvm_forwarding_study_varies_the_nic_of_the_guest() -> None:
    """Use a machine's key as a factor."""
    setups = resolved(load(STUDIES / "kvm-forwarding.yaml"))
    nics = [
        machine.nic for setup in setups for machine in setup.lab.machines.values() if isinstance(machine, Vm)
    ]
    assert list(dict.fromkeys(nics)) == ["e1000", "virtio-net", "vhost-net", "macvtap"]


@pytest.mark.parametrize("path", sorted(LABS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_lab_is_valid(path: Path) -> None:
    """Check that `iolab check` reports nothing."""
    assert resolved(load(path))


def test_quickstart_experiment_matches_the_comment_in_its_file() -> None:
    """Count eight combinations, two measures and three blocks, with a baseline for each factor."""
    experiment = load(LABS / "quickstart.yaml")
    assert len(resolved(experiment)) == 8
    assert experiment.blocks == 3
    assert len(experiment.tree["measure"]) == 2
    assert experiment.baseline.keys() == {factor.name for factor in experiment.factors}


@pytest.mark.parametrize(
    "name",
    ["mine", "My 2nd study", "x: y", "null", "true", "12", "", "#", '"', "{", "../a", "\n", "é", "x" * 500],
)
def test_starter_file_is_a_valid_experiment_with_any_name(name: str) -> None:
    """Check two namespaces, one link, one stream, one factor, and comments."""
    text = str(starter(name))
    experiment = parse(text, "new.yaml")
    assert len(resolved(experiment)) == 2
    assert text.count("#") >= 5
    assert experiment.title


def test_second_guest_added_by_a_level_does_not_depend_on_the_first() -> None:
    """Apply a factor of every machine to it; start it without waiting for the first guest."""
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
