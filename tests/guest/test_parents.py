"""Nested guests: vhost in a guest, an SR-IOV NIC that is passed through, Xen domains; end to end."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.labs import measured
from tests.netns.runs import trials, value

from iolab.experiment import parse
from iolab.experiment.model.measures import Stream
from iolab.image.emulator import NEWER
from iolab.lab.topology import make_topology
from iolab.plan.commands import Labs
from iolab.plan.planning import make_plan
from iolab.results.trial import GuestUse
from iolab.run.agents import Agents
from iolab.run.hosts.host_facts import read_facts
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.lab_access import Site
from iolab.trial.streams.measure import conclude_stream, measure_stream

MIB = 1 << 20
NESTED = """
title: A guest on a guest
lab:
  machines:
    outer: {kind: vm, memory: 1500M, cpus: 2, accel: tcg}
    near: {kind: netns, on: outer}
    far: {kind: netns, on: outer}
    inner: {kind: vm, on: outer, memory: 256M, accel: kvm, forward: bridge, disks: [{volume: v, bus: nvme}]}
  links:
    west: {ends: [near.p0, inner.eth0]}
    east: {ends: [far.p0, inner.eth1]}
  volumes: {v: {size: 2M, on: outer}}
measure:
  stream: {kind: stream, protocol: udp, rate: 2Mbit, from: near, to: far, duration: 1s}
factors:
  machines.inner.nic: [vhost-net, macvtap+vhost]
"""
FUNCTIONS = """
title: Virtual functions of an emulated card
lab:
  machines:
    out: {kind: netns}
    host: {kind: vm, accel: tcg, nic: igb, memory: 1500M, cpus: 2}
    near: {kind: netns, on: host, ports: sr-iov}
    inner: {kind: vm, on: host, nic: sr-iov, memory: 256M, accel: kvm}
  links:
    up: {ends: [out.p0, host.eth0]}
    card: {ends: [host.eth0, near.p0, inner.eth0]}
measure:
  inside: {kind: stream, protocol: udp, rate: 1Mbit, from: inner, to: near, duration: 1s}
  outside: {kind: stream, protocol: udp, rate: 1Mbit, from: out, to: inner, duration: 1s}
"""
XEN = """
title: A domain
lab:
  machines:
    outer: {kind: vm, image: xen, memory: 1536M, cpus: 2, accel: tcg}
    inner: {kind: vm, engine: xen, on: outer, memory: 256M, disks: [{volume: v}]}
  links: {lan: {ends: [outer.eth0, inner.eth0]}}
  volumes: {v: {size: 2M, on: outer}}
measure:
  stream: {kind: stream, protocol: udp, rate: 5Mbit, from: outer, to: inner, duration: 1s}
"""


def measured_in_turn(standing: StandingLab, agents: Agents, text: str) -> Iterator[tuple[GuestUse, float]]:
    """Plan an experiment, build the lab of each step and measure its stream; yield the facts about the inner
    guest and the received rate."""
    experiment = parse(text, "lab.yaml")
    facts, _ = read_facts(agents.here)
    plan = make_plan(experiment, facts)
    assert plan.unsupported == ()
    labs = Labs(experiment, plan)
    for step in plan.steps:
        standing.change_to(labs.of(step).resources)
        assert standing.mismatches() == []
        setup = labs.setup(step)
        stream = setup.measures[step.measure]
        assert isinstance(stream, Stream)
        kernels = {name: agents.of(name) for name in agents}
        site = Site(agents.here, setup.lab, make_topology(setup.lab), agents=kernels)
        use = standing.guests.use("inner")
        assert use is not None
        yield use, conclude_stream(measure_stream(site, stream), {}).metrics["received_bps"].value


def check_disk(agents: Agents) -> None:
    """Write on the disk of the inner guest; the checksums of both sides must agree."""
    writing = "dd if=/dev/urandom of=/dev/iolab-v bs=1M count=2 oflag=direct && sync"
    assert agents.of("inner").run(("sh", "-c", writing), timeout_ms=180_000).succeeded
    told = [
        agents.of(kernel).run(("sha256sum", path), timeout_ms=180_000).stdout.split()[0]
        for kernel, path in (("inner", "/dev/iolab-v"), ("outer", "/var/tmp/iolab-v"))
    ]
    assert told[0] == told[1]
    assert told[0] != hashlib.sha256(bytes(2 * MIB)).hexdigest(), "nothing was written"


@pytest.mark.full
@pytest.mark.usefixtures("nested")
def test_nested_guest_forwards_through_vhost_and_writes_to_a_volume_of_its_parent(
    agents: Agents,
) -> None:
    """Check that the inner guest sees KVM, and is reported as emulated."""
    standing = StandingLab(agents, lambda _: None)
    try:
        found = list(measured_in_turn(standing, agents, NESTED))
        assert len(found) == 2
        for inner, received_bps in found:
            assert (inner.on, inner.accel, inner.emulated) == ("outer", "kvm", True)
            assert 2e5 < received_bps < 2.4e6, "most may be lost on a busy host"
        check_disk(agents)
    finally:
        standing.take_down()


@pytest.mark.full
@pytest.mark.usefixtures("nested", "newer_qemu", "unchanged_host")
def test_virtual_functions_connect_a_namespace_a_nested_guest_and_an_external_machine(
    tmp_path: Path,
) -> None:
    """Move one into a namespace, and pass one by vfio; use the NIC's own switch."""
    rows = trials(measured(tmp_path, FUNCTIONS))
    assert {row["measure"] for row in rows} == {"inside", "outside"}
    for row in rows:
        assert 2e5 < value(row, "received_bps") < 1.2e6, "most may be lost on a busy host"
        inner = row["guests"]["inner"]
        assert (inner["on"], inner["accel"], inner["emulated"]) == ("host", "kvm", True)
        assert int(row["guests"]["host"]["hypervisor"].split(".")[0]) >= NEWER[0]


@pytest.mark.full
@pytest.mark.usefixtures("xen")
def test_xen_domain_receives_a_stream_from_dom0_and_writes_to_its_volume(
    agents: Agents,
) -> None:
    """Use the distribution's hypervisor, toolstack, backends and console."""
    standing = StandingLab(agents, lambda _: None)
    try:
        ((domain, received_bps),) = measured_in_turn(standing, agents, XEN)
        assert (domain.on, domain.accel, domain.emulated) == ("outer", "xen", True)
        assert domain.hypervisor.startswith("4.")
        assert 2e5 < received_bps < 6e6, "most may be lost on a busy host"
        check_disk(agents)
    finally:
        standing.take_down()
