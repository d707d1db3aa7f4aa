"""Cards that need more than a guest: one that settles after its start, one that is split, two hosts, VLAN and fq."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.guest.labs import iolab, needs_guests, run_in_background, trials, unchanged_host

from iolab.agent.transport import find_agent
from iolab.errors import UnsupportedError
from iolab.image.build import find
from iolab.image.emulator import NEWER, find_qemu

__all__ = ["iolab", "needs_guests", "unchanged_host"]
pytestmark = [pytest.mark.guest, pytest.mark.timeout(300)]

PATIENCE_S = 240
"""A guest of a guest takes a minute to start where others compute."""
Iolab = Callable[..., subprocess.CompletedProcess[str]]

SETTLING = """
title: A card right after its start
lab:
  machines:
    tester: {kind: netns}
    dut: {kind: vm, accel: tcg, nic: e1000, forward: bridge}
  links:
    west: {ends: [tester.p0, dut.eth0]}
    east: {ends: [tester.p1, dut.eth1]}
measure:
  delay: {kind: latency, from: tester.p0, to: tester.p1, frame_size: 64, rate: 1kpps, duration: 1s}
"""
TWO_HOSTS = """
title: Two hosts on one computer
lab:
  machines:
    h1: {kind: vm, accel: tcg, forward: FORWARD}
    h2: {kind: vm, accel: tcg, forward: FORWARD}
    a: {kind: netns, on: h1}
    b: {kind: netns, on: h2}
  links:
    lan: {ends: [h1.eth0, h2.eth0]}
    in1: {ends: [h1.PORT, a.p0]}
    in2: {ends: [h2.PORT, b.p0], shape: none}
measure:
  stream: {kind: stream, protocol: tcp, from: a, to: b, duration: 1s}
FACTORS
"""
VLAN_AND_FQ = """factors:
  network:
    plain: {}
    shaped: {links.lan.vlan: 100, links.in2.shape: {at: b.p0, qdisc: fq, rate: 10Mbit}}
"""
FUNCTIONS = """
title: Virtual functions of an emulated card
lab:
  machines:
    out: {kind: netns}
    host: {kind: vm, accel: tcg, nic: igb, memory: 1500M, cpus: 2}
    near: {kind: netns, on: host, ports: sr-iov}
    INNER
  links:
    up: {ends: [out.p0, host.eth0]}
    card: {ends: [host.eth0, near.p0, inner.PORT]}
measure:
  stream: {kind: stream, protocol: udp, rate: 1Mbit, from: near, to: inner, duration: 1s}
factors:
  stream.from: [SENDERS]
"""
INNER_NAMESPACE = "inner: {kind: netns, on: host, ports: sr-iov}"
INNER_GUEST = "inner: {kind: vm, on: host, nic: sr-iov, memory: 256M, accel: kvm}"


def run(_: Iolab, tmp_path: Path, text: str) -> list[dict[str, object]]:
    """Run an experiment; return its trials, all of which went well."""
    file = tmp_path / "cards.yaml"
    file.write_text(text)
    running = run_in_background(tmp_path, file)
    said = running.communicate(timeout=PATIENCE_S)[0]
    assert running.returncode == 0, said
    return trials(tmp_path / said.splitlines()[-1])


def value(trial: dict[str, object], metric: str) -> float:
    """Return a figure of a trial."""
    return float(trial["metrics"][metric]["value"])  # type: ignore[index]


def functions(inner: str, port: str, senders: str) -> str:
    """Return the experiment with virtual functions; skip where no QEMU has such a card."""
    try:
        find_qemu(NEWER)
    except UnsupportedError as error:
        pytest.skip(str(error))
    if "vm" in inner and find("nested", find_agent()) is None:
        pytest.skip("needs another guest image: iolab image build nested")
    return FUNCTIONS.replace("INNER", inner).replace("PORT", port).replace("SENDERS", senders)


def test_an_e1000_is_measured_when_it_has_settled(iolab: Iolab, tmp_path: Path) -> None:
    """In the first seconds it holds frames for hundreds of milliseconds; the lab is not called ready before."""
    (trial,) = run(iolab, tmp_path, SETTLING)
    assert value(trial, "loss_ratio") < 0.01, "a busy host may cost a frame"
    assert value(trial, "latency_p50_ns") < 100e6


@pytest.mark.perf
def test_two_guests_are_two_hosts_with_machines_of_their_own(iolab: Iolab, tmp_path: Path) -> None:
    """Both route; the stream goes through three networks."""
    text = TWO_HOSTS.replace("FORWARD", "route").replace("PORT", "v0").replace("FACTORS", "")
    (trial,) = run(iolab, tmp_path, text)
    assert value(trial, "received_bps") > 10e6


def test_vlan_and_fq_work_between_hosts_whose_kernels_have_them(iolab: Iolab, tmp_path: Path) -> None:
    """With a VLAN on the line the parents bridge its interfaces; a shaped sender keeps to its rate."""
    text = (
        TWO_HOSTS.replace("FORWARD", "bridge")
        .replace("PORT", "eth0")
        .replace("from: a, to: b", "from: b, to: a")
    )
    rows = run(iolab, tmp_path, text.replace("FACTORS", VLAN_AND_FQ))
    received = {row["cell"]["network"]: value(row, "received_bps") for row in rows}  # type: ignore[index]
    assert received["shaped"] == pytest.approx(9.6e6, rel=0.2)
    assert received["plain"] > 1.5 * received["shaped"]


def test_virtual_functions_join_namespaces_and_the_world_outside(iolab: Iolab, tmp_path: Path) -> None:
    """From function to function by the card's own switch, and from outside through the card."""
    rows = run(iolab, tmp_path, functions(INNER_NAMESPACE, "p0", "near, out"))
    assert [value(row, "received_bps") for row in rows] == [pytest.approx(1e6, rel=0.2)] * 2
    versions = {int(row["guests"]["host"]["hypervisor"].split(".")[0]) for row in rows}  # type: ignore[index]
    assert min(versions) >= NEWER[0]


@pytest.mark.perf
def test_a_guest_of_a_guest_has_a_virtual_function_by_vfio(iolab: Iolab, tmp_path: Path) -> None:
    """Given away by its parent's kernel, seen as a card by its own."""
    (trial,) = run(iolab, tmp_path, functions(INNER_GUEST, "eth0", "near"))
    assert value(trial, "received_bps") == pytest.approx(1e6, rel=0.2)
    assert trial["guests"]["inner"]["accel"] == "kvm"  # type: ignore[index]
