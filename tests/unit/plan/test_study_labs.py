"""Effects of the labs after published studies on the machines: the settings of their questions."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from iolab.experiment import parse
from iolab.experiment.experiment import Selector
from iolab.lab.hosts.facts import Facts, ImageFact
from iolab.plan.commands import Labs, commands
from iolab.plan.planning import make_plan

LABS = Path(__file__).parents[3] / "labs"


@pytest.fixture
def able(facts: Facts) -> Facts:
    """Return a host that has every image and program that the labs need."""
    images = tuple(ImageFact(flavour=name) for name in ("linux", "nested", "xen"))
    programs = dict.fromkeys(("qemu-system-x86_64", "iperf3", "ip", "tc", "ethtool", "taskset", "ps"), "1")
    return replace(facts, images=images, programs=programs, memory_bytes=64 << 30)


def typed(name: str, facts: Facts, only: Selector) -> list[str]:
    """Return the commands of the first step of a lab, each with its kernel's prompt."""
    experiment = parse((LABS / f"{name}.yaml").read_text(), name)
    plan = make_plan(experiment, facts, blocks=1, only=(only,))
    first = next(iter(commands(Labs(experiment, plan))))
    return [f"{one.kernel}# {' '.join(one.argv)}" for one in first.done]


def test_xen_vlan_lab_disables_checksum_offload_on_the_whole_path_to_a_domain(able: Facts) -> None:
    """Apply it to the cable, the bridge and the vif, also if only the VLAN varies."""
    for network in ("vlan", "no vlan, tx checksum off"):
        done = typed("xen-vlan", able, {"network": (network,), "pair": ("6.0 to 6.1",)})
        off = {re.sub(r"-K [a-z]{5}pc\d-\w{6} ", "-K VIF ", line) for line in done if "ethtool -K" in line}
        assert off == {
            f"{host}# ethtool -K {interface} tx off"
            for host in ("pc6", "pc7")
            for interface in ("eth0", "br0", "VIF")
        }
