"""Guests with guests of their own: vhost in a guest, a card that is split and given away, Xen domains; end to end."""

from pathlib import Path

import pytest
from tests.guest.labs import measured
from tests.netns.runs import trials, value

from iolab.image.emulator import NEWER

pytestmark = pytest.mark.usefixtures("unchanged_host")

NESTED = """
title: A guest on a guest
lab:
  machines:
    outer: {kind: vm, memory: 1500M, cpus: 2, accel: tcg}
    near: {kind: netns, on: outer}
    far: {kind: netns, on: outer}
    inner: {kind: vm, on: outer, memory: 256M, accel: kvm, forward: bridge}
  links:
    west: {ends: [near.p0, inner.eth0]}
    east: {ends: [far.p0, inner.eth1]}
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
    dom0: {kind: vm, image: xen, memory: 1536M, cpus: 2, accel: tcg}
    dom1: {kind: vm, engine: xen, on: dom0, memory: 256M}
  links: {lan: {ends: [dom0.eth0, dom1.eth0]}}
measure:
  stream: {kind: stream, protocol: udp, rate: 5Mbit, from: dom0, to: dom1, duration: 1s}
"""


@pytest.mark.usefixtures("nested")
def test_a_guest_of_a_guest_forwards_by_vhost_whether_a_tap_or_a_macvtap_gives_it_frames(
    tmp_path: Path,
) -> None:
    """It is virtualised in hardware as far as it sees, and yet said to be emulated."""
    rows = trials(measured(tmp_path, NESTED))
    assert {row["cell"]["machines.inner.nic"] for row in rows} == {"vhost-net", "macvtap+vhost"}
    for row in rows:
        inner = row["guests"]["inner"]
        assert (inner["on"], inner["accel"], inner["emulated"]) == ("outer", "kvm", True)
        assert 2e5 < value(row, "received_bps") < 2.4e6, "most may be lost on a busy host"


@pytest.mark.usefixtures("nested", "newer_qemu")
def test_virtual_functions_join_a_namespace_a_guest_of_the_guest_and_the_world_outside(
    tmp_path: Path,
) -> None:
    """One moved into a namespace, one given away by vfio; from function to function by the card's own switch, and from
    outside through the card."""
    rows = trials(measured(tmp_path, FUNCTIONS))
    assert {row["measure"] for row in rows} == {"inside", "outside"}
    for row in rows:
        assert 2e5 < value(row, "received_bps") < 1.2e6, "most may be lost on a busy host"
        assert row["guests"]["inner"]["accel"] == "kvm"
        assert int(row["guests"]["host"]["hypervisor"].split(".")[0]) >= NEWER[0]


@pytest.mark.usefixtures("xen")
def test_a_xen_domain_is_reached_over_its_console_and_receives_from_dom0(tmp_path: Path) -> None:
    """Hypervisor, toolstack, network backend and console are all the distribution's."""
    (trial,) = trials(measured(tmp_path, XEN))
    domain = trial["guests"]["dom1"]
    assert (domain["on"], domain["accel"], domain["emulated"]) == ("dom0", "xen", True)
    assert domain["hypervisor"].startswith("4.")
    assert 2e5 < value(trial, "received_bps") < 6e6, "most may be lost on a busy host"
