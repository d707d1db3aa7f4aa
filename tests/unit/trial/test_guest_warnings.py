"""Effective settings, and warnings about the machines."""

from dataclasses import replace

import pytest
from tests.unit.trial.zeros import zeros
from tests.wording import in_words

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import QdiscCounters, SettingValues
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import make_topology
from iolab.results.trial import GuestUse
from iolab.trial.host_warnings import guest_warnings, taking_part
from iolab.trial.in_effect import in_effect

USE = GuestUse(
    engine="qemu", on="", accel="kvm", hypervisor="7.2", image="", packages="", emulated=False, boot_ns=1
)


def test_emulated_host_gives_the_same_warning_as_an_emulated_guest() -> None:
    """Cover measures between emulated hosts."""
    assert guest_warnings({"dut": USE}) == ()
    (told,) = guest_warnings({"dut": USE}, ["pc6"])
    assert told.code == "emulated"
    assert in_words(told) == "pc6 ran under emulation, so the figures are not valid as performance results"


LAB = """
title: Disks
lab:
  machines:
    pc2: {kind: netns, disks: DISKS}
    pc3: {kind: netns}
    pc2vm: {kind: vm, on: pc2, disks: INSIDE}
    router: {kind: vm, forward: route}
  links:
    san: {ends: [pc2.eth0, pc3.eth0]}
    inside: {ends: [pc2.vm0, pc2vm.eth0]}
    west: {ends: [pc2.west, router.west]}
    east: {ends: [router.east, pc3.east]}
  volumes:
    VOLUME
measure:
  disk: {kind: disk, program: fio, on: MACHINE}
"""
LOCAL, LUN = "local: {on: pc2, size: 64M}", "lun0: {on: pc3, size: 64M, export: iscsi}"
LENT = "lent: {on: pc2vm, size: 64M, export: iscsi}"


def part(machine: str, volume: str, disks: str = "[]", inside: str = "[]") -> set[str]:
    """Return the kernels that take part in a disk trial on a machine."""
    text = LAB.replace("DISKS", disks).replace("INSIDE", inside)
    text = text.replace("MACHINE", machine).replace("VOLUME", volume)
    experiment = parse(text, "test")
    setup = Resolver(experiment).setup(next(iter(cells(experiment))))
    return set(taking_part(setup.lab, make_topology(setup.lab), setup.measures["disk"]) or ())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (part("pc2", LOCAL, "[{volume: local}]"), {"", "router"}),
        (part("pc2vm", LUN, inside="[{volume: lun0, via: hypervisor}]"), {"", "router", "pc2vm"}),
        (part("pc2", LENT, "[{volume: lent, via: user}]"), {"", "router", "pc2vm"}),
    ],
)
def test_guest_takes_part_in_a_disk_trial_if_it_runs_the_program_or_serves_the_disk_or_may_forward(
    found: set[str], expected: set[str]
) -> None:
    """Exclude a guest next to a local disk."""
    assert found == expected
    use = replace(USE, emulated=True)
    warnings = guest_warnings({"pc2vm": use}, part=found)
    assert bool(warnings) == ("pc2vm" in expected)


def test_every_guest_takes_part_if_the_participants_are_unknown() -> None:
    """Allow for frames of a search, which may pass any of them."""
    assert guest_warnings({"pc2vm": replace(USE, emulated=True)}, part=None)


LAB_OF_GUESTS = Lab(
    {"near": Netns(kind="netns"), "far": Netns(kind="netns")},
    {"lan": Link(ends=(PortRef("near.eth0"), PortRef("far.eth0")))},
    {},
)


def test_effective_settings_of_machines_ports_and_processors_are_listed() -> None:
    """List known names only, and no place without a reading."""
    stack = {"net.ipv4.tcp_congestion_control": "bbr", "net.ipv4.unknown": "1"}
    settings = (
        SettingValues("stack", "", stack),
        SettingValues("interface", "eth0", {"mtu": "1500", "offloads": "tso gso"}),
    )
    queues = (zeros(QdiscCounters, interface="eth0", handle="0:", parent="root", drops=0, kind="fq_codel"),)
    governed = (SettingValues("processors", "0,1", {"governor": "performance"}),)
    reading = Reading(
        (
            Observation(sampler="settings", netns="iolab-near", begin_ns=1, end_ns=2, settings=settings),
            Observation(sampler="qdiscs", netns="iolab-near", begin_ns=1, end_ns=2, qdiscs=queues),
            Observation(sampler="processors", begin_ns=1, end_ns=2, settings=governed),
        )
    )
    assert in_effect(make_topology(LAB_OF_GUESTS), {"": reading}) == {
        "near": {"congestion": "bbr"},
        "near.eth0": {"mtu": "1500", "offloads": "tso gso", "qdisc": "fq_codel"},
        "host": {"governor": "performance"},
    }
