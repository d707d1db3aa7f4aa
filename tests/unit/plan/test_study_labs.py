"""What the labs after published studies do to the machines: the settings that their questions are about."""

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
    """Give a host that has every image and program that the labs ask for."""
    images = tuple(ImageFact(flavour=name) for name in ("linux", "nested", "xen"))
    programs = dict.fromkeys(("qemu-system-x86_64", "iperf3", "ip", "tc", "ethtool", "taskset", "ps"), "1")
    return replace(facts, images=images, programs=programs, memory_bytes=64 << 30)


def typed(name: str, facts: Facts, only: Selector) -> list[str]:
    """Return what is done for the first step of a lab, each command with its kernel's prompt."""
    experiment = parse((LABS / f"{name}.yaml").read_text(), name)
    plan = make_plan(experiment, facts, blocks=1, only=(only,))
    first = next(iter(commands(Labs(experiment, plan))))
    return [f"{one.kernel}# {' '.join(one.argv)}" for one in first.done]


def test_with_a_vlan_the_whole_way_to_dom0s_own_guest_has_no_checksum_offload(able: Facts) -> None:
    """As the study had it: at the cable, the bridge and the vif; so it has where only that is varied."""
    for network in ("vlan", "no vlan, tx checksum off"):
        done = typed("xen-vlan", able, {"network": (network,), "pair": ("6.0 to 6.1",)})
        off = {line for line in done if "ethtool -K" in line}
        assert off == {
            f"{kernel}# ethtool -K {interface} tx off"
            for host in ("pc6", "pc7")
            for kernel, interface in (
                (host, "eth0"), (host, "br0"), (host, f"{host}dom1.eth0"),
            )
        }  # fmt: skip
