"""Impossible volumes and disks: every mistake with its line, the allowed values and a remedy."""

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
EXISTS = (SCRATCH, "scratch: {device: /dev/sdb}")
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
        ([(DUT, "cpus: 1"), (INNER, f"inner: {{kind: vm, on: other, {DUT}}}")], 7, "set `on: other` in the volume"),
        ([(SCRATCH, "scratch: {size: 1000}")], 11, "a multiple of 4K"),
        ([(SCRATCH, "scratch: {size: 0}")], 11, "size"),
        ([(SCRATCH, "scratch: {}")], 11, "no key size"),
        ([(SCRATCH, "scratch: {device: sdb}")], 11, "the absolute path of a block device"),
        ([(SCRATCH, "scratch: {device: /dev/../etc/x}")], 11, "the absolute path of a block device"),
        ([(SCRATCH, "scratch: {folder: data, size: 1M}")], 11, "the absolute path of a folder"),
        ([(SCRATCH, "scratch: {folder: '/a b', size: 1M}")], 11, "the absolute path of a folder"),
        ([(SCRATCH, "scratch: {path: /data, size: 1M}")], 11, "use the key `folder` instead"),
        ([(SCRATCH, "scratch: {device: /dev/sdb, size: 1M}")], 11, "`size` with `device`"),
        ([(SCRATCH, "scratch: {device: /dev/sdb, folder: /data}")], 11, "`folder` with `device`"),
        ([(SCRATCH, "scratch: {device: /dev/sdb, export: iscsi}")], 11, "`export` with `device`"),
        ([(SCRATCH, "scratch: {size: 1M, writes: allowed}")], 11, "`writes` without `device`"),
        ([(DUT, "disks: [{device: /dev/sdb}]")], 5, "device: PATH}}}, and write disks: [{volume: NAME}]"),
        ([EXISTS, (DUT, "disks: [{volume: scratch, fs: ext4}]")], 5, "use a volume with `folder`"),
        ([EXISTS, (DUT, "disks: [{volume: scratch, via: user}]")], 5, "via: local"),
        ([EXISTS, (DUT, "disks: [{volume: scratch, bus: ide}]")], 5, "disks on IDE cannot be read-only"),
        ([EXISTS, (DUT, "engine: xen, disks: [{volume: scratch}]")], 5, "Xen domain"),
    ],
)  # fmt: skip
def test_invalid_disk_is_reported_with_its_line_and_a_remedy(
    changes: list[tuple[str, str]], line: int, words: str
) -> None:
    """Report the text to write instead."""
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
def test_valid_disk_is_accepted(changes: list[tuple[str, str]]) -> None:
    """Check a namespace's kernel, a remote export, a nested guest, a disk in some cells only, and a factor."""
    text = BASE
    for old, new in changes:
        text = text.replace(old, new)
    parse(text, "f.yaml")
