"""Guests with guests of their own: nested virtualisation with vhost-net, and Xen domains, each measured end to end."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.guest.labs import iolab, needs_guests, run_in_background, trials, unchanged_host

from iolab.agent.transport import find_agent
from iolab.image.build import find

__all__ = ["iolab", "needs_guests", "unchanged_host"]
pytestmark = [pytest.mark.guest, pytest.mark.timeout(300)]

PATIENCE_S = 280.0
"""A calm host takes half a minute; one with ten times the work it can do, four."""
Iolab = Callable[..., subprocess.CompletedProcess[str]]

NESTED = """
title: A guest on a guest
lab:
  machines:
    outer: {kind: vm, memory: 1500M, cpus: 2, accel: tcg}
    inner: {kind: vm, on: outer, memory: 256M, nic: vhost-net, accel: kvm}
    peer: {kind: netns, on: outer}
  links: {lan: {ends: [inner.eth0, peer.p0]}}
measure:
  stream: {kind: stream, protocol: udp, rate: 5Mbit, from: peer, to: inner, duration: 1s}
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


def measured(iolab: Iolab, tmp_path: Path, image: str, text: str) -> dict[str, object]:
    """Run an experiment of one trial; return the trial."""
    if find(image, find_agent()) is None:
        pytest.skip(f"needs another guest image: iolab image build {image}")
    file = tmp_path / "parents.yaml"
    file.write_text(text)
    running = run_in_background(tmp_path, file)
    said, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, said
    (trial,) = trials(tmp_path / said.splitlines()[-1])
    received = trial["metrics"]["received_bps"]["value"]  # type: ignore[index]
    assert 2e5 < received < 6e6, "most may be lost where emulated computers share a busy host"
    return trial


def test_a_guest_of_a_guest_has_kvm_and_vhost_net_below_an_emulated_computer(
    iolab: Iolab, tmp_path: Path
) -> None:
    """It is virtualised in hardware as far as it sees, and yet told to be emulated."""
    inner = measured(iolab, tmp_path, "nested", NESTED)["guests"]["inner"]  # type: ignore[index]
    assert (inner["on"], inner["accel"], inner["emulated"]) == ("outer", "kvm", True)


def test_a_xen_domain_is_reached_over_its_console_and_receives_from_dom0(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Hypervisor, toolstack, network backend and console are all the distribution's."""
    domain = measured(iolab, tmp_path, "xen", XEN)["guests"]["dom1"]  # type: ignore[index]
    assert (domain["on"], domain["accel"], domain["emulated"]) == ("dom0", "xen", True)
    assert domain["hypervisor"].startswith("4.")
