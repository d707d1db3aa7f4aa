"""The cases of storage_faults.py: a lab each, what is done to it while fio is under way, and the codes that name it."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FIO = "size: 16M, fio: {each: 60s, blocks: [64K], depths: [8], access: [write]}"
LAB = """title: Storage faults
lab:
  machines:
    {machines}
  links: {{{links}}}
  volumes: {{faulty: {{size: 32M{volume}}}}}
measure:
  it: {{kind: disk, program: fio, on: pc2, {fio}}}
"""
SAN = "san: {ends: [pc2.eth0, pc3.eth0]}"
VOLUME = "faulty"
GUEST = "kind: vm, accel: tcg, memory: 384M"
MOVED_BYTES = 20 << 20
"""On the links of a lab: more than to log in and to fill the disk takes."""
Inject = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One fault in one lab."""

    name: str
    lab: str
    inject: Inject
    codes: tuple[str, ...]
    """Any of which names it rightly."""
    is_under_way: Callable[[], bool]
    """Whether the trial's program works on the disk."""
    limit_s: float = 30.0
    on_ssh: bool = False
    delay_s: float = 1.0
    """From when it is under way to the fault [s]."""
    store: str = ""
    """Options of mkfs.ext4 for a file system of its own below the volume; empty: the host's."""

    def wrapped(self, folder: Path) -> list[str]:
        """Return the words before the command that runs."""
        if not self.store:
            return []
        image = folder / "image"
        with image.open("wb") as blank:
            blank.truncate(96 << 20)
        subprocess.run(["mkfs.ext4", "-q", *self.store.split(), str(image)], check=True)
        script = 'mount "$0" /var/tmp && chmod 1777 /var/tmp && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, str(image)]


def fio_runs() -> bool:
    """Whether fio measures: what fills the disk prints no JSON."""
    return bool(processes("fio", b"json+"))


def links_carry() -> bool:
    """Whether so many bytes went over the links of the lab: a guest's programs are not seen from outside."""
    total = 0
    names = subprocess.run(["ip", "netns"], check=False, capture_output=True, text=True).stdout.split()
    for prefix in ([], *(["ip", "netns", "exec", name] for name in names if name.startswith("iolab"))):
        lines = subprocess.run(
            [*prefix, "cat", "/proc/net/dev"], check=False, capture_output=True, text=True
        ).stdout.splitlines()
        counts = [
            line.split(":", 1)[1].split()
            for line in lines
            if ":" in line and " lo:" not in f" {line.strip()}"
        ]
        total = max(total, *(int(one[0]) + int(one[8]) for one in counts), 0) if counts else total
    return total > MOVED_BYTES


def processes(name: str, word: bytes = b"") -> list[int]:
    """Return the processes of a name that have a word on their command line or in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # other processes of this computer end meanwhile
            if (process / "comm").read_text().strip() != name:
                continue
            if word in (process / "cmdline").read_bytes() + (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def send(number: signal.Signals, name: str, word: bytes = f"iolab-{VOLUME}".encode()) -> Inject:
    """Return what sends a signal to the lab's processes of a name."""

    def inject() -> None:
        found = processes(name, word)
        assert found, f"no {name} runs"
        for pid in found:
            os.kill(pid, number)

    return inject


def lab(machines: str, *, links: str = "", volume: str = "", fio: str = FIO) -> str:
    """Return an experiment."""
    return LAB.format(machines=machines, links=links, volume=volume, fio=fio)


def by_user(protocol: str, *, ssh: bool) -> str:
    """Return a lab in which QEMU's storage daemon speaks a protocol, or opens a file."""
    at = ", on: pc6" if ssh else ""
    machines = [f"pc2: {{kind: netns{at}, disks: [{{volume: faulty, via: user}}]}}"]
    if ssh:
        machines.append("pc6: {kind: host, ssh: pc6}")
    if protocol == "fuse":
        return lab("\n    ".join(machines), volume=", on: pc6" if ssh else "")
    machines.append(f"pc3: {{kind: netns{at}}}")
    return lab("\n    ".join(machines), links=SAN, volume=f", on: pc3, export: {protocol}")


def by_hypervisor(protocol: str) -> str:
    """Return a lab in which QEMU speaks a protocol for its guest."""
    machines = (
        f"pc2: {{{GUEST}, on: pc1, disks: [{{volume: faulty, via: hypervisor}}]}}\n"
        "    pc1: {kind: netns}\n    pc3: {kind: netns}"
    )
    return lab(machines, links="san: {ends: [pc1.eth0, pc3.eth0]}", volume=f", on: pc3, export: {protocol}")


def by_kernel(protocol: str, target: str) -> str:
    """Return a lab in which a guest's kernel speaks a protocol to a target on a namespace, or on another guest."""
    machines = f"pc2: {{{GUEST}, disks: [{{volume: faulty, via: kernel}}]}}\n    pc3: {{{target}}}"
    return lab(machines, links=SAN, volume=f", on: pc3, export: {protocol}")


SILENT, FAILED = "disk-server-silent", "disk-server-failed"
HANGS, DIES = signal.SIGSTOP, signal.SIGKILL
HOW = {"hangs": HANGS, "dies": DIES}
TARGETS = {"iscsi": "tgtd", "nbd": "qemu-nbd"}


def _user_cases() -> Iterator[Case]:
    for place, ssh in (("here", False), ("on an ssh host", True)):
        for protocol in ("iscsi", "nbd", "fuse"):
            servers = {"storage daemon": "qemu-storage-da"}
            if protocol in TARGETS:
                servers["target"] = TARGETS[protocol]
            for server, program in servers.items():
                for how, number in HOW.items():
                    yield Case(
                        f"{protocol}, via user, {place}: {server} {how}", by_user(protocol, ssh=ssh),
                        send(number, program), (SILENT, FAILED), fio_runs, on_ssh=ssh,
                    )  # fmt: skip


def _guest_cases() -> Iterator[Case]:
    for protocol, program in TARGETS.items():
        for how, number in HOW.items():
            yield Case(
                f"{protocol}, via hypervisor: target {how}", by_hypervisor(protocol), send(number, program),
                (SILENT, FAILED), links_carry,
            )  # fmt: skip
            yield Case(
                f"{protocol}, via kernel, to a namespace: target {how}", by_kernel(protocol, "kind: netns"),
                send(number, program), (SILENT, FAILED), links_carry,
            )  # fmt: skip
    for protocol in ("iscsi", "nvme-tcp", "nbd"):
        for how, number in HOW.items():
            yield Case(
                f"{protocol}, via kernel, to a guest: target's guest {how}", by_kernel(protocol, GUEST),
                send(number, "qemu-system-x86", b"/pc3/"), (SILENT, FAILED), links_carry,
            )  # fmt: skip
    for how, number in HOW.items():
        yield Case(
            f"local, via hypervisor: the guest {how}",
            lab(f"pc2: {{{GUEST}, disks: [{{volume: faulty}}]}}"),
            send(number, "qemu-system-x86", b"/pc2/"), (SILENT, FAILED, "agent-was-lost", "several-failures"), guest_io,
        )  # fmt: skip


def guest_io() -> bool:
    """Whether a guest's hypervisor has written more than what fills the disk."""
    total = 0
    for pid in processes("qemu-system-x86", b"/pc2/"):
        with contextlib.suppress(OSError):
            lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            total = max(total, int(lines["write_bytes"]))
    return total > MOVED_BYTES


CASES: tuple[Case, ...] = (*_user_cases(), *_guest_cases())
