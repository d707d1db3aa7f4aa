"""A guest on another host: what is needed of whom, and how its card meets that host's own interface."""

from dataclasses import replace

import pytest
from tests.wording import in_words

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab
from iolab.lab.actions import StartGuest
from iolab.lab.compose import compose
from iolab.lab.hosts.facts import Facts
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need, NeedKind, lacking
from iolab.messages.subjects import ForMachine
from iolab.messages.unmet import UnmetRequirement

LAB = """
lab:
  machines:
    tester: {kind: host, ssh: tester}
    pc1: {kind: host, ssh: pc1}
    dut: {kind: vm, on: pc1, nic: NIC, pin: auto}
  links:
    lan: {ends: [tester.eth1, pc1.eth1], cable: true}
    card: {ends: [pc1.eth1, dut.eth0]}
measure:
  tcp: {kind: stream, from: tester, to: dut}
"""


def lab_of(nic: str) -> Lab:
    """Return the lab with a kind of card."""
    experiment = parse(LAB.replace("NIC", nic), "lab.yaml")
    return Resolver(experiment).setup(next(cells(experiment))).lab


@pytest.mark.parametrize("nic", ["virtio-net", "macvtap"])
def test_the_image_is_needed_here_and_the_hypervisor_there(nic: str) -> None:
    """The image is copied to the host, QEMU is its own; a macvtap also needs an agent there that may open it."""
    found = lab_needs(lab_of(nic))
    assert Need(NeedKind.IMAGE, "linux", ForMachine(machine="dut")) in found
    assert Need(NeedKind.PROGRAM, "qemu-system-x86_64", ForMachine(machine="dut"), "host:pc1") in found
    assert not [each for each in found if isinstance(each, UnmetRequirement)]
    opened = [
        need.where
        for need in found
        if isinstance(need, Need) and (need.kind, need.name) == (NeedKind.CAPABILITY, "macvtap")
    ]
    assert opened == (["host:pc1"] if nic == "macvtap" else [])


def test_the_guest_is_started_there_and_pinned_by_that_hosts_cpus() -> None:
    """Where nobody knows how many CPUs the host has, it may run on any."""
    for cpus, chosen in (({"pc1": 4}, (1,)), ({}, ())):
        resources = {one.key: one for one in compose(lab_of("virtio-net"), cpus=16, other_cpus=cpus)}
        assert resources["vm:dut"].kernel == "pc1"
        assert isinstance(resources["vm:dut"].actions[0], StartGuest)
        assert resources["member:pc1.eth1"].kernel == "pc1"
        (pin,) = resources["pin:dut"].actions
        assert getattr(pin, "vcpus", None) == chosen


def test_a_host_of_another_kind_than_the_images_is_told_before_one_is_copied() -> None:
    """Both kinds are named; a host like this computer is right, and so is one that was not reached yet."""
    own = Facts(
        hostname="here", kernel="6.1.0", architecture="x86_64", os="Debian", cpu_model="any", cpus=2,
        memory_bytes=1 << 30, clocksource="tsc", load_1min_milli=0,
    )  # fmt: skip
    (need,) = [
        one for one in lab_needs(lab_of("virtio-net")) if getattr(one, "kind", None) is NeedKind.ARCHITECTURE
    ]
    assert lacking(need, own) is None
    assert lacking(need, replace(own, hosts={"pc1": own})) is None
    told = in_words(lacking(need, replace(own, hosts={"pc1": replace(own, architecture="aarch64")})))
    assert told.startswith("machine dut: pc1 is aarch64, the guest images here are for x86_64; put it on")
