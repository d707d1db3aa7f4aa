"""Volumes and disks that cannot be: every mistake with its line, what is allowed and what to do."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse

BASE = """\
lab:
  machines:
    t: {kind: netns}
    far: {kind: host, ssh: root@far}
    dut: {kind: vm, disks: [{volume: scratch}]}
    other: {kind: vm}
    inner: {kind: vm, on: other}
  links:
    lan: {ends: [t.p0, dut.eth0]}
  volumes:
    scratch: {size: 256M}
measure:
  tcp: {kind: stream, from: t, to: dut, duration: 1s}
"""
SCRATCH = "scratch: {size: 256M}"
OTHER = "other: {kind: vm}"
INNER = "inner: {kind: vm, on: other}"
BUSES = "{nvme: [{volume: scratch, bus: nvme}], ide: [{volume: scratch, bus: ide}]}"
DUT = "disks: [{volume: scratch}]"


def problems(*changes: tuple[str, str]) -> list[str]:
    """Return the problems of the base text with some parts replaced."""
    text = BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        ([(OTHER, "other: {kind: vm, disks: [{volume: scratch}]}")], 6, "scratch, which is already a disk of dut"),
        ([(OTHER, "other: {kind: vm, disks: [{volume: scratch}]}")], 6, "give each machine a separate volume"),
        ([(DUT, "disks: [{volume: scratch}, {volume: scratch}]")], 5, "scratch, which is already a disk of dut"),
        ([(SCRATCH, f"{SCRATCH}\n    idle: {{size: 4K}}")], 12, "idle, which no machine uses"),
        ([(SCRATCH, f"{SCRATCH}\n    idle: {{size: 4K}}")], 12, "add disks: [{volume: idle}] to a machine"),
        ([(DUT, "disks: [{volume: scrach}]")], 5, "did you mean 'scratch'?"),
        ([(SCRATCH, "scratch: {size: 256M, on: fa}")], 11, "did you mean 'far'?"),
        ([(SCRATCH, "scratch: {size: 256M, on: far}")], 5, "remove `on` from the volume"),
        ([(SCRATCH, "scratch: {size: 256M, on: dut}")], 5, "which is on dut, while dut is on this host"),
        ([(DUT, "cpus: 1"), (INNER, f"inner: {{kind: vm, on: other, {DUT}}}")], 7, "set on: other in the volume"),
        ([(SCRATCH, "scratch: {size: 1000}")], 11, "a multiple of 4K"),
        ([(SCRATCH, "scratch: {size: 0}")], 11, "size"),
    ],
)  # fmt: skip
def test_a_disk_that_cannot_be_is_told_with_its_line(
    changes: list[tuple[str, str]], line: int, words: str
) -> None:
    """And with what to write instead."""
    told = problems(*changes)
    assert any(problem.startswith(f"f.yaml:{line}:") and words in problem for problem in told), told


@pytest.mark.parametrize(
    "changes",
    [
        [(SCRATCH, "scratch: {size: 256M, on: t}")],
        [(SCRATCH, "scratch: {size: 256M, on: far, export: iscsi}"), (DUT, "disks: [{volume: scratch, via: user}]")],
        [(SCRATCH, "scratch: {size: 8K, on: other}"), (DUT, "cpus: 1"),
         (INNER, f"inner: {{kind: vm, on: other, {DUT}}}")],
        [("\nmeasure", "\nfactors: {disk: {with: {}, without: {machines.dut.disks: []}}}\nmeasure")],
        [("\nmeasure", "\nfactors: {volumes.scratch.size: [4K, 1M]}\nmeasure")],
        [(DUT, "cpus: 1"), ("\nmeasure", f"\nfactors: {{machines.dut.disks: {BUSES}}}\nmeasure")],
    ],
)  # fmt: skip
def test_a_disk_that_can_be_is_taken(changes: list[tuple[str, str]]) -> None:
    """On the kernel of a namespace, exported from afar, in a guest for its guest, in some cells only, varied."""
    text = BASE
    for old, new in changes:
        text = text.replace(old, new)
    parse(text, "f.yaml")
