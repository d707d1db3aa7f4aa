"""Emulated links with guests: iolab's and the kernel's in one guest, and iolab's before a guest's NIC."""

from pathlib import Path

import pytest
from tests.guest.labs import measured
from tests.netns.runs import trials, value

pytestmark = [pytest.mark.usefixtures("unchanged_host"), pytest.mark.full]

INSIDE = """
title: One path, emulated by iolab and by the kernel
lab:
  machines:
    parent: {kind: vm, accel: tcg, cpus: 2}
    near: {kind: netns, on: parent}
    far: {kind: netns, on: parent}
  links:
    path: {ends: [near.p0, far.p1], wire: {delay: 30ms, loss: 5%, rate: 5Mbit, queue_frames: 2000}}
measure:
  known: {kind: stream, protocol: udp, from: near, to: far, rate: 2Mbit, length: 1000, duration: 4s}
  full: {kind: stream, protocol: udp, from: near, to: far, rate: 8Mbit, length: 1000, duration: 4s}
factors:
  links.path.wire.emulator: [iolab, netem]
"""
BEFORE = """
title: A path before a guest's card
lab:
  machines:
    near: {kind: netns}
    guest: {kind: vm, accel: tcg}
  links:
    path: {ends: [near.p0, guest.eth0], wire: {delay: 50ms, lose_every: 5}}
measure:
  known: {kind: stream, protocol: udp, from: near, to: guest, rate: 2Mbit, length: 1000, duration: 3s}
"""


def test_known_path_is_measured_correctly_with_iolab_and_netem_emulation(tmp_path: Path) -> None:
    """Compare loss and rate of both emulators in one guest."""
    found = {
        (str(one["cell"]["links.path.wire.emulator"]), str(one["measure"])): one
        for one in trials(measured(tmp_path, INSIDE))
    }
    assert {emulator for emulator, _ in found} == {"iolab", "netem"}
    for (emulator, measure), trial in found.items():
        if measure == "known":
            assert value(trial, "loss_ratio") == pytest.approx(0.05, abs=0.04), emulator
        else:
            assert value(trial, "received_bps") == pytest.approx(5e6 * 1000 / 1046, rel=0.1), emulator


def test_emulated_link_to_a_guest_loses_the_configured_share_of_datagrams(tmp_path: Path) -> None:
    """Lose a fifth on the path into the guest."""
    (trial,) = trials(measured(tmp_path, BEFORE))
    assert value(trial, "loss_ratio") == pytest.approx(0.2, abs=0.03)
